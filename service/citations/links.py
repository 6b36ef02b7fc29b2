"""Where a citation leads: the official page at the sentence, a web page, or the stored snapshot of the source."""

import re
from urllib.parse import quote as percent_encode

from service.citations.text_fragment import link
from service.knowledge.addresses import whole_address
from service.model import Passage

_ADDRESS = re.compile(r"(https?)://([^/?#]*)([^#]*)(#.*)?", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9.])?)(?::(\d{1,5}))?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

_PATH_AND_QUERY = "/?:@!$&*+,;=~-._%"
_MAX_QUOTE_CHARS = 1000


def safe_url(url: str) -> str | None:
    """Return `url` as it may stand in a link, or None where it may not.

    Only absolute http and https addresses without user name and without control characters pass. Quotes, brackets,
    spaces and everything outside ASCII come out percent-encoded; a host outside ASCII comes out as punycode.
    """
    parts = _ADDRESS.fullmatch(url)
    if parts is None or _CONTROL.search(url) or url != url.strip():
        return None
    host = _safe_host(parts[2])
    if host is None:
        return None
    fragment = "#" + _encode((parts[4] or "")[1:]) if parts[4] else ""
    return f"{parts[1].lower()}://{host}{_encode(parts[3])}{fragment}"


def _safe_host(authority: str) -> str | None:
    host = authority
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    match = _HOST.fullmatch(host)
    if match is None or int(match[1] or 0) > 65535:
        return None
    return host.lower()


def _encode(part: str) -> str:
    return percent_encode(_STRAY_PERCENT.sub("%25", part), safe=_PATH_AND_QUERY)


def source_link(passage: Passage, *, site_base: str, directive: str, public_base: str = "", quote: str = "") -> str:
    """Return the link that opens `passage`, scrolled to what `directive` names where the page can do that.

    An official page opens below `site_base`, or at its own address where that is stored whole; a web page at its own
    address. A reference note, a page without an address and an address that is not safe open as our stored snapshot,
    `/sources/{passage_id}` below `public_base`, scrolled to `quote`, which is marked.
    """
    url = _page_url(passage, site_base)
    if url is None:
        return _snapshot_link(passage, public_base, quote)
    return link(url, directive, page=passage.page)


def _page_url(passage: Passage, site_base: str) -> str | None:
    if passage.kind == "web":
        return safe_url(passage.address)
    if passage.kind != "official":
        return None
    url = whole_address(passage.address, site_base)
    return safe_url(url) if url else None


def _snapshot_link(passage: Passage, public_base: str, quote: str) -> str:
    url = f"{public_base.rstrip('/')}/sources/{_component(passage.passage_id)}?v={_component(passage.sha256)}"
    return f"{url}&q={_component(_shortened(quote))}#quote" if quote.strip() else url


def _component(text: str) -> str:
    return percent_encode(text, safe="", errors="replace")


def _shortened(quote: str) -> str:
    """Cut a long quote at a space: what is left still stands verbatim in the snapshot."""
    if len(quote) <= _MAX_QUOTE_CHARS:
        return quote
    cut = quote[:_MAX_QUOTE_CHARS]
    return cut.rpartition(" ")[0] or cut
