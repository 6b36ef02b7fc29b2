"""An address as it may be fetched, read so that no other reader could take it for another host."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self
from urllib.parse import urljoin, urlsplit

from service.citations.links import safe_url
from service.errors import PageRefused
from service.skills.domains import is_below
from service.web.addresses import is_public

MAX_URL_CHARS = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}
_PORTS = frozenset(DEFAULT_PORTS.values())

_UNCLEAN = re.compile(r"[\s\\\x00-\x1f\x7f]")
_NUMERIC = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_MAX_HOST_CHARS = 253
_INSIDE = ("localhost", "localdomain", "local", "internal", "intranet", "private", "lan", "home", "corp", "home.arpa")
"""Endings of names that mean something inside a network only (RFC 6761, 6762, 8375 and custom)."""


@dataclass(frozen=True, slots=True)
class Target:
    """One address to fetch. `host` is lower case, ASCII, without a trailing dot; an IPv6 literal has no brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Read an absolute http or https address; a fragment is dropped. Raises `PageRefused`."""
        if len(url) > MAX_URL_CHARS or _UNCLEAN.search(url):
            raise PageRefused("the address is too long or holds a space, a backslash or a control character")
        clean = safe_url(url)
        if clean is None:
            raise PageRefused("not an http or https address that may be fetched")
        parts = urlsplit(clean)
        port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
        if port not in _PORTS:
            raise PageRefused("the address names another port than 80 or 443")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, _checked_host((parts.hostname or "").removesuffix(".")), port, path)

    def redirected(self, location: str) -> "Target":
        """Where a redirect leads, checked like any address. Raises `PageRefused`."""
        if not location or _UNCLEAN.search(location):
            raise PageRefused("a redirect without a clean address")
        try:
            joined = urljoin(self.url, location)
        except ValueError:
            raise PageRefused("a redirect without a clean address") from None
        target = Target.of(joined)
        if self.scheme == "https" and target.scheme == "http":
            raise PageRefused("a redirect from https to http")
        return target

    @property
    def is_literal(self) -> bool:
        return is_literal(self.host)

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _checked_host(host: str) -> str:
    """The host, if it is a public literal or a whole name. Raises `PageRefused`."""
    if is_literal(host):
        if not is_public(host):
            raise PageRefused("the address leads to no public host")
        return host
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        # WHATWG URL, "ends in a number": browsers read 0x7f.1 and 2130706433 as IPv4, a resolver may as well.
        raise PageRefused("the host is a number in an unusual form")
    if len(labels) < 2 or len(host) > _MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise PageRefused("the host is no whole name")
    if any(is_below(host, ending) for ending in _INSIDE):
        raise PageRefused("the host is a name inside a network")
    return host
