"""Who may come in, and under which names this server answers: what the checks at the door are made with."""

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.api.addresses import Network
from service.keys import Keys
from service.sessions import Sessions

HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Access:
    """`anonymous`: whoever brings no key is let in, named by the address. `public_url`: "" or this server's base.

    `scrapers` read /metrics, and so does this machine itself.
    """

    sessions: Sessions
    keys: Keys = field(default_factory=Keys)
    anonymous: bool = False
    hosts: tuple[str, ...] = ()
    proxies: tuple[Network, ...] = ()
    public_url: str = ""
    scrapers: tuple[Network, ...] = ()

    def answers_to(self, host: str) -> bool:
        """Is this `Host` one of ours?

        A name that an attacker's DNS points here is not (DNS rebinding). An address always is: no page of another
        site can have it as its origin.
        """
        name = host_name(host)
        if is_address(name) or name == "localhost":
            return True
        return any(matches(name, allowed) for allowed in (*self.hosts, host_name(netloc(self.public_url))) if allowed)

    def is_own(self, origin: str, host: str) -> bool:
        """Is the page that asks (`Origin`) one of this server's?"""
        place = without_default_port(netloc(origin))
        own = {without_default_port(host.lower()), without_default_port(netloc(self.public_url))}
        return bool(place) and origin.startswith(("http://", "https://")) and place in own


def netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def host_name(host: str) -> str:
    """The name in a `Host` header: without port and brackets, in lower case; "" where there is none."""
    found = HOST.fullmatch(host.lower())
    return (found["six"] or found["name"]).rstrip(".") if found else ""


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def matches(name: str, allowed: str) -> bool:
    """`allowed` is a name, `*.name` for every name under it, or `*`."""
    return bool(name) and (allowed in ("*", name) or (allowed.startswith("*.") and name.endswith(allowed[1:])))


def without_default_port(place: str) -> str:
    return place.removesuffix(":443").removesuffix(":80")
