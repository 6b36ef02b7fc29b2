"""Host names and the allowlist of them: what a skill may read of the web, decided by an address alone.

Pure functions, which the search, the fetch and the last check on what they brought back all ask. A name stands for
itself and its subdomains as long as they are one party's: `s3.amazonaws.com` is a public suffix under which anyone may
publish, so the entry `amazonaws.com` does not admit `anyone.s3.amazonaws.com` (publicsuffix.org, private section
included).
"""

import ipaddress
import re
import unicodedata
from collections.abc import Collection
from functools import cache
from urllib.parse import urlsplit

import idna
from publicsuffixlist import PublicSuffixList

from service.model import Scope

MAX_HOST = 253
"""Characters of a host name (RFC 1035, section 2.3.4)."""

MAX_ADDRESS = 8_192

_NUMERIC_END = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)$")
"""Hosts that browsers read as IPv4 (WHATWG URL, ends-in-a-number checker)."""


def admits(scope: Scope, address: str) -> bool:
    """Whether a run with this scope may search for, fetch and show the page at `address` (absolute, http or https)."""
    if not scope.web:
        return False
    if scope.domains is None:
        return True
    host = host_of(address)
    return host is not None and admitted(host, scope.domains)


def admitted(host: str, domains: Collection[str] | None) -> bool:
    """Whether a canonical host lies in one of `domains`. None is everywhere, an empty set nowhere."""
    return domains is None or any(is_within(host, domain) for domain in domains)


def host_of(address: str) -> str | None:
    """The canonical host of an http(s) address; None for one that names no host, or that readers take differently.

    User names, backslashes, blanks and control characters are where parsers disagree about which part is the host: no
    honest address of a page has them.
    """
    if len(address) > MAX_ADDRESS or any(c in " \\" or unicodedata.category(c)[0] in "CZ" for c in address):
        return None
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        return None
    return canonical(host)


def canonical(name: str) -> str | None:
    """A host name in lower-case A-labels without its final dot; None for an IP address and for what is no name."""
    if not name or len(name) > MAX_HOST or _is_ip(name):
        return None
    try:
        host = idna.encode(name, uts46=True, std3_rules=True).decode("ascii").lower().removesuffix(".")
    except (idna.IDNAError, UnicodeError):
        return None
    return None if _NUMERIC_END.search(host) or len(host) > MAX_HOST else host


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def is_below(host: str, domain: str) -> bool:
    """Whether `host` is `domain` or a subdomain of it, whoever's. Both are canonical."""
    return host == domain or host.endswith(f".{domain}")


def is_within(host: str, domain: str) -> bool:
    """Whether `host` is `domain` or a subdomain of the same party. Both are canonical."""
    return is_below(host, domain) and (host == domain or not is_below(public_suffix(host), domain))


def public_suffix(host: str) -> str:
    """The part of a canonical host under which names are given to anyone (`co.uk`, `github.io`)."""
    return str(_public_suffixes().publicsuffix(host) or "")


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # reads 300 kB: at the first question, not at import
