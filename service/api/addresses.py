"""The address that a request came from, as one line that a client can be named by.

A forwarded address is believed only where the peer itself is a configured proxy: anybody can send the header.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_HOPS = 32
UNKNOWN = "unknown:"
"""Of a peer without an address (a Unix socket), and of whom a proxy names in a way that cannot be read. The colon keeps
it apart from every key's name."""

WITH_PORT = re.compile(r"\[(?P<six>[^]]+)\](:\d+)?|(?P<four>[\d.]+):\d+")


def client_address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Name the client by its address: the peer's, or the one that trusted proxies say it has."""
    found = origin_of(peer, forwarded, proxies)
    return UNKNOWN if found is None else named(found)


def origin_of(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> Address | None:
    """The client's address, or None where it is not known: a peer without one, or a chain that cannot be read.

    `forwarded` are the `X-Forwarded-For` headers in order. They are walked from the right, where the nearest proxy
    wrote, past trusted hops; what stands left of the first untrusted hop was written by anybody. A loopback address is
    the own machine of the hop that wrote it, which is this one only where that hop is this one too.
    """
    machine = hop = parsed(peer)
    for number, text in enumerate(reversed(hops(forwarded))):
        if hop is None or not is_trusted(hop, proxies):
            break
        hop = parsed(text) if number < MAX_HOPS else None
        if hop is None:
            return None
        machine = machine if hop.is_loopback else hop
    return machine


def hops(forwarded: Sequence[str]) -> list[str]:
    return ",".join(forwarded).split(",") if forwarded else []


def peer_of(request: HTTPConnection) -> str:
    """The other end of the connection, as the server names it; "" where it has no name."""
    return request.client.host if request.client else ""


def is_from_proxy(request: HTTPConnection, proxies: Sequence[Network]) -> bool:
    """Did a configured proxy hand the request on? Its headers about the client are believed then, and only then."""
    peer = parsed(peer_of(request))
    return peer is not None and is_trusted(peer, proxies)


def parsed(text: str) -> Address | None:
    """Read an address, with or without a port. An IPv4 address in IPv6 clothes is the IPv4 address."""
    text = text.strip().strip('"')
    if found := WITH_PORT.fullmatch(text):
        text = found["six"] or found["four"]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_trusted(address: Address, proxies: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in proxies)


def named(address: Address) -> str:
    """One name for all addresses of an IPv6 /64: that is what one household or one machine is given."""
    if isinstance(address, IPv4Address) or address.is_loopback:
        return str(address)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))
