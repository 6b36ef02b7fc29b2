"""Locks on threads, where this process is the only one, and how a lock is waited for."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import ThreadsUnavailable
from service.ports import ThreadLocks

LOOK_AGAIN_S = 0.05


class OneProcess:
    """`ThreadLocks` without replicas: every lock is free, since `Runs` and `History` keep their own order."""

    async def take(self, name: str) -> bool:  # noqa: ARG002 - the port's signature
        return True

    async def release(self, name: str) -> None:
        pass

    async def taken(self, name: str) -> bool:  # noqa: ARG002 - the port's signature
        return False

    async def confirm(self, name: str) -> None:
        pass


@asynccontextmanager
async def holding(locks: ThreadLocks, name: str, within_s: float) -> AsyncIterator[None]:
    """Wait for the lock and hold it. Raises `ThreadsUnavailable` where it does not come free within `within_s`.

    It is asked for again and again: a session that blocks on it would keep PostgreSQL from building an index meanwhile.
    """
    until = time.monotonic() + within_s
    try:
        while not await locks.take(name):
            if time.monotonic() > until:
                raise ThreadsUnavailable("The conversations are busy at the moment. Please try again shortly.")
            await asyncio.sleep(LOOK_AGAIN_S)
        yield
    finally:
        await locks.release(name)
