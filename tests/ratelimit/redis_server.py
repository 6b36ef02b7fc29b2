"""A real redis-server on a free port of 127.0.0.1, which a test can freeze, fill, kill and start again."""

import asyncio
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, ConnectionError
from redis.retry import Retry

EXECUTABLE = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(EXECUTABLE is None, reason="redis-server is not installed")
HOST = "127.0.0.1"
STARTS_WITHIN_S = 20.0


class RedisServer:
    """Nothing is written to disk unless the test asks for it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://{HOST}:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None
        self.start(*options)

    def start(self, *options: str, loaded: bool = True) -> None:
        assert EXECUTABLE is not None
        fixed = [
            "--port",
            str(self.port),
            "--bind",
            HOST,
            "--dir",
            str(self.folder),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process = subprocess.Popen([EXECUTABLE, *fixed, *options], stdout=subprocess.DEVNULL)
        with self.client() as client:
            self._wait(client, loaded)

    def _wait(self, client: "Redis", loaded: bool) -> None:
        for _ in range(int(STARTS_WITHIN_S / 0.05)):
            try:
                client.ping()
                return
            except BusyLoadingError:
                if not loaded:
                    return
            except ConnectionError:
                pass
            assert self._process is not None
            assert self._process.poll() is None, "redis-server has ended"
            signal.sigtimedwait([], 0.05)
        raise AssertionError("redis-server did not start")

    def client(self) -> "Redis":
        return Redis(host=HOST, port=self.port, decode_responses=True, retry=Retry(NoBackoff(), 0))

    def command(self, *words: str | int) -> object:
        with self.client() as client:
            found: object = client.execute_command(*words)
            return found

    def connected(self) -> int:
        with self.client() as client:
            return len(client.client_list())

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait(timeout=10)
            self._process = None

    def fill(self) -> None:
        """No command that needs memory is run any more (`-OOM`)."""
        self.command("CONFIG", "SET", "maxmemory", 1)

    def empty(self) -> None:
        self.command("CONFIG", "SET", "maxmemory", 0)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    yield server
    server.kill()


class WrongPeer:
    """Listens where a Redis should, and answers each command with fixed bytes, or with silence; then may hang up."""

    def __init__(self, reply: bytes = b"", *, hangs_up: bool = False) -> None:
        self.reply = reply
        self.hangs_up = hangs_up
        self.connections = 0
        self.asked = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "WrongPeer":
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.url = f"redis://{HOST}:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await reader.read(65536):
                self.asked += 1
                writer.write(self.reply)
                if self.hangs_up:
                    break
        except ConnectionError:
            pass
        finally:
            writer.close()
