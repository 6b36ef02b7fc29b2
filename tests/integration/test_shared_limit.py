"""Two server processes and a real redis-server that is killed, frozen and filled under them (acceptance 2)."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ratelimit.redis_server import HOST, RedisServer, WrongPeer, needs_redis

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
LIMIT = 10
ASK = {"question": "How long must record 1 be kept?"}
JSON = {"Accept": "application/json"}


class Process:
    """One server, with its log."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        folder.mkdir()
        self.log = folder / "log"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        chosen = {"RATE_LIMIT_PER_MINUTE": str(LIMIT), "REDIS_URL": redis_url, "DATA_DIR": str(folder)}
        chosen |= {"TRUSTED_PROXIES": HOST, "ALLOW_ANONYMOUS": "true"}
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.limited_server", str(folder)],
                cwd=ROOT,
                env={**kept, **chosen},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        assert port, self.log.read_text()
        self.http = httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False, timeout=20)

    def chat(self, client: str) -> httpx.Response:
        return self.http.post("/chat", json=ASK, headers={**JSON, "X-Forwarded-For": client})

    def answered(self, client: str, times: int) -> int:
        """Ask so often, and count the answers: every request is answered, or told to wait."""
        statuses = [self.chat(client).status_code for _ in range(times)]
        assert set(statuses) <= {200, 429}, statuses
        return statuses.count(200)

    def limiter(self) -> dict[str, Any]:
        [state] = self.http.get("/readyz").json()["dependencies"]
        found: dict[str, Any] = state
        return found

    def is_away(self) -> bool:
        return bool(self.limiter()["warning"])

    def stop(self) -> None:
        self.http.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=20) == 0, self.log.read_text()
        self._process.stdout.close()


@pytest.fixture
def pair(tmp_path: Path, redis_server: RedisServer) -> Iterator[tuple[Process, Process]]:
    both = Process(tmp_path / "one", redis_server.url), Process(tmp_path / "two", redis_server.url)
    yield both
    for process in both:
        process.stop()


def wait_for(condition: Callable[[], bool], within_s: float) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, "it did not happen in time"
        time.sleep(0.1)


@needs_redis
def test_two_processes_share_one_limit(pair: tuple[Process, Process]) -> None:
    one, two = pair
    assert one.answered("203.0.113.1", 6) == 6
    assert two.answered("203.0.113.1", 9) == 4
    refused = one.chat("203.0.113.1")
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert two.answered("203.0.113.2", 2) == 2


@needs_redis
@pytest.mark.parametrize("fault", ["kill", "freeze", "fill"])
def test_a_redis_that_fails_fails_no_chat_and_is_back_within_ten_seconds(
    pair: tuple[Process, Process], redis_server: RedisServer, fault: str
) -> None:
    """D11: killed, frozen and full."""
    mend = {"kill": redis_server.start, "freeze": redis_server.thaw, "fill": redis_server.empty}[fault]
    assert [process.answered("203.0.113.1", 3) for process in pair] == [3, 3]
    getattr(redis_server, fault)()
    began = time.monotonic()
    for process in pair:
        assert process.answered("203.0.113.1", 20) == LIMIT - 3  # each process holds the limit by itself
        assert "Redis is away" in process.limiter()["warning"]
        assert "Redis is away" in process.log.read_text()
        assert "limiter_failopen_total=20" in process.limiter()["detail"]
    assert time.monotonic() - began < 15
    mend()
    wait_for(lambda: not any(process.is_away() for process in pair), within_s=10)
    one, two = pair
    assert one.answered("203.0.113.3", 6) + two.answered("203.0.113.3", 6) == LIMIT
    assert all("Redis is back" in process.log.read_text() for process in pair)


REPLIES = {
    "a black hole": (b"", False),
    "loading": (b"-LOADING Redis is loading the dataset in memory\r\n", False),
    "full": (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", False),
    "closing in mid-reply": (b"*3\r\n:1\r\n:2", True),
    "closing at once": (b"", True),
    "no Redis": (b"HTTP/1.1 400 Bad Request\r\n\r\n", True),
}


@pytest.mark.parametrize(("reply", "hangs_up"), REPLIES.values(), ids=REPLIES)
async def test_a_peer_that_is_no_working_redis_fails_no_chat(tmp_path: Path, reply: bytes, hangs_up: bool) -> None:
    """D11: silent, loading, hanging up in mid-reply."""
    async with WrongPeer(reply, hangs_up=hangs_up) as peer:
        process = await asyncio.to_thread(Process, tmp_path / "one", peer.url)
        try:
            assert await asyncio.to_thread(process.answered, "203.0.113.1", 2 * LIMIT) == LIMIT
            assert await asyncio.to_thread(process.is_away)
        finally:
            await asyncio.to_thread(process.stop)
