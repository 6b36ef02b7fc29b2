"""How late the event loop is: what computes on it makes every stream of the process stutter."""

import asyncio
import time
from collections import deque

SAMPLE_S = 0.25
WINDOW_S = 60.0
"""A scrape every 15 s must not miss a lag that came and went between two of them."""


class LoopLag:
    """A timer that measures how late it is woken. `worst` is the most of the last 60 s (s)."""

    def __init__(self, sample_s: float = SAMPLE_S, window_s: float = WINDOW_S) -> None:
        self._sample_s = sample_s
        self._window_s = window_s
        self._late: deque[tuple[float, float]] = deque()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._measure(), name="event loop lag")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def worst(self) -> float:
        # A copy: METRICS_PORT is read in a thread of its own, and a deque that grows meanwhile cannot be walked.
        return max((late for _, late in self._late.copy()), default=0.0)

    async def _measure(self) -> None:
        while True:
            due = time.monotonic() + self._sample_s
            await asyncio.sleep(self._sample_s)
            now = time.monotonic()
            self._late.append((now, max(0.0, now - due)))
            while self._late[0][0] < now - self._window_s:
                self._late.popleft()
