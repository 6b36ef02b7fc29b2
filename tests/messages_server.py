"""A loopback peer that speaks the Messages API over a real socket, as the API does it on the wire.

A test scripts what the peer does, one behaviour per request in order (or a function of the request), and reads what it
was asked. Behaviours answer a streamed request with server-sent events and any other with one JSON message, refuse
what the API refuses (no key, no version, an unknown field), and note when the client's end of a socket went away.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

FIELDS = frozenset(
    {"model", "max_tokens", "messages", "system", "stream", "stop_sequences", "temperature", "top_k", "top_p"}
    | {"tools", "tool_choice", "metadata", "thinking", "output_config", "service_tier"}
)
STATUS_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
SECRET_WORDS = "internal words of the model API"
"""Stands in every error body, so that a test can show that no such text leaves the service."""


@dataclass
class Asked:
    """One request as it came, and what became of its socket. Times are of `time.monotonic`."""

    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    broken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def system(self) -> str:
        return str(self.body.get("system", ""))

    @property
    def text(self) -> str:
        """The user's message."""
        return str(self.body["messages"][0]["content"])

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the output format, when one was asked for."""
        found: dict[str, Any] | None = self.body.get("output_config", {}).get("format", {}).get("schema")
        return found


class Exchange:
    """One request being answered."""

    def __init__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._writer = writer

    @property
    def streamed(self) -> bool:
        return bool(self.asked.body.get("stream"))

    async def json(self, status: int, payload: object, headers: dict[str, str] | None = None) -> None:
        await self.body(status, json.dumps(payload).encode(), {"content-type": "application/json", **(headers or {})})

    async def body(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, {**headers, "content-length": str(len(body))})
        self._writer.write(body)
        await self._writer.drain()

    async def begin(self) -> None:
        """Send the response head and everything up to the first delta."""
        self._head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
        usage = {"input_tokens": len(self.asked.text.split()), "output_tokens": 1}
        await self.event("message_start", message=_message(self.asked, [], None, usage))

    async def open_block(self) -> None:
        await self.event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        await self.event("ping")

    async def delta(self, text: str) -> None:
        await self.event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    async def finish(self, stop_reason: str | None, output_tokens: int) -> None:
        await self.event("content_block_stop", index=0)
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        await self.event("message_delta", delta=delta, usage={"output_tokens": output_tokens})
        await self.event("message_stop")
        await self.end_body()

    async def event(self, kind: str, **payload: object) -> None:
        await self.raw(f"event: {kind}\ndata: {json.dumps({'type': kind, **payload})}\n\n".encode())

    async def raw(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def end_body(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def drop(self) -> None:
        """Close the socket in the middle of the body."""
        self._writer.close()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


Behaviour = Callable[[Exchange], Awaitable[None]]


def _message(asked: Asked, content: list[Any], stop_reason: str | None, usage: dict[str, int]) -> dict[str, Any]:
    return {
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "model": asked.body["model"],
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def says(text: str, stop_reason: str | None = "end_turn", *, gap_s: float = 0.0) -> Behaviour:
    """Answer with `text`, in small deltas `gap_s` apart. Another `stop_reason` makes it a cut or a refusal."""

    async def behave(exchange: Exchange) -> None:
        pieces = _pieces(text)
        if not exchange.streamed:
            usage = {"input_tokens": len(exchange.asked.text.split()), "output_tokens": len(pieces)}
            content = [{"type": "text", "text": text}] if text else []
            await exchange.json(200, _message(exchange.asked, content, stop_reason, usage))
            return
        await exchange.begin()
        await exchange.open_block()
        for piece in pieces:
            await exchange.delta(piece)
            await asyncio.sleep(gap_s)
        await exchange.finish(stop_reason, len(pieces))

    return behave


def says_json(payload: object) -> Behaviour:
    """Answer as a server that honours the structured output does: the JSON and nothing else."""
    return says(json.dumps(payload))


def fails(status: int, *, retry_after: str = "") -> Behaviour:
    """Answer with an error status and the API's error body."""

    async def behave(exchange: Exchange) -> None:
        error = {"type": STATUS_TYPES.get(status, "api_error"), "message": SECRET_WORDS}
        headers = {"retry-after": retry_after} if retry_after else {}
        await exchange.json(status, {"type": "error", "error": error, "request_id": "req_loopback"}, headers)

    return behave


