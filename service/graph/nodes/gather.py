"""The steps that bring passages in: the store always, the web only on a person's word."""

import asyncio

from service.citations.quotes import best_sentence
from service.citations.text_fragment import directive_at
from service.graph.events import WebReport
from service.graph.state import Deps, Outcome, State
from service.model import Candidate, Passage, Source, StoredSource
from service.ports import WebFindings

NO_WEB = WebFindings(query="", status="off")


async def retrieve_vector(state: State, deps: Deps) -> Outcome:
    """Search the knowledge base; every run does (invariant 1)."""
    limit = deps.limits.retrieve_k
    candidates = await deps.services.knowledge.search(state["query"], limit=limit, scope=deps.scope)
    return Outcome({"candidates": candidates}, n_in=limit, n_out=len(candidates))


async def rerank_vector(state: State, deps: Deps) -> Outcome:
    """Score each candidate against the standalone question and keep the best `top_n`.

    The question, not the rewritten query: the rewrite's added words help to find, and would mislead in judging.
    """
    candidates = state["candidates"]
    texts = [candidate.passage.indexed_text for candidate in candidates]
    scores = await deps.services.reranker.scores(state["standalone"], texts)
    scored = [Candidate(c.passage, score) for c, score in zip(candidates, scores, strict=True)]
    ranked = sorted(scored, key=lambda candidate: -candidate.score)[: deps.limits.top_n]
    return Outcome({"ranked": ranked}, n_in=len(candidates), n_out=len(ranked))


async def search_web(state: State, deps: Deps) -> Outcome:
    """Search the web if, and only if, this very request asked for it; else return at once."""
    if state["web_search"] is not True:
        return Outcome({"web": NO_WEB}, reason="off")
    findings = await deps.services.web.search(state["query"])
    return Outcome({"web": findings}, n_out=len(findings.strips), reason=findings.status)


async def assemble_sources(state: State, deps: Deps) -> Outcome:
    """Give each kept passage its number in this thread and show it, before any text is written."""
    registry = list(state.get("registry", []))
    numbers = {(item["passage_id"], item["sha256"]): item["n"] for item in registry}
    sources: list[Source] = []
    for candidate in state["kept"]:
        passage = candidate.passage
        key = (passage.passage_id, passage.sha256)
        if key not in numbers:
            numbers[key] = len(registry) + 1
            registry.append(await stored_source(numbers[key], candidate, state["standalone"], deps))
        sources.append(Source(numbers[key], passage, candidate.score))
    shown = [registry[source.n - 1] for source in sources]
    web = state["web"]
    warnings = [web.warning, deps.model.state().warning]
    deps.transcript.sources(shown, WebReport(web.query, web.status), warnings)
    return Outcome({"sources": sources, "registry": registry}, n_in=len(state["kept"]), n_out=len(sources))


async def stored_source(n: int, candidate: Candidate, question: str, deps: Deps) -> StoredSource:
    passage = candidate.passage
    start, end = best_sentence(question, passage.text)
    return {
        "n": n,
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
        "directive": await passage_directive(passage, deps),
        "score": round(candidate.score, 4),
    }


async def passage_directive(passage: Passage, deps: Deps) -> str:
    """The text directive that opens the page at this passage, or "" where none is safe."""
    snapshot = await asyncio.to_thread(deps.services.snapshots.get, passage.sha256)
    if snapshot is None:
        return ""
    blocks = [block.text for block in snapshot.page.blocks]
    return await asyncio.to_thread(directive_at, blocks, passage.spans)
