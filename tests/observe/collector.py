"""A collector on loopback, in a thread of its own: it decodes what Langfuse's server would, or misbehaves as told."""

import gzip
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Manner = Literal["well", "hanging", "failing", "garbage", "page", "refusing", "trickling"]

Answer = tuple[int, bytes, dict[str, str]]
"""Status, body and headers."""

UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress, "": bytes}


@dataclass(frozen=True)
class Received:
    """A span as it arrived. Times are nanoseconds since the epoch; texts are as Langfuse reads them."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    began: int
    ended: int
    attributes: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.attributes["langfuse.observation.type"])

    def metadata(self, key: str) -> Any:
        return json.loads(self.attributes[f"langfuse.observation.metadata.{key}"])


@dataclass
class Collector:
    """`bodies` are the raw requests, unpacked: what must not leave is looked for there, whatever it is wrapped in.

    `respond` is asked first, with the path and the unpacked body: where it gives an answer, nothing is taken.
    """

    manner: Manner = "well"
    respond: Callable[[str, bytes], Answer | None] = lambda *_: None
    spans: list[Received] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    unread_over: int | None = None
    """Bytes of a request, packed, over which it is refused by its head alone, and the connection closed."""
    tries: int = 0
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def traces(self) -> dict[str, list[Received]]:
        """The spans by trace, each once: a span that was sent twice is one span."""
        by_trace: dict[str, dict[str, Received]] = {}
        for span in self.spans:
            by_trace.setdefault(span.trace_id, {})[span.span_id] = span
        return {trace_id: list(spans.values()) for trace_id, spans in by_trace.items()}

    def take(self, path: str, headers: Mapping[str, str], packed: bytes) -> None:
        body = UNPACK[headers.get("Content-Encoding", "")](packed)
        if path.endswith("/traces"):
            self.spans.extend(spans_in(body))
        else:
            self.scores.extend(json.loads(body))
        self.headers.append(dict(headers))
        self.bodies.append(body)


def spans_in(body: bytes) -> Iterator[Received]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    {item.key: value_of(item.value) for item in span.attributes},
                )


def value_of(value: Any) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, which)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    collector: Collector

    def do_POST(self) -> None:
        self.collector.tries += 1
        length, most = int(self.headers["Content-Length"]), self.collector.unread_over
        if most is not None and length > most:
            self.close_connection = True
            self.answer(413, b"", {"Connection": "close"})
            return
        body = self.rfile.read(length)
        unpacked = UNPACK[self.headers.get("Content-Encoding", "")](body)
        if (answer := self.collector.respond(self.path, unpacked)) is not None:
            self.answer(*answer)
            return
        getattr(self, f"answer_{self.collector.manner}")(body)

    def answer_well(self, body: bytes) -> None:
        self.collector.take(self.path, dict(self.headers), body)
        self.answer(202 if "scores" in self.path else 200, b"{}")

    def answer_hanging(self, _: bytes) -> None:
        self.collector.released.wait(60)
        self.close_connection = True

    def answer_failing(self, _: bytes) -> None:
        self.answer(500, b"no room")

    def answer_refusing(self, _: bytes) -> None:
        self.answer(401, b"no such key")

    def answer_garbage(self, _: bytes) -> None:
        self.wfile.write(b"\x00\xffthis is no HTTP\r\n\r\n" * 50)
        self.close_connection = True

    def answer_page(self, _: bytes) -> None:
        self.answer(200, b"<html>Please sign in</html>", {"Content-Type": "text/html; charset=utf-8"})

    def answer_trickling(self, _: bytes) -> None:
        """A head at once, then a byte of the body now and then."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not self.collector.released.wait(0.05):
            self.wfile.write(b"x")
        self.close_connection = True

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no news."""


@contextmanager
def collecting(manner: Manner = "well") -> Iterator[Collector]:
    """A collector on a free port. What hangs is let go at the end."""
    collector = Collector(manner)
    server = QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"collector": collector}))
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def wait_until(collector: Collector, traces: int, within_s: float = 10.0) -> None:
    """Wait until so many traces are there. Fails when they do not come in time."""
    until = time.monotonic() + within_s
    while len(collector.traces()) < traces:
        assert time.monotonic() < until, f"{len(collector.traces())} traces of {traces}"
        time.sleep(0.01)
