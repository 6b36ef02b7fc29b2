"""The address that a request came from, as one line that a client can be named by.

A forwarded address is believed only where the peer itself is a configured proxy: anybody can send the header.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_HOPS = 32
UNKNOWN = "unknown:"
"""Of a peer without an address (a Unix socket). The colon keeps it apart from every key's name."""

WITH_PORT = re.compile(r"\[(?P<six>[^]]+)\](:\d+)?|(?P<four>[\d.]+):\d+")


def client_address(peer: str | None, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Name the client by its address: the peer's, or the one that trusted proxies say it has."""
    found = origin_of(peer, forwarded, proxies)
    return UNKNOWN if found is None else named(found)


def origin_of(peer: str | None, forwarded: Sequence[str], proxies: Sequence[Network]) -> Address | None:
    """The client's address, or None for a peer without one.

    `forwarded` are the `X-Forwarded-For` headers in order. They are walked from the right, where the nearest proxy
    wrote, past trusted hops; what stands left of the first untrusted or unreadable hop was written by anybody.
    """
    found = parsed(peer or "")
    if found is None:
        return None
    for hop in reversed(hops(forwarded)):
        if not is_trusted(found, proxies):
            break
        further = parsed(hop)
        if further is None:
            break
        found = further
    return found


def hops(forwarded: Sequence[str]) -> list[str]:
    return ",".join(forwarded).split(",")[-MAX_HOPS:] if forwarded else []


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
