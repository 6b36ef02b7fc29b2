"""How a page's address is stored, and where it leads: relative to the base of its source's site, else whole."""

import re
from urllib.parse import unquote

_ABSOLUTE = re.compile(r"https?://", re.IGNORECASE)
_THE_BASE = "./"


def relative_address(url: str, base_url: str) -> str:
    """Return `url` relative to `base_url` where it lies below it, else as it is; the fragment is dropped.

    What would not lead back to `url` stays whole, too (https://a.test/base/https://b.test/).
    """
    url = url.partition("#")[0]
    base = _folder(base_url)
    if not base or not url.startswith(base):
        return url
    address = url[len(base) :] or _THE_BASE
    return address if whole_address(address, base) == url else url


def whole_address(address: str, base_url: str) -> str | None:
    """Return where a stored address leads; None where it has no base, or would lead out of it.

    An absolute address (http, https) leads to itself, whatever the base is.
    """
    if _is_absolute(address):
        return address
    if not address or not base_url or _climbs(address):
        return None
    return _folder(base_url) + ("" if address == _THE_BASE else address.lstrip("/"))


def _is_absolute(address: str) -> bool:
    return _ABSOLUTE.match(address) is not None


def _folder(base_url: str) -> str:
    return f"{base_url.rstrip('/')}/" if base_url else ""


def _climbs(address: str) -> bool:
    """Does it hold a segment that a browser resolves? The link would leave the site's base."""
    path = re.split(r"[?#]", address, maxsplit=1)[0]
    return address != _THE_BASE and any(segment in (".", "..") for segment in re.split(r"[/\\]", unquote(path)))
