"""The loopback web: a few made-up pages behind real sockets, and a count of every attempt to reach them.

The product's own search and fetch run over it; only the engine, the resolver and the dialer are ours.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import httpcore

from evals.seed import HERE
from service.knowledge.snapshots import Snapshots
from service.knowledge.terms import terms_of
from service.model import Candidate, ComponentState, Passage
from service.ports import Reranker, WebAsk, WebFindings, WebSearch
from service.web.duckduckgo import DuckDuckGo, WebLimits
from service.web.fetch import Fetcher
from service.web.masking import Masks

PAGES = HERE / "golden" / "web"
HOST = "127.0.0.1"
PUBLIC = "93.184.215.14"
"""What every made-up name resolves to: a public address, which the dialer leads to the loopback server."""


@dataclass(slots=True)
class Egress:
    """What one run tried on the web: searches sent, names looked up, connections opened."""

    searches: int = 0
    lookups: int = 0
    connections: int = 0

    @property
    def attempts(self) -> int:
        return self.searches + self.lookups + self.connections


_counted: ContextVar[Egress] = ContextVar("egress of this run")


def counting() -> Egress:
    """Begin to count for what is started from here: tasks and threads inherit it."""
    egress = Egress()
    _counted.set(egress)
    return egress


def load_pages(folder: Path = PAGES) -> dict[str, bytes]:
    """The pages by address: `host/path.html` below `folder` is `http://host/path.html`."""
    files = sorted(path for path in folder.rglob("*.html"))
    return {f"http://{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


class Engine:
    """Names the pages that share the most words with the query, best first; none that shares fewer than two."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        self._words = {url: set(terms_of(data.decode()).split()) for url, data in pages.items()}

    def find(self, query: str, timeout_s: float) -> list[str]:  # noqa: ARG002 - the port's signature
        _counted.get().searches += 1
        asked = set(terms_of(query).split())
        shared = {url: len(asked & words) for url, words in self._words.items()}
        return [url for url in sorted(shared, key=lambda url: (-shared[url], url)) if shared[url] > 1]


class Net:
    """Resolver and dialer of the made-up web."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(self, host: str) -> Sequence[str]:  # noqa: ARG002 - every name is here
        _counted.get().lookups += 1
        return [PUBLIC]

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:  # noqa: ARG002
        _counted.get().connections += 1
        return await httpcore.AnyIOBackend().connect_tcp(HOST, self._port)


class Remembered:
    """A web that remembers the strips it brought back, by (passage_id, sha256), for the labels to be held against."""

    def __init__(self, web: WebSearch) -> None:
        self._web = web
        self.passages: dict[tuple[str, str], Passage] = {}

    async def search(self, ask: WebAsk) -> WebFindings:
        findings = await self._web.search(ask)
        self.passages.update({key_of(strip): strip.passage for strip in findings.strips})
        return findings

    def state(self) -> ComponentState:
        return self._web.state()


def key_of(candidate: Candidate) -> tuple[str, str]:
    return candidate.passage.passage_id, candidate.passage.sha256


@asynccontextmanager
async def open_loopback_web(
    scorer: Reranker, snapshots: Snapshots, *, strips: int, folder: Path = PAGES
) -> AsyncIterator[Remembered]:
    """The product's web search over the pages of `folder`, served on a loopback port while this is open."""
    pages = load_pages(folder)
    server = await asyncio.start_server(lambda r, w: serve(pages, r, w), HOST, 0)
    async with server:
        net = Net(server.sockets[0].getsockname()[1])
        limits = WebLimits(strips=strips)
        yield Remembered(DuckDuckGo(Engine(pages), Fetcher(net.resolve, net.dial), Masks(), scorer, snapshots, limits))


async def serve(pages: dict[str, bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one GET and close."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split()[1]
        host = next(line[5:].strip() for line in head.splitlines() if line.lower().startswith("host:"))
        writer.write(response(pages.get(f"http://{host}{path}")))
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the reader left: nobody waits for the page
    finally:
        writer.close()


def response(page: bytes | None) -> bytes:
    status, body = ("404 Not Found", b"gone") if page is None else ("200 OK", page)
    lines = [f"HTTP/1.1 {status}", "content-type: text/html; charset=utf-8", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body
