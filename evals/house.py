"""The product, opened over the sample knowledge base, for offline runs: one question, one result."""

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evals.runs import start_run
from evals.seed import Question, Result, rank_of, turns_of
from service.audit.off import NoAudit
from service.graph.events import Done, Failed, Terminal
from service.graph.state import Services
from service.installation import installation_of
from service.llm.quote import Quote, Thresholds
from service.model import Candidate, Scope
from service.models import load_the_reranker, load_the_scorer
from service.ports import Reranker
from service.ranking import combined_order
from service.rerank.cross_encoder import CrossEncoderReranker
from service.sample import SAMPLE
from service.settings import Settings
from service.store import Progress, Store, open_store
from service.usage import Usage
from service.web.off import NoWeb
from service.wiring import limits_of


def remember_all(*rerankers: Reranker) -> None:
    """Score each pair once, however many there are: an offline run asks for the same pairs again and again."""
    for reranker in rerankers:
        if isinstance(reranker, CrossEncoderReranker):
            reranker.remembers = math.inf


class House:
    """The graph over the sample knowledge base. Threads live in memory: each question has its own."""

    def __init__(self, store: Store, settings: Settings, reranker: Reranker) -> None:
        self.settings = settings
        self.scorer = load_the_scorer(settings, reranker)
        remember_all(reranker, self.scorer)
        limits = limits_of(settings)
        self._services = Services(store.knowledge, reranker, self.scorer, NoWeb(), store.snapshots, limits)
        self._installation = installation_of(settings, limits, store.embedder.identity, reranker, self.scorer)
        self._found: dict[str, list[Candidate]] = {}

    async def run(self, question: Question, thresholds: Thresholds) -> Result:
        """Ask one question on a thread of its own that holds the question's history."""
        model, audit = Quote(self.scorer, thresholds), NoAudit("an evaluation")
        run = await start_run(
            question, self._services, lambda: model, audit=audit, installation=self._installation, deadline_s=120
        )
        began = time.perf_counter()
        terminal: Terminal = [told.event async for told in run.events()][-1]  # type: ignore[assignment]
        return await self._result(question, terminal, time.perf_counter() - began)

    async def best_evidence(self, question: Question) -> float:
        """The best evidence among the passages that the first pass of a run grades; 0 where rules rule all out."""
        model = Quote(self.scorer, Thresholds(relevant=0.0))
        asked = await model.condense(turns_of(question), question.question, Usage())
        limit = self.settings.RETRIEVE_K
        found = await self._services.knowledge.search(asked, limit=limit, scope=Scope())
        texts = [candidate.passage.indexed_text for candidate in found]
        order = combined_order(await self._services.reranker.scores(asked, texts))[: self.settings.TOP_N]
        passed = [texts[i] for i in order if model.verdict_on(asked, texts[i], 1.0).result == "pass"]
        return max(await model.evidence(asked, passed), default=0.0)

    async def _result(self, question: Question, terminal: Terminal, seconds: float) -> Result:
        if isinstance(terminal, Failed):
            raise RuntimeError(f"{question.id} ended in {terminal.code}: {terminal.message}")
        found = await self._candidates(terminal)
        consulted = {item["passage_id"]: item["grade"] for item in terminal.turn["consulted"]}
        graded = [candidate for candidate in found if candidate.passage.passage_id in consulted]
        passage_of = {candidate.passage.passage_id: candidate.passage for candidate in found}
        number_of = {item["n"]: passage_of.get(item["passage_id"]) for item in terminal.sources}
        cited = [number_of[citation["n"]] for citation in terminal.turn["citations"]]
        return Result(
            question=question,
            status=terminal.turn["status"],
            answer=terminal.turn["answer"],
            rank_found=rank_of(question.expected, found),
            rank_kept=rank_of(question.expected, graded),
            cites_expected=any(p is not None and e.is_in(p) for p in cited for e in question.expected),
            statuses=tuple(citation["status"] for citation in terminal.turn["citations"]),
            seconds=seconds,
        )

    async def _candidates(self, done: Done) -> list[Candidate]:
        """What the standalone question finds; a rewritten query may have found more."""
        query = done.turn["standalone"]
        if query not in self._found:
            limit = self.settings.RETRIEVE_K
            self._found[query] = await self._services.knowledge.search(query, limit=limit, scope=Scope())
        return self._found[query]


@asynccontextmanager
async def open_sample(settings: Settings, progress: Progress) -> AsyncIterator[Store]:
    """Open the store over the sample knowledge base, ingested when it is not there yet."""
    async with open_store(settings, progress) as store:
        for sample in SAMPLE:
            await store.ingestor.ingest(
                [str(sample.folder)], source=sample.name, kind=sample.kind, base_url=sample.base_url, prune=True
            )
        yield store


@asynccontextmanager
async def open_house(settings: Settings) -> AsyncIterator[House]:
    """Open the product over the sample knowledge base."""
    async with open_sample(settings, print_progress) as store:
        yield House(store, settings, load_the_reranker(settings))


def print_progress(line: str) -> None:
    print(f"# {line}", flush=True)  # noqa: T201 - a command's output
