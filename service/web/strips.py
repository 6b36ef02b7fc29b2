"""Verbatim strips of web pages: what is graded and cited of a page, never the page as a whole.

A page is read and cut by the same reader and chunker as an ingested one, so that spans, snapshot and links hold alike;
only finer: a sentence to a short paragraph.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from service.errors import IngestError
from service.knowledge.chunk import chunk_page
from service.knowledge.readers.html import read_html
from service.knowledge.snapshots import Snapshots
from service.knowledge.terms import terms_of
from service.model import Candidate, Kind, Page, Passage
from service.web.fetch import Fetched

SOURCE = "web"
KIND: Kind = "web"

STRIP_TOKENS = 96
CHARACTERS_PER_TOKEN = 6  # of English, white space included; the strips need no tokenizer's exactness
MAX_TITLE = 160
MAX_SECTION = 40

_DISGUISED = re.compile("[\u202d\u202e\U000e0000-\U000e007f]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_INVISIBLE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class CutPage:
    """A page with its strips; `sha256` names the snapshot that the strips refer to."""

    page: Page
    address: str
    strips: tuple[Passage, ...]


def cut_page(fetched: Fetched, snapshots: Snapshots) -> CutPage:
    """Read a fetched page and cut it into strips. Blocks. Nothing is stored yet. Raises `IngestError`."""
    page = _bounded(read_html(fetched.data, content_type=fetched.content_type), fetched.url)
    sha256 = snapshots.hash_of(page, SOURCE, KIND, fetched.url)
    strips = chunk_page(
        page,
        source=SOURCE,
        kind=KIND,
        address=fetched.url,
        sha256=sha256,
        fetched_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        count_tokens=rough_tokens,
        max_tokens=STRIP_TOKENS,
    )
    return CutPage(page, fetched.url, tuple(strip for strip in strips if not is_disguised(strip.text)))


def store_page(cut: CutPage, snapshots: Snapshots) -> None:
    """Keep the page's snapshot, so that any of its strips can be cited. Blocks. Raises `OSError`.

    All strips, not the cited ones alone: runs that read one page at once then write one and the same file.
    """
    snapshots.put(
        cut.page,
        source=SOURCE,
        kind=KIND,
        address=cut.address,
        fetched_at=cut.strips[0].fetched_at,
        passages=cut.strips,
    )


def rough_tokens(text: str) -> int:
    return 1 + len(text) // CHARACTERS_PER_TOKEN


def is_disguised(text: str) -> bool:
    """Does it hold what a reader cannot see: tag characters, text turned round, words parted by nothing?"""
    invisible = len(_INVISIBLE.findall(text))
    return _DISGUISED.search(text) is not None or invisible > max(4, _INVISIBLE_SHARE * len(text))


def _bounded(page: Page, url: str) -> Page:
    """The page with a title and numbers of a length that may stand in a list of sources."""
    if not page.blocks:
        raise IngestError("it holds no text")
    title = " ".join(page.title.split())[:MAX_TITLE] or urlsplit(url).netloc
    title = urlsplit(url).netloc if is_disguised(title) else title
    blocks = tuple(block if len(block.section) <= MAX_SECTION else replace(block, section="") for block in page.blocks)
    return Page(title, blocks)


def likeliest(question: str, strips: Iterable[Passage], most: int) -> list[Passage]:
    """The `most` strips that share the rarest words with the question, best first; equal texts once.

    It keeps what a reranker has to read within bounds: twenty strips a second is what two cores do.
    """
    unique = list({" ".join(strip.text.split()): strip for strip in strips}.values())
    words = [set(terms_of(strip.indexed_text).split()) for strip in unique]
    spread = Counter(word for of in words for word in of)
    asked = set(terms_of(question).split())
    # fsum: the same words add up to the same weight in whatever order a set gives them.
    weights = [math.fsum(1 / spread[word] + 0.2 for word in asked & of) for of in words]
    order = sorted(range(len(unique)), key=lambda index: -weights[index])
    return [unique[index] for index in order[:most]]


def best(scored: Iterable[Candidate], per_page: int, overall: int) -> list[Candidate]:
    """The best strips, at most `per_page` of one page and `overall` in all, best first."""
    taken: Counter[str] = Counter()
    kept: list[Candidate] = []
    for candidate in sorted(scored, key=lambda candidate: -candidate.score):
        if taken[candidate.passage.address] < per_page and len(kept) < overall:
            taken[candidate.passage.address] += 1
            kept.append(candidate)
    return kept
