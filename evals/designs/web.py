"""A web that never leaves this process and counts what is asked of it. Its pages stand in `web.jsonl`.

Whole pages are what the published designs read. `AsStrips` gives the same pages to the product, behind its own port.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from evals.designs.clock import Clock
from evals.train_bm25 import Bm25
from service.knowledge.snapshots import Snapshots
from service.model import Candidate, ComponentState, Passage
from service.ports import Reranker, WebAsk, WebFindings
from service.web.fetch import Fetched
from service.web.strips import best, cut_page, likeliest, store_page

PAGES = Path(__file__).with_name("web.jsonl")
RESULTS = 6
"""Pages that a search brings, as the designs publish it."""

SEARCH_S = 2.0
"""Modelled time of a search with its pages."""

AROUND = (
    "Skip to content. Home. News. Topics. Jobs. Events. Shop. Sign in. Subscribe for 30 days free of charge.",
    "We and our 148 partners store information on a device in order to show advertisements and to measure them. "
    "You may accept all, refuse all, or choose. Your choice is kept for twelve months and can be changed at any time.",
    "Most read this week: ten signs that your back office needs a new ledger; why compliance officers change firms; "
    "a beginner's guide to bonds; the five funds that our readers bought; what to wear at a regulator's office.",
    "Comments (37). A reader writes: that is not how we do it, and nobody has ever complained. Another writes: the "
    "period was much longer when I was in practice. A third writes: ask your regulator, they will not know either.",
    "About us. Nothing on this page is legal advice. All rights reserved. Imprint. Privacy. Cookies. Contact.",
)
"""What stands around the text of a page. Repeated, it makes a page as long as pages are: 6,000 characters."""


@dataclass(frozen=True, slots=True)
class WebPage:
    url: str
    title: str
    text: str

    @property
    def paragraphs(self) -> list[str]:
        around = [*AROUND[:3], self.text, *AROUND[3:]]
        return [*around, *(list(AROUND) * 6)]

    def whole(self) -> Passage:
        """The page as one passage: what a design without strips puts before its writer."""
        said = "\n".join(self.paragraphs)
        return Passage(
            self.url, "", "web", "web", self.title, self.url, "", (), self.title, said, (), "2031-08-01T00:00:00Z"
        )

    def fetched(self) -> Fetched:
        body = "".join(f"<p>{html.escape(part)}</p>" for part in self.paragraphs)
        page = f"<html><head><title>{html.escape(self.title)}</title></head><body><main>{body}</main></body></html>"
        return Fetched(self.url, "text/html; charset=utf-8", page.encode())


class LoopbackWeb:
    """The pages and a search over them. Nothing is sent anywhere."""

    def __init__(self, pages: Sequence[WebPage]) -> None:
        self.pages = list(pages)
        self._bm25 = Bm25([f"{page.title} {page.text}" for page in pages])

    @classmethod
    def load(cls, path: Path = PAGES) -> "LoopbackWeb":
        lines = path.read_text(encoding="utf-8").splitlines()
        return cls([WebPage(**json.loads(line)) for line in lines if line.strip()])

    def find(self, query: str, limit: int = RESULTS) -> list[WebPage]:
        """The best pages that share a term with the query, at most `limit`."""
        scores = self._bm25.scores(query)
        return [self.pages[i] for i in self._bm25.top(query, limit) if scores[i] > 0]


@dataclass(slots=True)
class Visit:
    """The web during one run: every query that left, in order."""

    web: LoopbackWeb
    clock: Clock
    queries: list[str] = field(default_factory=list)

    async def pages(self, query: str) -> list[WebPage]:
        self.queries.append(query)
        async with self.clock.taking(SEARCH_S):
            return self.web.find(query)

    async def whole_pages(self, query: str) -> list[Candidate]:
        return [Candidate(page.whole(), 0.0) for page in await self.pages(query)]

    async def strips(self, question: str, query: str, limit: int) -> list[Candidate]:
        """The strips of the pages that share the rarest words with the question; nothing is stored."""
        cut = [_cut(page) for page in await self.pages(query)]
        return [Candidate(strip, 0.0) for strip in likeliest(question, [s for page in cut for s in page], limit)]


@cache
def _cut(page: WebPage) -> tuple[Passage, ...]:
    return cut_page(page.fetched(), Snapshots(Path("unused"))).strips


class AsStrips:
    """`WebSearch` of the product over the same pages. Make one for each run; `brought` are its strips by id."""

    def __init__(self, visit: Visit, scorer: Reranker, snapshots: Snapshots, limit: int = 4) -> None:
        self._visit, self._scorer, self._snapshots, self._limit = visit, scorer, snapshots, limit
        self.brought: dict[str, Passage] = {}

    async def search(self, ask: WebAsk) -> WebFindings:
        query = await ask.write(ask.question)
        if ask.before is not None and ask.before.query == query:
            return ask.before
        ask.sending(query)
        cuts = [cut_page(page.fetched(), self._snapshots) for page in await self._visit.pages(query)]
        likely = likeliest(ask.question, [strip for cut in cuts for strip in cut.strips], 24)
        scores = await self._scorer.scores(ask.question, [strip.indexed_text for strip in likely])
        kept = best([Candidate(s, score) for s, score in zip(likely, scores, strict=True)], 2, self._limit)
        cited = {candidate.passage.address for candidate in kept}
        for cut in cuts:
            if cut.address in cited:
                store_page(cut, self._snapshots)
        self.brought.update({candidate.passage.passage_id: candidate.passage for candidate in kept})
        return WebFindings(query, "ok" if kept else "empty", tuple(kept))

    def state(self) -> ComponentState:
        return ComponentState("web", True, "loopback pages of the evaluation")
