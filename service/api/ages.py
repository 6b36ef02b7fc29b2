"""For how long each dependency has been as it is: an alarm of a second and one of an hour call for different people."""

import time
from collections.abc import Callable
from typing import Literal

from service.model import ComponentState

Condition = Literal["ok", "warning", "away"]


def condition_of(state: ComponentState) -> Condition:
    if not state.ok:
        return "away"
    return "warning" if state.warning else "ok"


class Ages:
    """Notes when a dependency was first seen in its condition. It is looked at where somebody asks, not in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, tuple[Condition, float]] = {}

    def seen(self, state: ComponentState) -> float:
        """Return for how long (s) it has been seen like this; 0 where it has just changed."""
        now, condition = self._clock(), condition_of(state)
        before, since = self._since.get(state.name, (None, now))
        if before != condition:
            since = now
        self._since[state.name] = condition, since
        return now - since
