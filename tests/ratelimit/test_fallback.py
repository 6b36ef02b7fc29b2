"""Redis away and back again: nobody waits twice, nobody gets a second allowance, and the operator is told."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest

from service.ports import Allowance, RateLimiter
from service.ratelimit.fallback import WithFallback
from service.ratelimit.memory import MemoryLimiter
from service.ratelimit.redis import RedisAway, RedisWindow
from tests.ratelimit.redis_server import RedisServer, WrongPeer, needs_redis
from tests.served import eventually

pytestmark = [pytest.mark.slow]
TIMEOUT_S = 2.0  # of a Redis that is there, but whose processor is busy with other things


HANG_S = 20.0


class Counted(RedisWindow):
    """Counts the requests that went to Redis, and how many of them waited for it at the same time."""

    def __init__(self, url: str, limit: int, timeout_s: float) -> None:
        super().__init__(url, limit, timeout_s)
        self.asked = self.waiting = self.waited_together = 0

    async def take(self, client: str) -> Allowance:
        self.asked += 1
        self.waiting += 1
        self.waited_together = max(self.waited_together, self.waiting)
        try:
            return await super().take(client)
        finally:
            self.waiting -= 1


@contextlib.asynccontextmanager
async def counting(url: str, limit: int = 5, probe_s: float = 0.1) -> AsyncIterator[tuple[WithFallback, Counted]]:
    shared = Counted(url, limit, TIMEOUT_S)
    limiter = WithFallback(shared, MemoryLimiter(limit), RedisAway, probe_s=probe_s)
    port: RateLimiter = limiter
    assert port is limiter
    try:
        yield limiter, shared
    finally:
        await limiter.aclose()
        await shared.aclose()


@contextlib.asynccontextmanager
async def opened(url: str, limit: int = 5, probe_s: float = 0.1) -> AsyncIterator[WithFallback]:
    async with counting(url, limit, probe_s) as (limiter, _):
        yield limiter


async def allowed(limiter: WithFallback, client: str, times: int) -> int:
    return sum([(await limiter.take(client)).allowed for _ in range(times)])


def is_away(limiter: WithFallback) -> bool:
    return bool(limiter.state().warning)


async def falls_back(limiter: WithFallback, client: str = "first") -> None:
    """Ask once, and find Redis away. The bound is against a hang."""
    async with asyncio.timeout(HANG_S):
        assert (await limiter.take(client)).allowed
    assert is_away(limiter)


def test_nothing_is_away_in_a_state_that_says_so() -> None:
    limiter = WithFallback(RedisWindow("redis://redis.test", 5, 1), MemoryLimiter(5), RedisAway)
    assert (limiter.state().ok, limiter.state().warning) == (True, "")
    assert "limiter_failopen_total=0" in limiter.state().detail


@needs_redis
@pytest.mark.parametrize("fault", ["kill", "freeze", "fill"])
async def test_the_own_limit_holds_at_once_and_redis_is_back_by_itself(redis_server: RedisServer, fault: str) -> None:
    mend = {"kill": redis_server.start, "freeze": redis_server.thaw, "fill": redis_server.empty}[fault]
    async with opened(redis_server.url) as limiter:
        assert await allowed(limiter, "alice", 2) == 2
        getattr(redis_server, fault)()
        await falls_back(limiter)
        assert await allowed(limiter, "alice", 20) == 3  # two were admitted before: no second allowance
        assert await allowed(limiter, "bob", 20) == 5
        assert limiter.failopen_total == 41
        mend()
        await eventually(lambda: not is_away(limiter))
        assert await allowed(limiter, "alice", 5) == 0  # nor out of the way back
        assert await allowed(limiter, "carol", 20) == 5
        assert limiter.failopen_total == 41


@needs_redis
async def test_a_frozen_redis_costs_one_short_wait_and_then_nothing(redis_server: RedisServer) -> None:
    """D11: the first request is let go at the time limit, and no other asks Redis at all."""
    async with counting(redis_server.url, limit=1000) as (limiter, shared):
        await limiter.take("alice")
        redis_server.freeze()
        await falls_back(limiter)
        assert "no answer within 2 s" in limiter.state().warning
        assert shared.asked == 2
        assert await allowed(limiter, "alice", 500) == 500
        assert shared.asked == 2
        redis_server.thaw()


async def test_a_black_hole_costs_those_who_ask_at_once_one_wait_together() -> None:
    async with WrongPeer() as peer, counting(peer.url, limit=1000, probe_s=60) as (limiter, shared):
        async with asyncio.timeout(HANG_S):
            taken = await asyncio.gather(*(limiter.take("alice") for _ in range(200)))
        assert sum(item.allowed for item in taken) == 200
        assert shared.waited_together == shared.asked == 200
        assert peer.connections <= 200  # none tries again
        assert await allowed(limiter, "alice", 100) == 100
        assert shared.asked == 200


async def test_a_redis_that_is_missing_at_start_is_warned_of_and_found_later(caplog: pytest.LogCaptureFixture) -> None:
    loading = b"-LOADING Redis is loading the dataset in memory\r\n"
    async with WrongPeer(loading) as peer, opened(peer.url) as limiter:
        await limiter.open()
        assert "BusyLoadingError" in limiter.state().warning
        assert await allowed(limiter, "alice", 20) == 5
        peer.reply = b"*3\r\n:1\r\n:4\r\n:60000\r\n"
        await eventually(lambda: not is_away(limiter))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "Redis is away (BusyLoadingError" in warnings[0]
    assert "Redis is back; 20 requests" in warnings[1]


@needs_redis
async def test_what_another_process_admitted_counts(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as one, opened(redis_server.url) as other:
        assert await allowed(one, "alice", 3) == 3
        assert await allowed(other, "alice", 5) == 2
        assert await allowed(one, "alice", 5) == 0


@needs_redis
async def test_what_redis_refuses_is_not_counted_here_either(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as one, opened(redis_server.url) as other:
        assert await allowed(one, "alice", 5) == 5
        assert await allowed(other, "alice", 20) == 0
        redis_server.kill()
        await falls_back(other)
        assert await allowed(other, "alice", 20) == 5


@needs_redis
async def test_a_flapping_redis_admits_no_more_than_the_limit(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, limit=10) as limiter:
        admitted = 0
        for _ in range(4):
            admitted += await allowed(limiter, "alice", 4)
            redis_server.kill()
            admitted += await allowed(limiter, "alice", 4)
            redis_server.start()
            await eventually(lambda: not is_away(limiter))
        assert admitted == 10


async def test_a_request_that_leaves_while_it_waits_for_redis_harms_no_other() -> None:
    async with WrongPeer() as peer, opened(peer.url) as limiter:
        leaving = asyncio.create_task(limiter.take("alice"))
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert await allowed(limiter, "alice", 10) == 4  # a request counts, also where its reader has left


@needs_redis
async def test_what_is_given_back_counts_neither_here_nor_in_redis_also_where_it_has_gone(
    redis_server: RedisServer,
) -> None:
    async with opened(redis_server.url) as limiter:
        assert await allowed(limiter, "alice", 9) == 5
        await limiter.give_back("alice")
        assert await allowed(limiter, "alice", 9) == 1
        redis_server.kill()
        await limiter.give_back("alice")
        assert is_away(limiter)
        assert await allowed(limiter, "alice", 9) == 1


class Broken:
    """A shared window with a bug."""

    place = "nowhere"

    async def take(self, client: str) -> Allowance:
        raise KeyError(client)

    async def give_back(self, client: str) -> None:
        raise KeyError(client)

    async def probe(self) -> None:
        raise KeyError("probe")


async def test_a_bug_in_the_shared_limit_fails_no_question_and_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limiter = WithFallback(Broken(), MemoryLimiter(5), RedisAway, probe_s=0.01)
    assert await allowed(limiter, "alice", 9) == 5
    await asyncio.sleep(0.05)
    assert is_away(limiter)
    await limiter.aclose()
    assert caplog.text.count("Traceback") == 1
    assert "KeyError: 'alice'" in caplog.text
