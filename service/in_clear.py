"""Whether what is sent to an address could be read on the way there."""

from ipaddress import ip_address
from urllib.parse import urlsplit

INSIDE = (".local", ".localhost", ".internal", ".intranet", ".lan", ".home.arpa", ".svc", ".test")
"""Ends of names that the public name service does not know, or is asked for by nobody outside."""


def in_clear(url: str) -> bool:
    """Plain HTTP to a place that is not plainly of one's own network: a private address, or a name without a domain."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http" or not host:
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(INSIDE)


def in_clear_warning(setting: str, url: str) -> str:
    """What to tell the operator of such an address, or ""."""
    if not in_clear(url):
        return ""
    return f"{setting} is http:// to a place outside: keys and texts can be read on the way. Use https://."
