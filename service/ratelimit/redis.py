"""The rate limit that processes share: one script in Redis per request, and one reply.

The script runs as a whole and reads Redis' own clock, so neither two processes nor two clocks can disagree about a
request. A connection is used again only after the whole reply to its one command was read; after a cancel, a timeout or
a fault it is dropped, so that no reply can ever be taken for another's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError

from service.ports import WINDOW_S, Allowance

CONNECTIONS = 32  # at most: a command takes a fraction of a millisecond, and opening a connection far longer
KEY = "gatehouse:rate:"
PROBE_KEY = "gatehouse:probe"
PROBE_LIMIT = 100_000  # never reached: a probe that is refused would write nothing, and not notice a full Redis

SLIDING_WINDOW = """
-- KEYS[1]: the times of a client's requests in the window, newest first (ms of this server's clock)
local key, limit, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local newest = tonumber(redis.call('LINDEX', key, 0) or now)
if newest > now + window then
  redis.call('DEL', key) -- the clock was set back by more than a window
elseif newest > now then
  now = newest
end
local oldest = redis.call('LINDEX', key, -1)
while oldest and tonumber(oldest) <= now - window do
  redis.call('RPOP', key)
  oldest = redis.call('LINDEX', key, -1)
end
local used = redis.call('LLEN', key)
if used >= limit then
  return {0, 0, redis.call('LINDEX', key, limit - 1) + window - now}
end
redis.call('LPUSH', key, now)
redis.call('PEXPIRE', key, window)
return {1, limit - used - 1, (oldest or now) + window - now}
"""

WRONG = (RedisError, OSError, EOFError, ValueError, TypeError, IndexError, RecursionError)
"""All that a peer which is gone, full, loading, or no Redis at all can cause."""


class RedisAway(Exception):
    """Redis did not give a usable answer. `str(error)` says why, without the password."""


class RedisWindow:
    """One limit in one Redis. `timeout_s` bounds an answer, the connection included."""

    def __init__(self, url: str, limit: int, timeout_s: float, *, window_s: float = WINDOW_S) -> None:
        self.limit = limit
        self._window_ms = int(window_s * 1000)
        self.place = place_of(url)
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(CONNECTIONS)
        # Only its reading of the URL is used: a pool of the library would take connections back after a cancel.
        # No second try, no greeting and no library name: each is a wait or a reply more.
        self._factory = ConnectionPool.from_url(
            url,
            protocol=2,
            driver_info=None,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=timeout_s,
        )

    async def take(self, client: str) -> Allowance:
        """Count one request, or refuse it. Raises `RedisAway`."""
        return await self._asked(KEY + client, self.limit)

    async def give_back(self, client: str) -> None:
        """Count the newest request no longer. Raises `RedisAway`."""
        await self._answered("LPOP", KEY + client)

    async def probe(self) -> None:
        """Run the script as a request would: a Redis that is full or read-only is found too. Raises `RedisAway`."""
        await self._asked(PROBE_KEY, PROBE_LIMIT)

    async def _asked(self, key: str, limit: int) -> Allowance:
        reply = await self._answered("EVAL", SLIDING_WINDOW, 1, key, limit, self._window_ms)
        try:
            return allowance_of(reply, limit, self._window_ms)
        except (ValueError, TypeError) as error:
            raise RedisAway(f"{type(error).__name__}: {error}") from error

    async def _answered(self, *command: str | int) -> object:
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                return await self._run(*command)
        except TimeoutError:
            raise RedisAway(f"no answer within {self._timeout_s:g} s") from None
        except WRONG as error:
            raise RedisAway(f"{type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        while self._idle:
            await dropped(self._idle.pop())

    async def _run(self, *command: str | int) -> object:
        if not self._idle:
            return await self._run_on(self._new(), *command)
        try:
            return await self._run_on(self._idle.pop(), *command)
        except ConnectionLost:
            # Redis closes idle connections, and all of them when it restarts: that alone is no outage.
            await self.aclose()
            return await self._run_on(self._new(), *command)

    async def _run_on(self, connection: Connection, *command: str | int) -> object:
        async with returned_when_whole(connection, self._idle):
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(*command)
            return await connection.read_response()

    def _new(self) -> Connection:
        return cast(Connection, self._factory.make_connection())  # type: ignore[no-untyped-call]


@contextlib.asynccontextmanager
async def returned_when_whole(connection: Connection, idle: list[Connection]) -> AsyncIterator[None]:
    """Keep the connection for the next command where this one got its reply; drop it in any other case."""
    try:
        yield
    except BaseException:
        await dropped(connection)
        raise
    idle.append(connection)


async def dropped(connection: Connection) -> None:
    with contextlib.suppress(*WRONG):
        await connection.disconnect(nowait=True)


def allowance_of(reply: Any, limit: int, window_ms: int) -> Allowance:
    """Read the script's reply. Raises `ValueError` or `TypeError` for anything else."""
    allowed, remaining, reset_ms = reply
    if allowed not in (0, 1) or not 0 <= remaining < limit or not 0 <= reset_ms <= window_ms:
        raise ValueError("the reply is not one of the script's")
    return Allowance(allowed == 1, limit, remaining, reset_ms / 1000)


def place_of(url: str) -> str:
    """Where the Redis is, without its password."""
    parts = urlsplit(url)
    return f"{parts.hostname or parts.path}{f':{parts.port}' if parts.port else ''}"
