"""DuckDuckGo's page for browsers without scripts, asked through ddgs: which pages does it name for a query?

`DDGS.text` cannot be used as it is: it calls a block (202, 403, 429) "No results found.", and it decodes the percent
signs of addresses. So its DuckDuckGo engine is asked directly, with the two places mended; written against ddgs 9.16.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from ddgs.engines.duckduckgo import Duckduckgo
from ddgs.exceptions import DDGSException
from lxml.etree import LxmlError

from service.errors import SearchUnavailable

MAX_RESULTS = 20
NO_REGION = "wt-wt"

_NOTHING_FOUND = re.compile(r"""class=["'][^"']*\b(?:no-results|result--no-result)\b""", re.IGNORECASE)


class SearchEngine(Protocol):
    """Names pages for a query. `find` blocks, and runs in a thread."""

    def find(self, query: str, timeout_s: float) -> list[str]:
        """Return the addresses of the results, best first; none where the engine says that it found nothing.

        Raises `SearchUnavailable` where it does not answer, blocks us, or answers what is no page of results.
        """
        ...


class DuckDuckGoEngine:
    """`proxy` and `verify` (a PEM file) are ddgs's own arguments: tests reach a loopback engine through them."""

    def __init__(self, proxy: str | None = None, verify: bool | str = True) -> None:
        self._proxy = proxy
        self._verify = verify

    def find(self, query: str, timeout_s: float) -> list[str]:
        # A client for each search: cookies of one person's search are not shown in the next.
        asked = _Asked(proxy=self._proxy, timeout=max(1, math.ceil(timeout_s)), verify=self._verify)
        try:
            results = asked.search(query, region=NO_REGION)
        except (DDGSException, LxmlError, ValueError) as fault:
            raise SearchUnavailable(f"the search engine did not answer ({type(fault).__name__})") from fault
        found = [address for result in results or [] if (address := _address(result.href))]
        if not found and not asked.found_nothing:
            raise SearchUnavailable("the search engine answered with what is no page of results")
        return list(dict.fromkeys(found))[:MAX_RESULTS]


@dataclass
class _Result:
    """ddgs's own result type rewrites the addresses it is given; this one keeps them."""

    title: str = ""
    href: str = ""
    body: str = ""


class _Asked(Duckduckgo):
    """One search. `found_nothing` is what the engine itself said."""

    found_nothing = False

    @property
    def result_type(self) -> type[Any]:
        return _Result

    def request(self, *args: Any, **kwargs: Any) -> str:
        # A redirect would take the query, and this machine, to wherever it points.
        self.http_client.client.follow_redirects = False
        response = self.http_client.request(*args, **kwargs)
        if response.status_code != 200:
            raise SearchUnavailable(f"the search engine answered {response.status_code}")
        self.found_nothing = _NOTHING_FOUND.search(response.text) is not None
        return str(response.text)


def _address(href: str) -> str:
    """The page a result leads to; "" for what is none. Some answers lead there over the engine's own counter."""
    address = f"https:{href}" if href.startswith("//") else href
    try:
        parts = urlsplit(address)
        counted = parse_qs(parts.query).get("uddg", []) if parts.path == "/l/" else []
    except ValueError:
        return ""
    address = counted[0] if counted else address
    return address if address.lower().startswith(("http://", "https://")) else ""
