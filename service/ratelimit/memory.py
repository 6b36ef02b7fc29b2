"""The in-process rate limit: a sliding window per client, exact at its edges."""

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from service.model import ComponentState
from service.ports import WINDOW_S, Allowance

MAX_CLIENTS = 100_000
"""Beyond so many clients in one window the one that was idle longest is forgotten: memory stays bounded."""


class MemoryLimiter:
    """Keeps the time of each request of the last 60 s, by client: at most `limit` of them."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._taken: OrderedDict[str, list[float]] = OrderedDict()  # the client idle longest is first

    async def take(self, client: str) -> Allowance:
        return self.admit(client)

    def admit(self, client: str) -> Allowance:
        """Count one request, or refuse it; without a wait, so that nothing comes between."""
        now = self._clock()
        self._forget_idle(now)
        taken = self._taken.setdefault(client, [])
        del taken[: bisect_right(taken, now - WINDOW_S)]
        if len(taken) >= self.limit:
            return Allowance(False, self.limit, 0, taken[-self.limit] + WINDOW_S - now)
        taken.append(now)
        self._taken.move_to_end(client)
        return Allowance(True, self.limit, self.limit - len(taken), taken[0] + WINDOW_S - now)

    async def give_back(self, client: str) -> None:
        self.take_back(client)

    def take_back(self, client: str) -> None:
        """Count the newest request no longer: it was refused elsewhere, or does not count."""
        if taken := self._taken.get(client):
            taken.pop()

    def state(self) -> ComponentState:
        return ComponentState("limiter", True, f"in this process, {self.limit} per minute and client")

    @property
    def clients(self) -> int:
        """How many are remembered."""
        return len(self._taken)

    def _forget_idle(self, now: float) -> None:
        while self._taken:
            client, taken = next(iter(self._taken.items()))
            if taken and taken[-1] > now - WINDOW_S and len(self._taken) <= MAX_CLIENTS:
                return
            del self._taken[client]
