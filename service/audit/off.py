"""No audit log, for runs that no one relies on: the evaluations. The service itself has no setting that chooses it."""

from collections.abc import Mapping
from typing import Any

from service.model import ComponentState
from service.record import RecordedRun, RecordKind


class NoAudit:
    """Keeps nothing. `reason` says why nothing needs to be kept."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def check(self) -> None:
        pass

    async def begin(self, body: Mapping[str, Any]) -> None:
        pass

    async def append(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        pass

    def hold(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        pass

    async def run(self, run_id: str, client: str) -> RecordedRun | None:  # noqa: ARG002 - the port's signature
        return None

    async def runs_of(self, thread_key: str) -> int:  # noqa: ARG002 - the port's signature
        return 0

    def state(self) -> ComponentState:
        return ComponentState("audit", True, f"off: {self._reason}")
