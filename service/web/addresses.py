"""Which IP addresses a page may be fetched from: public ones, told by our own table.

`ipaddress.is_global` alone is not enough: CPython 3.11 calls multicast, NAT64, 6to4, site-local and IPv4-compatible
addresses global, and all of them can lead to a host inside.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# https://www.iana.org/assignments/iana-ipv4-special-registry, and what is not in it but no page's address either
_FORBIDDEN_V4 = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared by carriers; one cloud's metadata service
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a public number by which one cloud's machines reach their host
    "169.254.0.0/16",  # link local; metadata services
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments; one cloud's metadata service
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # multicast relays
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and the broadcast address
)

# https://www.iana.org/assignments/iana-ipv6-special-registry. What carries an IPv4 address inside is forbidden whole:
# the address inside may be any, and a page that is reachable only so is none that a reader could open.
_FORBIDDEN_V6 = (
    "::/96",  # unspecified, loopback, IPv4-compatible
    "::ffff:0:0/96",  # IPv4-mapped
    "::ffff:0:0:0/96",  # IPv4-translated
    "64:ff9b::/96",  # NAT64
    "64:ff9b:1::/48",  # NAT64, local
    "100::/64",  # discard only
    "100:0:0:1::/64",  # dummy prefix
    "2001::/23",  # Teredo, ORCHID and other protocols
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
    "5f00::/16",  # segment routing
    "fc00::/7",  # unique local; one cloud's metadata service
    "fe80::/10",  # link local
    "fec0::/10",  # site local, deprecated
    "ff00::/8",  # multicast
)

FORBIDDEN = tuple(map(ip_network, (*_FORBIDDEN_V4, *_FORBIDDEN_V6)))
_ALLOCATED_V6 = ip_network("2000::/3")
"""All IPv6 unicast space that has been handed out (RFC 4291, section 2.4); the rest belongs to nobody."""


def is_public(address: str) -> bool:
    """Whether `address` is an IP literal that belongs to the open internet. What is no literal does not."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return _is_allocated(parsed) and not any(parsed in network for network in FORBIDDEN)


def _is_allocated(address: IPv4Address | IPv6Address) -> bool:
    """An IPv6 address with a zone ("%eth0") names an interface of this machine."""
    return isinstance(address, IPv4Address) or (address.scope_id is None and address in _ALLOCATED_V6)
