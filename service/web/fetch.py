"""The one way a web page is fetched: guarded against leading inside, running on, and growing without end.

The name is resolved once, by us; every address it has must be public; the socket goes to one of those very addresses,
while the Host header and the TLS name stay the page's. Redirects are followed by hand and checked like a first address.
No cookies, no credentials, no proxy of the environment. The resolver and the dialer are constructor arguments: tests
reach loopback through them, and no setting can.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from service.errors import PageRefused
from service.skills.domains import admitted
from service.web.addresses import is_public
from service.web.body import check_head, header, read_body
from service.web.target import Target

USER_AGENT = "Gatehouse/0.1 (reads single pages for a person's question; no crawling)"

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""From a host name to its IP addresses."""
Dialer = Callable[[str, int], Awaitable[httpcore.AsyncNetworkStream]]
"""From an IP literal and a port to an open TCP stream."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FAULTS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`total_s` covers a page with all its redirects; `max_bytes` holds on the wire and once decoded."""

    total_s: float = 8.0
    resolve_s: float = 3.0
    connect_s: float = 3.0
    max_bytes: int = 2 * 1024 * 1024
    max_redirects: int = 5


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page's bytes, decoded once. `url` is where the redirects ended."""

    url: str
    content_type: str
    data: bytes


class SystemResolver:
    """The system's look-up, in threads of its own: names that hang must not take those that rerank."""

    def __init__(self, threads: int = 8) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")

    async def __call__(self, host: str) -> list[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> list[str]:
    # With a dot at its end a name is whole: the machine's search domains are not tried, and do not hear of it.
    found = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


async def dial(address: str, port: int) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port)


class Fetcher:
    """Fetches pages. `tls` is the context that verifies servers; by default certifi's authorities, no others."""

    def __init__(
        self,
        resolver: Resolver,
        dialer: Dialer = dial,
        *,
        tls: ssl.SSLContext | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        self._resolver = resolver
        self._dialer = dialer
        self._tls = tls or httpx.create_ssl_context(trust_env=False)
        self._limits = limits or FetchLimits()

    async def fetch(self, url: str, domains: Collection[str] | None = None) -> Fetched:
        """Return the page at `url`. With `domains`, no hop may leave them. Raises `PageRefused` for every fault."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.total_s):
                return await self._follow(Target.of(url), domains)
        except TimeoutError:
            raise PageRefused(f"no complete answer within {limits.total_s:g} s") from None
        except _FAULTS as fault:
            raise PageRefused(f"it could not be fetched ({type(fault).__name__})") from fault

    async def _follow(self, target: Target, domains: Collection[str] | None) -> Fetched:
        for _ in range(1 + self._limits.max_redirects):
            if not admitted(target.host, domains):
                raise PageRefused("its host is not among the allowed domains")
            found = await self._ask(target)
            if isinstance(found, Fetched):
                return found
            target = found
        raise PageRefused("too many redirects")

    async def _ask(self, target: Target) -> Fetched | Target:
        """One request on a connection of its own: the page, or where it was moved to."""
        addresses = await self._addresses(target)
        origin = httpcore.Origin(target.scheme.encode(), target.host.encode(), target.port)
        connection = httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=self._tls,
            network_backend=_Pinned(addresses, self._dialer, self._limits.connect_s),
        )
        try:
            response = await connection.handle_async_request(_request(target, origin))
            try:
                return await self._read(target, response)
            finally:
                await response.aclose()
        finally:
            await connection.aclose()

    async def _read(self, target: Target, response: httpcore.Response) -> Fetched | Target:
        if response.status in _REDIRECTS:
            return target.redirected(header(response.headers, b"location"))
        if response.status != 200:
            raise PageRefused(f"the server answers {response.status}")
        max_bytes = self._limits.max_bytes
        check_head(response.headers, max_bytes)
        data = await read_body(response.headers, response.aiter_stream(), max_bytes)
        return Fetched(target.url, header(response.headers, b"content-type"), data)

    async def _addresses(self, target: Target) -> list[str]:
        """The host's addresses, asked for once and all of them public. Raises `PageRefused`."""
        if target.is_literal:
            return [target.host]
        try:
            async with asyncio.timeout(self._limits.resolve_s):
                found = list(await self._resolver(target.host))
        except (TimeoutError, OSError):
            found = []
        if not found:
            raise PageRefused("its name could not be resolved")
        if not all(is_public(address) for address in found):
            raise PageRefused("its name leads to an address that is not public")
        return found


def _request(target: Target, origin: httpcore.Origin) -> httpcore.Request:
    headers: list[tuple[bytes | str, bytes | str]] = [
        ("Host", target.authority),
        ("User-Agent", USER_AGENT),
        ("Accept", "text/html, application/xhtml+xml;q=0.9, text/plain;q=0.8"),
        ("Accept-Encoding", "gzip"),
        ("Connection", "close"),
    ]
    url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=target.path.encode("ascii"))
    return httpcore.Request("GET", url, headers=headers)


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to the checked addresses and to nothing else, whatever host it is asked for."""

    def __init__(self, addresses: Sequence[str], dialer: Dialer, connect_s: float) -> None:
        self._addresses = addresses
        self._dialer = dialer
        self._connect_s = connect_s

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - the name was resolved and checked before
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - httpcore's signature; the limits are ours
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        """Return a stream to the first address that answers. Raises `httpcore.ConnectError`."""
        for address in self._addresses:
            try:
                async with asyncio.timeout(self._connect_s):
                    return await self._dialer(address, port)
            except (TimeoutError, *_FAULTS):
                continue
        raise httpcore.ConnectError("no address answers")
