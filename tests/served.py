"""The application on a real socket of 127.0.0.1, and a client that sees single bytes and can vanish.

The server runs in the test's own event loop, so that a test can count its tasks.
"""

import asyncio
import json
import re
import socket
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import TypeAdapter

from service.api.access import Access
from service.api.app import create_app
from service.api.deps import ApiState
from service.api.events import WireFrame
from service.model import ComponentState
from service.observe.metrics import Metrics
from service.ports import FeedbackObserver, RateLimiter
from service.ratelimit.memory import MemoryLimiter
from service.serve import Server, make_server
from service.sessions import Sessions
from service.skills.registry import Skills
from tests.running import House
from tests.wire import Frame

HOST = "127.0.0.1"
NOWHERE = Path("/nonexistent/sessions")  # of a house without keys, where nobody signs in
QUESTION = "How long must record 1 be kept?"
STREAM: TypeAdapter[Any] = TypeAdapter(WireFrame)
EVENT = re.compile(rb"id: ([0-9]+)\nevent: ([a-z]+)\ndata: ([^\r\n]+)")
LEAVES_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close() sends RST


class Ended(Exception):
    """The server closed the connection before what was expected had arrived."""


class Connection:
    """One HTTP/1.1 connection over a plain socket. `step` is the most bytes that are read at a time."""

    def __init__(self, sock: socket.socket, step: int = 65536) -> None:
        self._sock = sock
        self._step = step
        self._buffer = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        length: bool = True,
    ) -> None:
        """Send a request. `length` False leaves the framing of the body to `headers`."""
        given = {"Host": HOST, **({"Content-Length": str(len(body))} if length else {}), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        await self.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body)

    async def ask(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        sent = {"Content-Type": "application/json", **(headers or {})}
        await self.send("POST", "/chat", json.dumps(body).encode(), sent)

    async def read_head(self) -> None:
        first, *lines = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    async def read_body(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        return await self._exactly(int(self.headers["content-length"]))

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._until(b"\r\n"), 16):
            yield await self._exactly(size)
            await self._exactly(2)
        await self._exactly(2)

    async def at_end(self) -> bool:
        """Wait for the server to close; False where it sends something more."""
        return not self._buffer and not await asyncio.get_running_loop().sock_recv(self._sock, 1)

    def vanish(self) -> None:
        """Leave without a goodbye: the peer gets a RST."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LEAVES_AT_ONCE)
        self._sock.close()

    def close(self) -> None:
        self._sock.close()

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    async def _more(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._sock, self._step)
        if not data:
            raise Ended
        self._buffer += data


class Stream:
    """A chat as its reader sees it. `blocks` is what left so far, each with the time it was there (monotonic, s).

    `frames` can be read in parts: comments are kept in `blocks` only, and anything else in the stream fails the test.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.blocks: list[tuple[float, bytes]] = []
        self.frames = self._read()

    async def _read(self) -> AsyncGenerator[Frame, None]:
        rest = b""
        async for chunk in self.connection.chunks():
            rest += chunk
            while b"\n\n" in rest:
                block, _, rest = rest.partition(b"\n\n")
                self.blocks.append((time.monotonic(), block))
                if not block.startswith(b":"):
                    yield parsed(block)
        assert rest == b""

    async def until(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        """Read up to the first frame that is wanted, and no further."""
        seen = []
        async for frame in self.frames:
            seen.append(frame)
            if wanted(frame):
                return seen
        raise AssertionError("the stream ended without the frame that was waited for")

    @property
    def comments(self) -> list[bytes]:
        return [block for _, block in self.blocks if block.startswith(b":")]


def parsed(block: bytes) -> Frame:
    """A frame: exactly an id, an event and one data line, in ASCII, and valid against the published schema."""
    assert block.isascii()
    found = EVENT.fullmatch(block)
    assert found, block
    frame: Frame = json.loads(found[3])
    assert (int(found[1]), found[2].decode()) == (frame["seq"], frame["type"])
    assert STREAM.dump_python(STREAM.validate_json(found[3], strict=True), mode="json") == frame
    return frame


@dataclass
class Served:
    """A house with its door open. `client` speaks plain HTTP; `asking` reads a stream as it arrives."""

    house: House
    app: FastAPI
    server: Server
    port: int
    client: httpx.AsyncClient
    connections: ExitStack

    async def connect(self, step: int = 65536) -> Connection:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.callback(sock.close)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.port))
        return Connection(sock, step)

    @asynccontextmanager
    async def asking(
        self,
        question: str = QUESTION,
        *,
        step: int = 65536,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> AsyncIterator[Stream]:
        connection = await self.connect(step)
        try:
            await connection.ask({"question": question, **body}, headers)
            await connection.read_head()
            assert connection.status == 200, await connection.read_body()
            stream = Stream(connection)
            async with aclosing(stream.frames):
                yield stream
        finally:
            connection.close()

    async def frames(self, question: str = QUESTION, **body: Any) -> list[Frame]:
        async with self.asking(question, **body) as stream:
            return [frame async for frame in stream.frames]

    async def answer(self, question: str = QUESTION, **body: Any) -> httpx.Response:
        """Ask for one JSON object instead of a stream."""
        asked = {"question": question, **body}
        return await self.client.post("/chat", json=asked, headers={"Accept": "application/json"})


class PromptServer(Server):
    """Looks every 5 ms whether it should end, where uvicorn looks every 100 ms: a test waits for it."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:  # noqa: ASYNC110 - uvicorn's flag, which its signal handlers set
            await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(
    house: House,
    *,
    ping_s: float = 15.0,
    max_body_bytes: int = 65536,
    body_timeout_s: float = 10.0,
    readiness: Callable[[], Awaitable[list[ComponentState]]] | None = None,
    access: Access | None = None,
    limiter: RateLimiter | None = None,
    skills: Skills | None = None,
    feedback_observers: Sequence[FeedbackObserver] = (),
    web_allowed: bool = True,
    metrics: Metrics | None = None,
    metrics_here: bool = True,
    site: Path | None = None,
) -> AsyncIterator[Served]:
    """Serve the house on a free port. At the end the server is shut down as by a signal, and has left no task."""
    api = api_of(house, ping_s, max_body_bytes, body_timeout_s, readiness or nothing_to_report, access, limiter)
    watched = replace(api, metrics=metrics or Metrics(), metrics_here=metrics_here, site=site)
    app = create_app(
        replace(watched, skills=skills or Skills(), feedback_observers=feedback_observers, web_allowed=web_allowed)
    )
    server = PromptServer(make_server(app, house.runs, HOST, 0).config, house.runs)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        # No certificates: loading them takes longer than most of these tests.
        http = httpx.AsyncClient(base_url=f"http://{HOST}:{port}", trust_env=False, verify=False, timeout=20)
        with ExitStack() as connections:
            async with http as client:
                yield Served(house, app, server, port, client, connections)
    finally:
        server.should_exit = True
        await task


def api_of(
    house: House,
    ping_s: float,
    max_body_bytes: int,
    body_timeout_s: float,
    readiness: Callable[[], Awaitable[list[ComponentState]]],
    access: Access | None = None,
    limiter: RateLimiter | None = None,
) -> ApiState:
    return ApiState(
        runs=house.runs,
        history=house.history,
        knowledge=house.services.knowledge,
        snapshots=house.services.snapshots,
        presenter=house.presenter,
        audit=house.audit,
        readiness=readiness,
        access=access or Access(Sessions(NOWHERE, hours=1), anonymous=True),
        limiter=limiter or MemoryLimiter(100_000),
        max_body_bytes=max_body_bytes,
        ping_s=ping_s,
        body_timeout_s=body_timeout_s,
    )


async def nothing_to_report() -> list[ComponentState]:
    return []


async def eventually(condition: Callable[[], bool], within_s: float = 20.0) -> float:
    """Wait for the condition, and return how long it took (s).

    The bound is against a hang: how fast it comes depends on the machine.
    """
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, "it did not happen"
        await asyncio.sleep(0.005)
    return time.monotonic() - began
