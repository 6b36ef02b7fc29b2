"""Traces where none are wanted."""

from service.model import ComponentState
from service.record import FeedbackRecord, RunRecord


class NoTraces:
    """Takes note of nothing. `why` is said on `/readyz`; `warning` where the operator may have meant otherwise."""

    def __init__(self, why: str, warning: str = "") -> None:
        self._why = why
        self._warning = warning

    def ended(self, record: RunRecord) -> None: ...

    def feedback(self, record: FeedbackRecord) -> None: ...

    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None: ...

    def state(self) -> ComponentState:
        return ComponentState("traces", True, self._why, self._warning)
