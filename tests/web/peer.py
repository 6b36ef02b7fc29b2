"""Loopback peers over real sockets: a web site, plain and over TLS, and the search engine behind ddgs's proxy."""

import asyncio
import html
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import httpcore

from service.web.fetch import Fetcher, FetchLimits
from tests.web.authority import Authority

HOST = "127.0.0.1"
PUBLIC = "93.184.215.14"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: str
    scheme: str

    @property
    def host(self) -> str:
        return self.headers.get("host", "")

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


def sends(data: bytes) -> Answer:
    """Exactly these bytes, head included."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def responds(
    body: bytes | str, content_type: str = "text/html; charset=utf-8", status: int = 200, **headers: str
) -> Answer:
    """A whole response. A header's underscores are hyphens; an empty content type sends none."""
    data = body.encode() if isinstance(body, str) else body
    lines = {"content-length": str(len(data))} | ({"content-type": content_type} if content_type else {})
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return sends(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode() + data)


def redirects(location: str, status: int = 302, **headers: str) -> Answer:
    return responds("moved", status=status, location=location, **headers)


def drips(head: bytes = b"", drop: bytes = b"x", gap_s: float = 0.02) -> Answer:
    """`head`, then a byte now and then without end."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(gap_s)

    return answer


def pours(head: bytes, chunk: bytes, times: int) -> Answer:
    """`head`, then `chunk` again and again, as fast as it is taken."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _ in range(times):
            writer.write(chunk)
            await writer.drain()

    return answer


async def says_nothing(writer: asyncio.StreamWriter) -> None:
    """Keep the connection and send no byte until the server closes."""
    await asyncio.Event().wait()
    writer.close()


@dataclass
class Site:
    """All hosts of the made-up web on one machine. `pages` answers by URL; what is not there is 404."""

    authority: Authority
    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    async def serve(self, scheme: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await read_request(reader, scheme)
        if asked is not None:
            self.asked.append(asked)
            await self.pages.get(asked.url, responds("gone", status=404))(writer)

    @property
    def urls(self) -> list[str]:
        return [asked.url for asked in self.asked]


@dataclass
class Engine:
    """The search engine as ddgs sees it through its proxy. `script` answers each search in turn, the last for ever."""

    authority: Authority
    script: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    proxy: str = ""

    @property
    def queries(self) -> list[str]:
        return [parse_qs(asked.body)["q"][0] for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connect = await read_request(reader, "http")
        if connect is None:
            return
        assert connect.method == "CONNECT", connect
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await writer.drain()
        await writer.start_tls(self.authority.server)
        asked = await read_request(reader, "https")
        if asked is not None:
            self.asked.append(asked)
            await (self.script.pop(0) if len(self.script) > 1 else self.script[0])(writer)


def results_page(addresses: Sequence[str]) -> str:
    """A page of results as the engine's page without scripts has them."""
    found = "".join(
        '<div class="result results_links results_links_deep web-result">'
        '<div class="links_main links_deep result__body">'
        f'<h2 class="result__title"><a class="result__a" href="{html.escape(address)}">Title {number}</a></h2>'
        f'<a class="result__snippet" href="{html.escape(address)}">Snippet {number}</a></div></div>'
        for number, address in enumerate(addresses)
    )
    return f'<html><body><div class="serp__results"><div id="links" class="results">{found}</div></div></body></html>'


def names(*addresses: str) -> Answer:
    return responds(results_page(addresses))


NOTHING_FOUND = responds(
    '<html><body><div id="links" class="results"><div class="result results_links result--no-result">'
    '<div class="links_main links_deep result__body"><div class="no-results">No results found for <b>x</b>.</div>'
    "</div></div></div></body></html>"
)

CHALLENGE = responds(
    '<html><body><form id="challenge-form"><div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.'
    "</div></form></body></html>"
)


async def read_request(reader: asyncio.StreamReader, scheme: str) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError, OSError):
        return None
    method, path = first.split()[:2]
    return Asked(method, path, headers, body.decode(), scheme)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, authority: Authority | None = None) -> AsyncIterator[int]:
    """Serve on a free loopback port, over TLS with an authority; at the end every connection is closed."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
            writer.close()
            async with asyncio.timeout(1):
                await writer.wait_closed()
        except (OSError, asyncio.CancelledError):
            pass  # asyncio's streams of 3.11 report a cancelled handler as a fault
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(handle, HOST, 0, ssl=authority.server if authority else None)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(0.01)  # aborted transports close their sockets in the loop's next turns


@asynccontextmanager
async def running_site(authority: Authority) -> AsyncIterator[Site]:
    site = Site(authority)
    async with (
        listening(lambda r, w: site.serve("http", r, w)) as plain,
        listening(lambda r, w: site.serve("https", r, w), authority) as secure,
    ):
        site.ports = {"http": plain, "https": secure}
        yield site


@asynccontextmanager
async def running_engine(authority: Authority) -> AsyncIterator[Engine]:
    engine = Engine(authority)
    async with listening(engine.serve) as port:
        engine.proxy = f"http://{HOST}:{port}"
        yield engine


@dataclass
class Net:
    """What stands for the internet: names with the addresses they give each time they are asked, and a dialer.

    `looked_up` and `dialled` say what was asked of it. A name without an entry has one public address.
    """

    site: Site
    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    dead: frozenset[str] = frozenset()

    async def resolve(self, host: str) -> Sequence[str]:
        before = self.looked_up.count(host)
        self.looked_up.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers[min(before, len(answers) - 1)]

    async def dial(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        self.dialled.append((address, port))
        if address in self.dead:
            raise OSError("no route")
        to = self.site.ports["https" if port == 443 else "http"]
        return await httpcore.AnyIOBackend().connect_tcp(HOST, to)

    def fetcher(self, limits: FetchLimits | None = None) -> Fetcher:
        return Fetcher(self.resolve, self.dial, tls=self.site.authority.client, limits=limits)
