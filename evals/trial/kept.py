"""What a trial keeps of each run: the very record that the audit log would hold, in memory."""

from collections.abc import Mapping
from typing import Any, cast

from service.model import ComponentState
from service.record import RecordedRun, RecordKind, RunRecord


class KeptRecords:
    """`AuditSink` of a trial. `runs` are the records by run_id."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRecord] = {}

    def check(self) -> None:
        pass

    async def begin(self, body: Mapping[str, Any]) -> None:
        pass

    async def append(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        if kind == "run":
            self.runs[body["run_id"]] = cast(RunRecord, dict(body))

    def hold(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        raise AssertionError(f"what is kept in memory need not be held: {kind} {body.get('run_id')}")

    async def run(self, run_id: str, client: str) -> RecordedRun | None:  # noqa: ARG002 - the port's signature
        return None

    async def runs_of(self, thread_key: str) -> int:  # noqa: ARG002 - the port's signature
        return 0

    def state(self) -> ComponentState:
        return ComponentState("audit", True, "in memory: an evaluation")
