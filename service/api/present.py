"""From the domain's events and stored turns to their wire form: links are resolved here, on output only."""

from collections.abc import Iterable
from typing import Any

from service.api.events import (
    Answer,
    CitationItem,
    DoneFrame,
    ErrorFrame,
    Frame,
    ResetFrame,
    RunFrame,
    SkillRef,
    SourceItem,
    SourcesFrame,
    StageFrame,
    TokenFrame,
    VerdictFrame,
    WebItem,
)
from service.citations.render import render_answer
from service.graph.events import Done, Event, Failed, GateVerdict, Reset, Sources, Stage, Started, Token, Told
from service.links import Links
from service.model import LABELS, StoredCitation, StoredSource, Turn, well_formed


class Presenter:
    """Gives stored answers and sources their links. `links` knows the bases of the sources' addresses."""

    def __init__(self, links: Links) -> None:
        self._links = links

    def frame(self, told: Told, run_id: str) -> Frame:
        common = {"run_id": run_id, "seq": told.seq, "attempt": told.attempt}
        return self._frame(told.event, common)

    def _frame(self, event: Event, common: dict[str, Any]) -> Frame:
        match event:
            case Started(thread_id, model, reranker, web_search, delivery, warnings, skill):
                return RunFrame(
                    **common,
                    thread_id=thread_id,
                    model=model,
                    reranker=reranker,
                    skill=SkillRef(name=skill.name, sha256=skill.sha256) if skill.name else None,
                    web_search=web_search,
                    delivery=delivery,
                    warnings=list(warnings),
                )
            case Stage(node, state, ms, n_in, n_out, reason):
                return StageFrame(**common, node=node, state=state, ms=ms, n_in=n_in, n_out=n_out, reason=reason)
            case Sources(items, web, warnings):
                web_item = WebItem(query=web.query, status=web.status)
                shown = [self.source(item) for item in items]
                return SourcesFrame(**common, items=shown, web=web_item, warnings=list(warnings))
            case Token(text):
                return TokenFrame(**common, text=text)
            case Reset(reason):
                return ResetFrame(**common, reason=reason)
            case GateVerdict(gate, result, reason):
                return VerdictFrame(**common, gate=gate, result=result, reason=reason)
            case Done(thread_id, turn, sources):
                answer = self.answer(turn, sources).model_dump()
                shown = [self.source(item) for item in sources]
                return DoneFrame(**{**answer, **common}, thread_id=thread_id, sources=shown)
            case Failed(code, message, retryable):
                return ErrorFrame(**common, code=code, message=message, retryable=retryable)

    def source(self, item: StoredSource) -> SourceItem:
        return SourceItem(
            n=item["n"],
            passage_id=item["passage_id"],
            label=LABELS[item["kind"]],
            title=item["title"],
            url=self._links.page(item),
            link=self._links.to(item, item["directive"], item["quote"]),
            quote=item["quote"],
            section=item["section"],
            page=item["page"],
            fetched_at=item["fetched_at"],
            sha256=item["sha256"],
            score=item["score"],
        )

    def citation(self, citation: StoredCitation, source: StoredSource) -> CitationItem:
        return CitationItem(
            n=citation["n"],
            quote=citation["quote"],
            link=self._links.to(source, citation["directive"], citation["quote"]),
            support=citation["support"],
            status=citation["status"],
        )

    def answer(self, turn: Turn, sources: Iterable[StoredSource]) -> Answer:
        by_number = {item["n"]: item for item in sources}
        citations = [self.citation(citation, by_number[citation["n"]]) for citation in turn["citations"]]
        first_link: dict[int, str] = {}
        for citation in citations:
            first_link.setdefault(citation.n, citation.link)
        kept = {key: value for key, value in turn.items() if key in Answer.model_fields}
        return Answer.model_validate(
            {**kept, "html": render_answer(well_formed(turn["answer"]), first_link), "citations": citations}
        )
