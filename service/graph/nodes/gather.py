"""The steps that bring passages in: the store always, the web only on a person's word."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from service.citations.quotes import best_sentence
from service.citations.text_fragment import directive_at
from service.errors import KnowledgeBaseError, ModelUnavailable, ModelUnusable, SnapshotFault
from service.graph.events import WebReport
from service.graph.state import Deps, Outcome, State
from service.knowledge.snapshots import Snapshots
from service.model import Candidate, Passage, Source, StoredSource
from service.ports import WebAsk, WebFindings
from service.ranking import combined_order

logger = logging.getLogger(__name__)

NO_WEB = WebFindings(query="", status="off")
FORBIDDEN = WebFindings(
    query="", status="forbidden", warning="The web was asked for, but it is not allowed here. Nothing was sent."
)
UNWORDED = WebFindings(
    query="", status="unavailable", warning="The web was not asked: the language model did not word a query for it."
)


async def retrieve_vector(state: State, deps: Deps) -> Outcome:
    """Search the knowledge base; every run does (invariant 1). A live page that stands in it is not read as one."""
    limit = deps.limits.retrieve_k
    found = await deps.services.knowledge.search(state["query"], limit=limit, scope=deps.scope)
    candidates = deps.readable([candidate for candidate in found if candidate.passage.kind != "web"])
    return Outcome({"candidates": candidates}, n_in=limit, n_out=len(candidates))


async def rerank_vector(state: State, deps: Deps) -> Outcome:
    """Score each candidate against the standalone question and keep the best `top_n` of both orders combined.

    The question, not the rewritten query: the rewrite's added words help to find, and would mislead in judging.
    """
    candidates = state["candidates"]
    texts = [candidate.passage.indexed_text for candidate in candidates]
    scores = await deps.services.reranker.scores(state["standalone"], texts)
    scored = [Candidate(c.passage, score) for c, score in zip(candidates, scores, strict=True)]
    deps.trail.reranked(scored)
    ranked = [scored[index] for index in combined_order(scores)][: deps.limits.top_n]
    return Outcome({"ranked": ranked}, n_in=len(candidates), n_out=len(ranked))


async def search_web(state: State, deps: Deps) -> Outcome:
    """Search the web if, and only if, this very request asked for it and its scope allows it; else return at once.

    The standalone question is what a query is made of, never the rewritten one: a rewrite adds words of our own
    documents, and those do not leave.
    """
    if state["web_search"] is not True:
        return Outcome({"web": NO_WEB}, reason="off")
    if not deps.scope.web:
        return Outcome({"web": FORBIDDEN}, reason="forbidden")
    findings = await web_findings(state["standalone"], state.get("web"), deps)
    return Outcome({"web": findings}, n_out=len(findings.strips), reason=findings.status)


async def web_findings(question: str, before: WebFindings | None, deps: Deps) -> WebFindings:
    """What the web says. The bound on grades holds however many strips come back."""
    tried = before.query if before else ""
    ask = WebAsk(
        question,
        write=lambda masked: deps.model.web_query(masked, tried, deps.usage),
        sending=deps.sending_to_web,
        domains=deps.scope.domains,
        before=before,
    )
    try:
        findings = await deps.services.web.search(ask)
    except (ModelUnavailable, ModelUnusable):
        return UNWORDED
    return replace(findings, strips=findings.strips[: deps.limits.web_strips])


async def assemble_sources(state: State, deps: Deps) -> Outcome:
    """Give each kept passage its number in this thread and show it, before any text is written.

    A passage that does not stand in its stored snapshot cannot be cited (invariant 9): it is left out, with a warning.
    """
    kept = await asyncio.to_thread(placed_on_pages, state["kept"], state["standalone"], deps.services.snapshots)
    if not kept:
        raise SnapshotFault("The stored pages of the passages found are missing or damaged. Ingest their source again.")
    registry = list(state.get("registry", []))
    numbers = {(item["passage_id"], item["sha256"]): item["n"] for item in registry}
    sources: list[Source] = []
    for candidate, stored in kept:
        key = (stored["passage_id"], stored["sha256"])
        if key not in numbers:
            numbers[key] = len(registry) + 1
            registry.append({**stored, "n": numbers[key]})
        sources.append(Source(numbers[key], candidate.passage, candidate.score))
    shown = [registry[source.n - 1] for source in sources]
    lost = len(state["kept"]) - len(kept)
    warnings = [f"{lost} passage(s) left out: their stored pages are missing or damaged."] if lost else []
    web = state["web"]
    warnings += [web.warning, deps.model.warning]
    deps.transcript.sources(shown, WebReport(web.query, web.status), warnings)
    return Outcome({"sources": sources, "registry": registry}, n_in=len(state["kept"]), n_out=len(sources))


def placed_on_pages(
    kept: Sequence[Candidate], question: str, snapshots: Snapshots
) -> list[tuple[Candidate, StoredSource]]:
    """The passages that stand in their snapshots, each with the source to be numbered. Blocks: it reads the pages."""
    pages = {sha256: blocks_of(snapshots, sha256) for sha256 in {c.passage.sha256 for c in kept}}
    return [
        (candidate, unnumbered_source(candidate, question, pages[candidate.passage.sha256]))
        for candidate in kept
        if stands_on(candidate.passage, pages[candidate.passage.sha256])
    ]


def blocks_of(snapshots: Snapshots, sha256: str) -> list[str]:
    """The texts of a stored page's blocks; none where the snapshot is missing or damaged."""
    try:
        snapshot = snapshots.get(sha256)
    except KnowledgeBaseError as damaged:
        logger.warning("snapshot unusable: %s", damaged)
        return []
    return [block.text for block in snapshot.page.blocks] if snapshot else []


def stands_on(passage: Passage, blocks: Sequence[str]) -> bool:
    """Whether the passage's spans lie on the page and say what the passage says."""
    if not passage.spans or max(span.block for span in passage.spans) >= len(blocks):
        return False
    return passage.text == "\n".join(blocks[span.block][span.start : span.end] for span in passage.spans)


def unnumbered_source(candidate: Candidate, question: str, blocks: Sequence[str]) -> StoredSource:
    passage = candidate.passage
    start, end = best_sentence(question, passage.text)
    return {
        "n": 0,
        "passage_id": passage.passage_id,
        "sha256": passage.sha256,
        "source": passage.source,
        "kind": passage.kind,
        "title": passage.title,
        "address": passage.address,
        "section": passage.section,
        "page": passage.page,
        "fetched_at": passage.fetched_at,
        "quote": passage.text[start:end],
        "directive": directive_at(blocks, passage.spans),
        "score": round(candidate.score, 4),
    }
