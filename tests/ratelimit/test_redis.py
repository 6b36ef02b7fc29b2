"""The shared window on a real redis-server: atomic, on Redis' clock, and never a reply that is another's."""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncIterator

import pytest

from service.ports import Allowance
from service.ratelimit.redis import CONNECTIONS, RedisAway, RedisWindow, place_of
from tests.ratelimit.redis_server import RedisServer, WrongPeer, needs_redis

pytestmark = [pytest.mark.slow]
KEY = "gatehouse:rate:alice"


@contextlib.asynccontextmanager
async def opened(url: str, limit: int = 3, timeout_s: float = 30, window_s: float = 60) -> AsyncIterator[RedisWindow]:
    window = RedisWindow(url, limit, timeout_s, window_s=window_s)
    try:
        yield window
    finally:
        await window.aclose()


async def allowed(window: RedisWindow, client: str, times: int) -> int:
    return sum([(await window.take(client)).allowed for _ in range(times)])


@needs_redis
async def test_the_limit_is_admitted_and_one_more_is_told_how_long_to_wait(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as window:
        taken = [await window.take("alice") for _ in range(4)]
    assert [(item.allowed, item.limit, item.remaining) for item in taken] == [
        (True, 3, 2),
        (True, 3, 1),
        (True, 3, 0),
        (False, 3, 0),
    ]
    assert all(50 < item.reset_s <= 60 for item in taken)


@needs_redis
async def test_what_is_given_back_may_be_asked_again_in_any_process(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as first, opened(redis_server.url) as second:
        assert await allowed(first, "alice", 4) == 3
        await second.give_back("alice")
        await second.give_back("nobody")
        assert await allowed(first, "alice", 4) == 1


@needs_redis
async def test_hundreds_at_once_over_two_connections_admit_exactly_the_limit(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, limit=50) as first, opened(redis_server.url, limit=50) as second:
        taken = await asyncio.gather(*(window.take("alice") for window in (first, second) for _ in range(150)))
        assert redis_server.connected() <= 2 * CONNECTIONS + 1  # its own
    assert sum(item.allowed for item in taken) == 50
    assert sorted(item.remaining for item in taken if item.allowed) == list(range(50))


@needs_redis
async def test_the_window_slides(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, window_s=0.6) as window:
        assert await allowed(window, "alice", 4) == 3
        refused = await window.take("alice")
        await asyncio.sleep(refused.reset_s + 0.01)
        assert await allowed(window, "alice", 1) == 1


@needs_redis
async def test_each_client_has_a_key_of_its_own_that_expires(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as window:
        for client in ("alice", "192.0.2.1", "2001:db8::/64", "sign-in 192.0.2.1", "ünï code\n"):
            assert await allowed(window, client, 4) == 3
        await asyncio.gather(*(window.take(f"client-{number}") for number in range(500)))
    with redis_server.client() as client:
        keys = client.keys("gatehouse:rate:*")
        assert len(keys) == 505
        assert all(0 < client.pttl(key) <= 60_000 for key in keys)


@needs_redis
async def test_a_lower_limit_holds_for_what_was_admitted_under_a_higher_one(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, limit=5) as higher, opened(redis_server.url, limit=2) as lower:
        assert await allowed(higher, "alice", 5) == 5
        refused = await lower.take("alice")
    assert refused == Allowance(False, 2, 0, refused.reset_s)
    assert 50 < refused.reset_s <= 60


@needs_redis
async def test_the_clock_of_redis_may_be_wrong_and_may_be_set(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as window:
        ahead = int(time.time() * 1000) + 30_000
        redis_server.command("RPUSH", KEY, ahead, ahead, ahead)
        refused = await window.take("alice")
        assert (refused.allowed, refused.reset_s) == (False, 60)
        redis_server.command("DEL", KEY)
        far_ahead = ahead + 3_600_000  # the clock was set back by an hour: nobody waits an hour for it
        redis_server.command("RPUSH", KEY, far_ahead, far_ahead, far_ahead)
        assert await allowed(window, "alice", 4) == 3


@needs_redis
async def test_a_flushed_redis_and_forgotten_scripts_are_no_fault(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as window:
        assert await allowed(window, "alice", 4) == 3
        redis_server.command("FLUSHALL")
        redis_server.command("SCRIPT", "FLUSH")
        assert await allowed(window, "alice", 4) == 3


@needs_redis
async def test_connections_that_redis_closed_are_no_outage(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, limit=10) as window:
        await asyncio.gather(*(window.take("alice") for _ in range(4)))
        redis_server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert (await window.take("alice")).remaining == 5
        redis_server.kill()
        redis_server.start()
        assert (await window.take("alice")).remaining == 9


@needs_redis
async def test_a_cancelled_request_never_shifts_anothers_reply(redis_server: RedisServer) -> None:
    """Each client's first request leaves 999: a reply that is another's would show."""
    async with opened(redis_server.url, limit=1000) as window:
        for turn in range(300):
            leaving = asyncio.create_task(window.take("leaving"))
            for _ in range(turn % 12):
                await asyncio.sleep(0)
            leaving.cancel()
            staying = await asyncio.gather(*(window.take(f"{turn}-{number}") for number in range(3)))
            assert {item.remaining for item in staying} == {999}
            with contextlib.suppress(asyncio.CancelledError):
                await leaving


@needs_redis
async def test_requests_cancelled_while_redis_is_frozen_leave_no_late_replies(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, limit=1000) as window:
        await asyncio.gather(*(window.take("warm") for _ in range(8)))
        redis_server.freeze()
        waiting = [asyncio.create_task(window.take("leaving")) for _ in range(8)]
        await asyncio.sleep(0.05)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        redis_server.thaw()
        assert {(await window.take(f"client-{number}")).remaining for number in range(20)} == {999}


@needs_redis
async def test_no_connection_is_lost_to_timeouts_and_cancels(redis_server: RedisServer) -> None:
    async with opened(redis_server.url, timeout_s=0.1) as window:
        before = len(os.listdir("/proc/self/fd"))
        redis_server.freeze()
        for _ in range(20):
            with pytest.raises(RedisAway):
                await window.take("alice")
        redis_server.thaw()
        await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) <= before + 1


@needs_redis
async def test_a_full_redis_a_wrong_password_and_a_key_of_another_kind_are_faults(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as window:
        redis_server.command("SET", KEY, "not a list")
        with pytest.raises(RedisAway, match="WRONGTYPE"):
            await window.take("alice")
        redis_server.fill()
        with pytest.raises(RedisAway, match=r"OutOfMemory|OOM"):
            await window.take("bob")
        with pytest.raises(RedisAway, match=r"OutOfMemory|OOM"):
            await window.probe()
        redis_server.empty()
        redis_server.command("CONFIG", "SET", "requirepass", "wanted")
        async with opened(redis_server.url.replace("//", "//:guessed-wrong@")) as wrong:
            with pytest.raises(RedisAway) as refused:
                await wrong.take("bob")
            assert "guessed-wrong" not in str(refused.value)


@needs_redis
async def test_a_redis_that_is_loading_is_a_fault(redis_server: RedisServer) -> None:
    for number in range(100):
        redis_server.command("SET", f"key-{number}", secrets.token_hex(4000))
    redis_server.command("SAVE")
    redis_server.kill()
    slowly = ("--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024")
    redis_server.start(*slowly, loaded=False)
    async with opened(redis_server.url) as window:
        with pytest.raises(RedisAway, match="BusyLoading"):
            await window.take("alice")


REPLIES = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "full": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "read-only": b"-READONLY You can't write against a read only replica.\r\n",
    "no script": b"-NOSCRIPT No matching script.\r\n",
    "another type": b"+OK\r\n",
    "nothing": b"$-1\r\n",
    "null array": b"*-1\r\n",
    "too few": b"*2\r\n:1\r\n:2\r\n",
    "too many": b"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
    "words": b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n",
    "out of bounds": b"*3\r\n:1\r\n:99\r\n:60000\r\n",
    "negative": b"*3\r\n:1\r\n:2\r\n:-5\r\n",
    "an error inside": b"*3\r\n:1\r\n-ERR\r\n:3\r\n",
    "no number": b":abc\r\n",
    "HTTP": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "garbage": b"\xff\x00\xfe\r\n",
    "nested": b"*1\r\n" * 3000,
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_a_peer_that_is_no_redis_is_a_fault_and_its_connection_is_dropped(reply: bytes) -> None:
    async with WrongPeer(reply) as peer, opened(peer.url, timeout_s=0.3) as window:
        with pytest.raises(RedisAway):
            await window.take("alice")


@pytest.mark.parametrize("reply", [b"", b"*3\r\n:1\r\n", b"*3\r\n:1\r\n:2\r\n:6", b"$100\r\nabc"], ids=str)
async def test_a_peer_that_hangs_up_in_mid_reply_is_a_fault(reply: bytes) -> None:
    async with WrongPeer(reply, hangs_up=True) as peer, opened(peer.url, timeout_s=2) as window:
        for _ in range(2):
            with pytest.raises(RedisAway):
                await window.take("alice")
        assert peer.connections == 2


@pytest.mark.parametrize("reply", [b"", b"*3\r\n:1\r\n"], ids=str)
async def test_a_peer_that_falls_silent_costs_one_short_wait(reply: bytes) -> None:
    async with WrongPeer(reply) as peer, opened(peer.url, timeout_s=0.2) as window:
        async with asyncio.timeout(20):
            with pytest.raises(RedisAway, match=r"no answer within 0\.2 s"):
                await window.take("alice")
        assert (peer.connections, peer.asked) == (1, 1)


def test_the_place_of_a_redis_is_told_without_its_password() -> None:
    assert place_of("redis://user:secret@redis.test:6379/0") == "redis.test:6379"
    assert place_of("unix:///run/redis.sock?db=1") == "/run/redis.sock"
