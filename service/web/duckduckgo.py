"""Search the web for one question: a masked query to the engine, its pages through the guarded fetch, their strips."""

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from service.errors import IngestError, PageRefused, SearchUnavailable
from service.knowledge.snapshots import Snapshots
from service.model import Candidate, ComponentState
from service.ports import Reranker, WebAsk, WebFindings
from service.skills.domains import admitted
from service.web.engine import SearchEngine
from service.web.fetch import Fetcher
from service.web.masking import Masks
from service.web.phrase import phrased
from service.web.strips import CutPage, best, cut_page, likeliest, store_page
from service.web.target import Target

logger = logging.getLogger(__name__)

NOTHING_TO_ASK = "The web was not asked: nothing of the question may be sent to a search engine."
NOWHERE = "The web was not asked: none of its domains is allowed here."
UNAVAILABLE = "The web search did not answer, so this answer rests on the knowledge base alone."
UNREAD = "The web search named pages, but none of them could be read."


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`budget_s` covers search and fetch together, `try_s` one try at the engine; the rest are counts."""

    budget_s: float = 10.0
    try_s: float = 4.0
    pause_s: tuple[float, float] = (0.3, 0.9)
    pages: int = 5
    at_once: int = 3
    searches_at_once: int = 3
    reranked: int = 24
    strips_per_page: int = 2
    strips: int = 4


class DuckDuckGo:
    """`WebSearch` over DuckDuckGo's results and our own fetch. Every fault of the web is a status."""

    def __init__(
        self,
        engine: SearchEngine,
        fetcher: Fetcher,
        masks: Masks,
        reranker: Reranker,
        snapshots: Snapshots,
        limits: WebLimits | None = None,
    ) -> None:
        self._engine = engine
        self._fetcher = fetcher
        self.masks = masks
        self._reranker = reranker
        self._snapshots = snapshots
        self._limits = limits or WebLimits()
        # Threads of searches that hang must not take all that the process has.
        self._slots = asyncio.Semaphore(self._limits.searches_at_once)
        self._trouble = ""

    def state(self) -> ComponentState:
        return ComponentState("web", True, "duckduckgo, on request only", self._trouble)

    async def search(self, ask: WebAsk) -> WebFindings:
        if ask.domains is not None and not ask.domains:
            return WebFindings("", "forbidden", warning=NOWHERE)
        query = await self._query(ask)
        if not query:
            return WebFindings("", "forbidden", warning=NOTHING_TO_ASK)
        if ask.before is not None and ask.before.query == query and ask.before.status in ("ok", "empty"):
            return ask.before
        ask.sending(query)
        try:
            return await self._found(query, ask)
        except SearchUnavailable as fault:
            logger.warning("web search failed: %s", fault)
            self._trouble = str(fault)
            return WebFindings(query, "unavailable", warning=UNAVAILABLE)

    async def _query(self, ask: WebAsk) -> str:
        """The exact text that leaves: masked before it is worded (wording loses what a name looks like), and after."""
        masked = self.masks.mask(ask.question)
        if not any(character.isalnum() for character in masked):
            return ""
        words = await ask.write(masked)
        return phrased(self.masks.mask(words, named_in=ask.question), ask.domains)

    async def _found(self, query: str, ask: WebAsk) -> WebFindings:
        deadline = asyncio.get_running_loop().time() + self._limits.budget_s
        named = await self._named(query, deadline)
        self._trouble = ""
        addresses = self._chosen(named, ask.domains)
        if not addresses:
            return WebFindings(query, "empty")
        pages = await self._pages(addresses, ask.domains, deadline)
        if not pages:
            return WebFindings(query, "unavailable", warning=UNREAD)
        strips = await self._strips(ask.question, pages)
        return WebFindings(query, "ok" if strips else "empty", tuple(strips))

    # The engine

    async def _named(self, query: str, deadline: float) -> list[str]:
        """Ask the engine, once more after a pause where it fails and time is left. Raises `SearchUnavailable`."""
        try:
            return await self._try(query, deadline)
        except SearchUnavailable as fault:
            logger.info("web search is tried again: %s", fault)
            await asyncio.sleep(random.uniform(*self._limits.pause_s))
            return await self._try(query, deadline)

    async def _try(self, query: str, deadline: float) -> list[str]:
        left_s = min(self._limits.try_s, deadline - asyncio.get_running_loop().time())
        if left_s <= 0:
            raise SearchUnavailable("the search engine did not answer in time")
        try:
            async with asyncio.timeout(left_s):
                await self._slots.acquire()
                work = asyncio.ensure_future(asyncio.to_thread(self._engine.find, query, left_s))
                work.add_done_callback(self._thread_ended)
                return await asyncio.shield(work)
        except TimeoutError:
            raise SearchUnavailable("the search engine did not answer in time") from None
        except SearchUnavailable:
            raise
        except Exception as fault:
            logger.exception("reading the search engine's answer failed")
            raise SearchUnavailable(f"its answer could not be read ({type(fault).__name__})") from fault

    def _thread_ended(self, work: asyncio.Future[list[str]]) -> None:
        """The slot is free when the thread is, not when its caller has given up on it."""
        self._slots.release()
        if not work.cancelled():
            work.exception()  # one that nobody waits for any more is no news

    def _chosen(self, named: Sequence[str], domains: Collection[str] | None) -> list[str]:
        """The first addresses that may be fetched, each once."""
        found: dict[str, None] = {}
        for address in named:
            try:
                target = Target.of(address)
            except PageRefused:
                continue
            if admitted(target.host, domains):
                found.setdefault(target.url)
        return list(found)[: self._limits.pages]

    # The pages

    async def _pages(self, addresses: Sequence[str], domains: Collection[str] | None, deadline: float) -> list[CutPage]:
        """Fetch and read, some at once. What is not there at the deadline is left out."""
        slots = asyncio.Semaphore(self._limits.at_once)

        async def one(address: str) -> CutPage | None:
            async with slots:
                return await self._page(address, domains)

        tasks = [asyncio.create_task(one(address)) for address in addresses]
        try:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        pages: dict[str, CutPage] = {}
        for result in results:
            if isinstance(result, CutPage):
                pages.setdefault(result.address, result)
        return list(pages.values())

    async def _page(self, address: str, domains: Collection[str] | None) -> CutPage | None:
        try:
            fetched = await self._fetcher.fetch(address, domains)
            return await asyncio.to_thread(cut_page, fetched, self._snapshots)
        except (PageRefused, IngestError) as fault:
            logger.info("web page left out: address=%r reason=%s", address, fault)
        except Exception:  # a page is a stranger's: what it makes of our readers is no fault of the run
            logger.exception("web page left out, a fault in Gatehouse: address=%r", address)
        return None

    # The strips

    async def _strips(self, question: str, pages: Sequence[CutPage]) -> list[Candidate]:
        """The best strips over all pages, whose snapshots are stored before anyone sees them."""
        limits = self._limits
        every = [strip for page in pages for strip in page.strips]
        likely = await asyncio.to_thread(likeliest, question, every, limits.reranked)
        scores = await self._reranker.scores(question, [strip.indexed_text for strip in likely])
        scored = [Candidate(strip, score) for strip, score in zip(likely, scores, strict=True)]
        kept = best(scored, limits.strips_per_page, limits.strips)
        cited = {candidate.passage.address for candidate in kept}
        stored = await asyncio.to_thread(self._store, [page for page in pages if page.address in cited])
        return [candidate for candidate in kept if candidate.passage.address in stored]

    def _store(self, pages: Sequence[CutPage]) -> set[str]:
        """Store the pages' snapshots and return their addresses; a page that cannot be stored is not cited."""
        stored: set[str] = set()
        for page in pages:
            try:
                store_page(page, self._snapshots)
                stored.add(page.address)
            except OSError as fault:
                logger.warning("web page not stored: %s", fault.strerror)
            except Exception:
                logger.exception("web page not stored, a fault in Gatehouse: address=%r", page.address)
        return stored
