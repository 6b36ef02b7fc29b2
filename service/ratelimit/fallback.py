"""The shared limit, and the in-process one of the same size while Redis is away: fail open, but not open bar."""

import asyncio
import logging
from typing import Protocol

from service.model import ComponentState
from service.ports import Allowance

logger = logging.getLogger(__name__)

PROBE_S = 2.0
"""How often a Redis that is away is asked whether it is back; no request waits for that."""


class SharedWindow(Protocol):
    """A limit over several processes. Its methods raise where it cannot be asked."""

    @property
    def place(self) -> str: ...

    async def take(self, client: str) -> Allowance: ...

    async def give_back(self, client: str) -> None: ...

    async def probe(self) -> None: ...


class LocalWindow(Protocol):
    """This process's own limit, which can always be asked at once."""

    @property
    def limit(self) -> int: ...

    def admit(self, client: str) -> Allowance: ...

    def take_back(self, client: str) -> None: ...


class WithFallback:
    """Asks the shared limit, and this process's own first.

    What this process admitted is never more than what all did, so the own limit refuses nothing that the shared one
    would admit; but it knows, when Redis goes and when it comes back, what was admitted before: no client gets a second
    allowance out of an outage. Only the request that finds Redis away waits for it, once. `away` is how `shared` says
    so: any other exception is a bug, and leaves its traceback in the log.
    """

    def __init__(
        self, shared: SharedWindow, own: LocalWindow, away: type[Exception], *, probe_s: float = PROBE_S
    ) -> None:
        self._shared = shared
        self._own = own
        self._away = away
        self._probe_s = probe_s
        self._reason = ""
        self._probing: asyncio.Task[None] | None = None
        self.failopen_total = 0
        """Requests that were limited in this process alone since the start."""

    async def open(self) -> None:
        """Find out at start whether Redis can be asked: a missing one is warned of, and does not stop the service."""
        try:
            await self._shared.probe()
        except Exception as error:  # as in `take`
            self._fall_back(error)

    async def take(self, client: str) -> Allowance:
        own = self._own.admit(client)
        if self._probing is None and own.allowed:
            try:
                shared = await self._shared.take(client)
            except Exception as error:  # no question fails for the limiter's sake, whatever it is
                self._fall_back(error)
            else:
                if not shared.allowed:
                    self._own.take_back(client)
                return shared
        self.failopen_total += self._probing is not None
        return own

    async def give_back(self, client: str) -> None:
        self._own.take_back(client)
        if self._probing is None:
            try:
                await self._shared.give_back(client)
            except Exception as error:  # as in `take`
                self._fall_back(error)

    def state(self) -> ComponentState:
        detail = f"Redis at {self._shared.place}, {self._own.limit} per minute and client"
        counted = f"limiter_failopen_total={self.failopen_total}"
        if self._probing is None:
            return ComponentState("limiter", True, f"{detail}; {counted}")
        warning = f"Redis is away ({self._reason}): each process limits its own requests until it is back."
        return ComponentState("limiter", True, f"{detail}; {counted}", warning)

    async def aclose(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])

    def _fall_back(self, error: Exception) -> None:
        if self._probing is not None:
            return  # requests that waited at the same time find the same fault
        self._reason = str(error)
        bug = None if isinstance(error, self._away) else error
        logger.warning("rate limit: Redis is away (%s); limiting in this process until it is back", error, exc_info=bug)
        self._probing = asyncio.create_task(self._until_back(), name="rate limit probe")

    async def _until_back(self) -> None:
        while True:
            await asyncio.sleep(self._probe_s)
            try:
                await self._shared.probe()
                break
            except Exception as error:  # as in `take`
                self._reason = str(error)
        self._probing = None
        logger.warning("rate limit: Redis is back; %d requests were limited without it", self.failopen_total)