def breaks(deltas: int, how: str = "error event", kind: str = "overloaded_error") -> Behaviour:
    """Stream `deltas` pieces (`word0 word1 ...`), then break: an `error event`, a `closed socket` in the middle of the
    body, or an `ended body` without `message_stop`.
    """

    async def behave(exchange: Exchange) -> None:
        await exchange.begin()
        if deltas:
            await exchange.open_block()
        for number in range(deltas):
            await exchange.delta(f"word{number} ")
        if how == "error event":
            await exchange.event("error", error={"type": kind, "message": SECRET_WORDS})
        if how == "closed socket":
            exchange.drop()
        else:
            await exchange.end_body()

    return behave


def falls_silent(deltas: int = 0, *, head: bool = True) -> Behaviour:
    """Stream `deltas` pieces, then send nothing until the client leaves. Without `head`, not even a status line."""

    async def behave(exchange: Exchange) -> None:
        if head:
            await exchange.begin()
            await exchange.open_block()
        for number in range(deltas):
            await exchange.delta(f"word{number} ")
        await exchange.asked.broken.wait()

    return behave


def sends(body: bytes, content_type: str = "text/event-stream") -> Behaviour:
    """Answer 200 with exactly this body."""

    async def behave(exchange: Exchange) -> None:
        await exchange.body(200, body, {"content-type": content_type})

    return behave


class _Connection(asyncio.StreamReaderProtocol):
    """A reader protocol that tells at once when the client's end is gone."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.asked: Asked | None = None
        super().__init__(asyncio.StreamReader(), serve)

    def eof_received(self) -> bool | None:
        self._gone()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def _gone(self) -> None:
        if self.asked is not None and self.asked.ended is None:
            self.asked.broken.set()


class MessagesServer:
    """The peer. `script` queues behaviours; `respond`, when set, chooses one for each request instead.

    A request beyond the script is refused with 400, which no client tries again. `arrived` is set by the first request.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.respond: Callable[[Asked], Behaviour] | None = None
        self.url = ""
        self.arrived = asyncio.Event()
        self._script: list[Behaviour] = []
        self._connections = 0
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    def script(self, *behaviours: Behaviour) -> None:
        self._script.extend(behaviours)

    @property
    def unused(self) -> int:
        return len(self._script)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self._serve), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open.values():
            writer.close()
        await asyncio.gather(*self._open)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while (request := await _read(reader)) is not None:
                await self._answer(*request, number, writer)
        except ConnectionError:
            pass
        finally:
            del self._open[task]
            writer.close()

    async def _answer(self, head: str, headers: dict[str, str], body: bytes, number: int, writer: Any) -> None:
        asked = Asked(headers, json.loads(body), number)
        writer.transport.get_protocol().asked = asked
        exchange = Exchange(asked, writer)
        self.asked.append(asked)
        self.arrived.set()
        refusal = _refusal(head, asked)
        if refusal is not None:
            await refusal(exchange)
        elif self.respond is not None:
            await self.respond(asked)(exchange)
        else:
            await (self._script.pop(0) if self._script else fails(400))(exchange)
        if not asked.broken.is_set():
            asked.ended = time.monotonic()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """Read one request: its first line, its headers (lower case) and its body; None at the end of the connection."""
    try:
        head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return head, headers, await reader.readexactly(int(headers.get("content-length", "0")))


def _refusal(head: str, asked: Asked) -> Behaviour | None:
    """What the API itself refuses before any model is asked."""
    if not head.startswith("POST /v1/messages "):
        return fails(404)
    if not asked.headers.keys() & {"authorization", "x-api-key"}:
        return fails(401)
    body = asked.body
    complete = body.get("model") and body.get("messages") and isinstance(body.get("max_tokens"), int)
    if "anthropic-version" not in asked.headers or not complete or body.keys() - FIELDS:
        return fails(400)
    return None


@asynccontextmanager
async def running_messages_server() -> AsyncIterator[MessagesServer]:
    server = MessagesServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def messages_server() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as server:
        yield server
