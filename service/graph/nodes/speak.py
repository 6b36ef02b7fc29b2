"""The steps that produce text, and the only way out."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from service.citations.markers import AbstainGate, MarkerFilter
from service.citations.quotes import CitationDraft, check
from service.citations.text_fragment import directive_at
from service.errors import ModelUnusable
from service.graph.events import WebReport
from service.graph.nodes.gather import blocks_of
from service.graph.refusals import fault_behind, refusal_reason, refusal_text
from service.graph.state import Deps, Outcome, State
from service.knowledge.snapshots import Snapshots
from service.model import ABSTAIN, Consulted, Source, Status, StoredCitation, Turn, well_formed
from service.ports import AnswerCut, Reranker

WARNINGS = {
    "cut_short": "This answer was cut short before it was complete, and it was not checked.",
    "not_assessed": "This answer was not assessed: a judge did not give a usable verdict.",
    "not_grounded": "Not every statement of this answer is supported by the sources it cites.",
    "quote_not_found": "A quotation in this answer does not stand in the sources it cites.",
    "no_citation": "This answer cites no source.",
    "off_topic": "This answer may not answer the question that was asked.",
}


async def generate(state: State, deps: Deps) -> Outcome:
    """Stream an answer over the sources. What opens with the abstain mark is held back and shown to no one."""
    sources = state["sources"]
    gate = AbstainGate(ABSTAIN)
    markers = MarkerFilter({source.n for source in sources})
    pieces: list[str] = []
    cut = ""

    def take(text: str) -> None:
        for piece in markers.feed(text):
            show(piece)

    def show(piece: str) -> None:
        if not pieces:
            deps.transcript.warn(deps.model.warning)  # who writes may have changed with this very call
        pieces.append(piece)
        if deps.delivery == "draft":
            deps.transcript.token(piece)

    stream = deps.model.answer(state["standalone"], sources, state["feedback"], deps.usage, deps.skill.instructions)
    try:
        async with aclosing(stream) as texts:
            async for text in texts:
                take(gate.feed(well_formed(text)))
    except AnswerCut as stopped:
        cut = stopped.stop_reason
    take(gate.flush())
    for piece in markers.flush():
        show(piece)
    draft = "".join(pieces)
    if not draft.strip() and not gate.abstained:
        raise ModelUnusable("The language model wrote nothing, so there is no answer. Please try again.")
    update: State = {
        "draft": draft,
        "pieces": pieces,
        "unresolved": list(markers.unknown),
        "abstained": gate.abstained,
        "cut": cut,
    }
    return Outcome(update, n_in=len(sources), n_out=len(markers.cited), reason="abstained" if gate.abstained else cut)


async def prepare_regen(state: State, deps: Deps) -> Outcome:
    """Withdraw the draft and carry the judge's reason into the next one."""
    grounded = state["grounded"]
    deps.transcript.withdraw(grounded.reason)
    update: State = {"regens": state["regens"] + 1, "feedback": grounded.words or grounded.reason}
    return Outcome(update, reason=grounded.reason)


async def give_up(state: State, deps: Deps) -> Outcome:
    """Refuse plainly: no citations, and whom to ask (invariant 8).

    Raises `ModelUnavailable` or `ModelUnusable` where a fault of the model left open whether there is an answer.
    """
    reason = refusal_reason(state)
    deps.transcript.withdraw(reason)
    if fault := fault_behind(state, reason):
        raise fault
    web = state["web"]
    deps.transcript.sources([], WebReport(web.query, web.status), [web.warning, deps.model.warning])
    text = f"{refusal_text(reason)} {deps.limits.handoff_text}".strip()
    deps.transcript.token(text)
    return Outcome({"draft": text, "refused": True}, reason=reason)


