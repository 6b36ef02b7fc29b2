"""Locks that replicas share: advisory locks of PostgreSQL, all held by one session of this process."""

import asyncio
import hashlib
import logging
from typing import Any

from psycopg import AsyncConnection

from service.errors import ThreadsUnavailable
from service.postgres.pool import ANSWER_S, AWAY_TEXT, KEEPALIVE, answering

logger = logging.getLogger(__name__)

LOST = "The conversation's lock was lost, so the answer was not stored. Please ask again."

# How `pg_locks` shows a lock on one 64-bit key (PostgreSQL manual, 54.12).
STANDS = """
SELECT EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = %s::bigint::oid AND objid = %s::bigint::oid {whose}
)
"""
BY_ANYONE = STANDS.format(whose="")
BY_US = STANDS.format(whose="AND pid = pg_backend_pid()")


class AdvisoryLocks:
    """`ThreadLocks` of several replicas.

    The server lets go of them all when this process ends, however it ends. When the session breaks, what was held is
    lost and may be taken by another replica: `confirm` asks the server before anything is stored.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._held: set[str] = set()

    async def take(self, name: str) -> bool:
        """Take the lock if it is free. One that is cut short counts as held: `release` it."""
        if name in self._held:
            return False
        self._held.add(name)
        got = True
        try:
            got = await self._ask("SELECT pg_try_advisory_lock(%s)", key_of(name))
        except ThreadsUnavailable:
            got = False
            raise
        finally:
            if not got:
                self._held.discard(name)
        return got

    async def release(self, name: str) -> None:
        """Let go of the lock. Never raises: a session that cannot be asked is closed, which lets go of all."""
        if name not in self._held:
            return
        try:
            await self._ask("SELECT pg_advisory_unlock(%s)", key_of(name))
        except ThreadsUnavailable:
            logger.warning("the database is away: its locks are let go of with the session")
            await self.close()
        finally:
            self._held.discard(name)

    async def taken(self, name: str) -> bool:
        """Whether this or another replica holds the lock."""
        return name in self._held or await self._ask(BY_ANYONE, *halves(key_of(name)))

    async def confirm(self, name: str) -> None:
        """Raises `ThreadsUnavailable` where the lock is not ours any more, as the server sees it."""
        if not await self._ask(BY_US, *halves(key_of(name))):
            raise ThreadsUnavailable(LOST)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, query: str, *values: int) -> bool:
        """Ask for one truth. A session that has died since is opened again, once."""
        async with self._turn:
            for last in (False, True):
                try:
                    async with answering():
                        cursor = await (await self._opened()).execute(query, values)
                        row = await cursor.fetchone()
                    return bool(row and row[0])
                except ThreadsUnavailable as error:
                    await self.close()
                    if last or isinstance(error.__cause__, TimeoutError):
                        raise
        raise ThreadsUnavailable(AWAY_TEXT)

    async def _opened(self) -> AsyncConnection[Any]:
        if self._session is None or self._session.closed:
            if self._session is not None:
                logger.warning("the session of the locks was lost; opening another")
            self._session = await AsyncConnection.connect(self._url, autocommit=True, **KEEPALIVE)
            # An operator's limit on idle sessions would let go of the locks of runs that wait for their model.
            await self._session.execute("SET idle_session_timeout = 0")
            await self._session.execute(f"SET statement_timeout = {int(ANSWER_S * 1000)}")
        return self._session


def key_of(name: str) -> int:
    """The lock's 64-bit signed key. Two names that share one would only wait for each other."""
    return int.from_bytes(hashlib.sha256(f"gatehouse {name}".encode()).digest()[:8], "big", signed=True)


def halves(key: int) -> tuple[int, int]:
    """The key as `pg_locks` shows it: classid and objid, unsigned 32 bits each."""
    return (key >> 32) & 0xFFFFFFFF, key & 0xFFFFFFFF
