"""The domain's nouns: pages, passages, sources, grades and verdicts. No I/O, no third-party import."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

Kind = Literal["official", "reference", "web"]
Label = Literal["REFERENCE", "VECTOR", "WEB"]
Result = Literal["pass", "fail", "error", "skipped"]
Gate = Literal["documents", "grounded", "answers"]
Status = Literal["answered", "partial", "refused"]
Delivery = Literal["draft", "verified"]
OnUngrounded = Literal["warn", "refuse"]
WebStatus = Literal["off", "ok", "empty", "unavailable", "forbidden"]
CitationStatus = Literal["verified", "supported", "unsupported"]

LABELS: dict[Kind, Label] = {"official": "VECTOR", "reference": "REFERENCE", "web": "WEB"}

ABSTAIN = "[[abstain]]"
"""The fixed mark with which a writer that finds nothing to say opens its text. It is held back and never shown."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Replace each lone surrogate by U+FFFD: it is no character, and UTF-8 has no bytes for it.

    One for one, so that the tokens of a draft still add up to its answer.
    """
    return _SURROGATE.sub("\ufffd", text)


UNAVAILABLE = "unavailable"
"""How the words of a grade or judgement begin when the model could not be asked at all."""


# Pages and passages


@dataclass(frozen=True, slots=True)
class Block:
    """One text block of a page as a browser renders it.

    `text` keeps the page's own characters (curly quotes, no-break spaces); only collapsible white space is folded.
    `content` is False for navigation, footers and the like: kept, since a link's uniqueness is judged on the whole
    page, but never indexed. `headings` is the path of headings above the block, outermost first; a heading block
    carries its own text last. `section` is the number the page itself prints for the rule (`4.2.3`, `CM 3.1.2`), or
    the nearest one above, else "". `anchor` is the nearest element id at or above the block, else "".
    """

    text: str
    content: bool = True
    headings: tuple[str, ...] = ()
    section: str = ""
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A document as read: its title and its blocks in reading order."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start:end` (half open, code points) of block number `block` of a page."""

    block: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: characters `start:end` of a passage's text. `table` tells the tables of a page apart.

    `heading`: a row of column headings, or the caption, which says what the rows below it are about. Rows that one
    first cell spans are one.
    """

    start: int
    end: int
    table: int
    heading: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page that is retrieved, graded and cited as one.

    `passage_id` names the place (source, address, section, part) and survives edits elsewhere; `sha256` names the
    snapshot of the whole page that it was cut from. `text` is verbatim: the `spans` of the page's blocks joined with a
    newline. `context` is the line "document > section" that is indexed with the text and never shown as text.
    `address` is relative to the source's base URL ("" for a file without an address); `fetched_at` is ISO 8601, UTC.
    `rows` are the rows of tables in the text, in its order.
    """

    passage_id: str
    sha256: str
    source: str
    kind: Kind
    title: str
    address: str
    section: str
    headings: tuple[str, ...]
    context: str
    text: str
    spans: tuple[Span, ...]
    fetched_at: str
    page: int | None = None
    rows: tuple[TableRow, ...] = ()

    @property
    def label(self) -> Label:
        return LABELS[self.kind]

    @property
    def indexed_text(self) -> str:
        """What the embedder, BM25 and the reranker read: the context line, then the text."""
        return f"{self.context}\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that came back from a search. `score` is comparable only within one list, higher is better."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run may read. `None` means everything; an empty set means nothing (invariant 13).

    `web` False forbids the web whatever the request asks for; True allows it where the request asks. `domains` are
    those that search and fetch may read, with what lies below them.
    """

    sources: frozenset[str] | None = None
    kinds: frozenset[Kind] | None = None
    web: bool = True
    domains: frozenset[str] | None = None

    def admits(self, passage: Passage) -> bool:
        """Whether a passage of the knowledge base may be read."""
        return (self.sources is None or passage.source in self.sources) and (
            self.kinds is None or passage.kind in self.kinds
        )


@dataclass(frozen=True, slots=True)
class Source:
    """A passage with the number it has in this thread. `score` is the reranker's, 0..1."""

    n: int
    passage: Passage
    score: float


# What the gates say


@dataclass(frozen=True, slots=True)
class Grade:
    """Gate 1 on one passage. `result` is pass, fail or error; `words` are the judge's own."""

    result: Result
    words: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's answer on a draft: pass, fail or error, with the judge's words (kept for the record, not streamed)."""

    result: Result
    words: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One gate's outcome as it is shown. `reason` is a code; the judge's `words` stay in the record."""

    gate: Gate
    result: Result
    reason: str
    words: str = ""


def is_down(said: Sequence[Grade | Verdict]) -> bool:
    """Are these all `error` because the model API could not be had?"""
    return bool(said) and all(one.result == "error" and one.words.startswith(f"{UNAVAILABLE}:") for one in said)


class StoredSource(TypedDict):
    """A numbered source of a thread, as primitives: the checkpointer stores it. Addresses stay relative."""

    n: int
    passage_id: str
    sha256: str
    source: str
    kind: Kind
    title: str
    address: str
    section: str
    page: int | None
    fetched_at: str
    quote: str
    directive: str
    score: float


class StoredCitation(TypedDict):
    """One citation of a turn. `directive` is the text directive of its sentence; the link is built on output."""

    n: int
    quote: str
    directive: str
    support: float
    status: CitationStatus


class Consulted(TypedDict):
    """A passage that was graded in the run, used or not."""

    passage_id: str
    title: str
    label: Label
    grade: Result


class StoredVerdict(TypedDict):
    gate: Gate
    result: Result
    reason: str


class StoredWeb(TypedDict):
    """What left for the web in the turn, and how it went. `sent` is every query that left, in order."""

    query: str
    status: WebStatus
    sent: list[str]


class Turn(TypedDict):
    """One question and its answer in a thread's history (primitives: the checkpointer stores it)."""

    run_id: str
    asked_at: str
    question: str
    standalone: str
    web_search: bool
    web: StoredWeb
    model: str
    reranker: str
    answer: str
    status: Status
    warning: str
    citations: list[StoredCitation]
    consulted: list[Consulted]
    verdicts: list[StoredVerdict]
    rewrites: int
    regens: int
    usage: dict[str, float]
    timings: dict[str, float]


# The parts of the service


@dataclass(frozen=True, slots=True)
class ComponentState:
    """One dependency as `/readyz` names it. `ok` False means the service cannot answer without it."""

    name: str
    ok: bool
    detail: str
    warning: str = ""