async def finalize(state: State, deps: Deps) -> Outcome:
    """Check each quotation, build the turn and append it to the history: the only way out."""
    status = status_of(state)
    if deps.delivery == "verified" and not state["refused"]:
        for piece in state["pieces"]:
            deps.transcript.token(piece)
    citations = [] if state["refused"] else await cite(state["draft"], state["sources"], deps)
    turn: Turn = {
        "run_id": deps.run_id,
        "asked_at": deps.asked_at,
        "question": state["question"],
        "standalone": state["standalone"],
        "web_search": state["web_search"],
        "web": {
            "query": state["web"].query,
            "status": state["web"].status,
            "sent": list(deps.transcript.sent_to_web),
        },
        "model": deps.model.name,
        "reranker": deps.services.reranker.name,
        "answer": state["draft"],
        "status": status,
        "warning": warning_of(state) if status == "partial" else "",
        "citations": citations,
        "consulted": consulted(state),
        "verdicts": list(deps.transcript.verdicts),
        "rewrites": state["rewrites"],
        "regens": state["regens"],
        "usage": {
            "model_calls": deps.usage.model_calls,
            "input_tokens": deps.usage.input_tokens,
            "output_tokens": deps.usage.output_tokens,
            "cost_usd": round(deps.usage.cost_usd, 6),
        },
        "timings": deps.transcript.timings(),
    }
    return Outcome({"turns": [*state.get("turns", []), turn]}, n_out=len(citations), reason=status)


def status_of(state: State) -> Status:
    if state["refused"]:
        return "refused"
    passed = state["grounded"].result == "pass" and state["answers"].result == "pass"
    return "answered" if passed else "partial"


def warning_of(state: State) -> str:
    for verdict in (state["grounded"], state["answers"]):
        if verdict.result != "pass":
            return WARNINGS.get(verdict.reason, WARNINGS["not_assessed"])
    return ""


def consulted(state: State) -> list[Consulted]:
    return [
        {
            "passage_id": passage_id,
            "title": candidate.passage.title,
            "label": candidate.passage.label,
            "grade": state["grades"][passage_id].result,
        }
        for passage_id, candidate in state["seen"].items()
    ]


@dataclass(frozen=True, slots=True)
class Located:
    """A checked citation and the text directive of its place."""

    draft: CitationDraft
    directive: str


async def cite(answer: str, sources: Sequence[Source], deps: Deps) -> list[StoredCitation]:
    """Hold each citation against the stored text of its source. Quotations need no model; the rest is scored."""
    located = await asyncio.to_thread(locate_citations, answer, sources, deps.services.snapshots)
    supports = await support_of([item.draft for item in located], deps.services.support)
    return [
        {
            "n": item.draft.n,
            "quote": item.draft.quote,
            "directive": item.directive,
            "support": round(support, 3),
            "status": item.draft.status or ("supported" if support >= deps.limits.supported_at else "unsupported"),
        }
        for item, support in zip(located, supports, strict=True)
    ]


def locate_citations(answer: str, sources: Sequence[Source], snapshots: Snapshots) -> list[Located]:
    """Check every citation and find its place on its page. Blocks: each page is read, and searched, once."""
    by_number = {source.n: source for source in sources}
    drafts = check(answer, sources)
    cited = {by_number[draft.n].passage.sha256 for draft in drafts}
    blocks = {sha256: blocks_of(snapshots, sha256) for sha256 in cited}
    return [
        Located(draft, sentence_directive(blocks[by_number[draft.n].passage.sha256], draft, by_number[draft.n]))
        for draft in drafts
    ]


def sentence_directive(blocks: Sequence[str], draft: CitationDraft, source: Source) -> str:
    """Open the page at the sentence; at the passage where the sentence (a repeated table cell) cannot be told apart."""
    return directive_at(blocks, draft.spans) or directive_at(blocks, source.passage.spans)


async def support_of(drafts: Sequence[CitationDraft], scorer: Reranker) -> list[float]:
    """How far each quote supports its claim, 0..1: 1 where it is verbatim, else the scorer's word, once per claim."""
    open_quotes: dict[str, list[str]] = {}
    for draft in drafts:
        if draft.status != "verified":
            open_quotes.setdefault(draft.claim, []).append(draft.quote)
    scores: dict[tuple[str, str], float] = {}
    for claim, quotes in open_quotes.items():
        found = await scorer.scores(claim, quotes)
        scores.update({(claim, quote): score for quote, score in zip(quotes, found, strict=True)})
    return [1.0 if draft.status == "verified" else scores[draft.claim, draft.quote] for draft in drafts]
