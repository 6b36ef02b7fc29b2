"""Runs a record again: what the store, the reranker and the models said comes from it, the texts from snapshots.

Nothing else of the first run is at hand: what a reader who was not there can rebuild is what this can.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.graph.history import config_of
from service.graph.state import Limits, Services, State
from service.knowledge.snapshots import Snapshots
from service.model import ABSTAIN, Candidate, Grade, Judgement, Passage, Scope, Source, StoredSource, Turn
from service.ports import WebAsk, WebFindings
from service.threads import ThreadRef
from service.usage import Usage
from tests.audit.logs import audit_log, bodies
from tests.fakes import FixedKnowledge, FixedReranker, ScriptedModel, ScriptedWeb, cut, turn
from tests.running import House

Record = dict[str, Any]


def passage_from(item: Record, snapshots: Snapshots) -> Passage:
    """The passage that the record names, cut from its stored page."""
    snapshot = snapshots.get(item["sha256"])
    assert snapshot is not None
    spans = snapshot.spans[item["passage_id"]]
    blocks = snapshot.page.blocks
    return Passage(
        passage_id=item["passage_id"],
        sha256=item["sha256"],
        source=snapshot.source,
        kind=snapshot.kind,
        title=item["title"],
        address=snapshot.address,
        section=item["section"],
        headings=blocks[spans[0].block].headings,
        context="",
        text="\n".join(blocks[span.block].text[span.start : span.end] for span in spans),
        spans=spans,
        fetched_at=snapshot.fetched_at,
    )


@dataclass
class RecordedKnowledge(FixedKnowledge):
    """Answers the n-th search with what came back in the n-th pass, where it is asked the same."""

    passes: Sequence[Record] = ()
    snapshots: Snapshots = field(default_factory=lambda: Snapshots(Path()))

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        one = self.passes[len(self.queries)]
        assert query == one["query"]
        self.queries.append((query, scope))
        return [Candidate(passage_from(item, self.snapshots), item["found"]) for item in one["candidates"]][:limit]


@dataclass
class RecordedReranker(FixedReranker):
    passes: Sequence[Record] = ()
    asked: int = 0

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked += 1
        scores = [item["reranked"] for item in self.passes[self.asked - 1]["candidates"]]
        assert len(scores) == len(texts)
        return scores


@dataclass
class RecordedWeb(ScriptedWeb):
    passes: Sequence[Record] = ()
    snapshots: Snapshots = field(default_factory=lambda: Snapshots(Path()))

    async def search(self, ask: WebAsk) -> WebFindings:
        web = self.passes[len(self.asked)]["web"]
        assert ask.question == web["asked"]
        self.asked.append(ask)
        strips = tuple(Candidate(passage_from(item, self.snapshots), item["found"]) for item in web["strips"])
        return WebFindings(web["query"], web["status"], strips, web["warning"])


@dataclass
class RecordedModel(ScriptedModel):
    """Says again what the record says that the models said."""

    record: Record = field(default_factory=dict)

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        return str(self.record["passes"][1 + await self._asked("rewrite", tried, usage)]["query"])

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        draft = self.record["drafts"][await self._asked("answer", question, usage)]
        yield (ABSTAIN if draft["abstained"] else "") + draft["text"]
        if draft["cut"]:
            raise cut("", draft["cut"])


def model_from(record: Record) -> RecordedModel:
    grades = {grade["passage_id"]: grade for one in record["passes"] for grade in one["grades"]}
    return RecordedModel(
        record=record,
        grading=lambda _, passage: Grade(grades[passage.passage_id]["result"], grades[passage.passage_id]["words"]),
        grounded=judge(record, "grounded"),
        answering=judge(record, "answers"),
        condensed=lambda *_: str(record["standalone"]),
    )


RULES = frozenset({"unresolved_marker", "no_citation", "quote_not_found", "cut_short"})
"""Verdicts that no judge was asked for: the rules give them again."""


def judge(record: Record, gate: str) -> Callable[[int], Judgement]:
    said = [v for v in record["verdicts"] if v["gate"] == gate and v["reason"] not in RULES]
    return lambda count: Judgement(said[count]["result"], said[count]["words"])


def limits_from(record: Record) -> Limits:
    chosen = record["installation"]["settings"]
    return Limits(
        retrieve_k=chosen["RETRIEVE_K"],
        top_n=record["caps"]["top_n"],
        grade_mode=chosen["GRADE_MODE"],
        max_rewrites=record["caps"]["max_rewrites"],
        max_regen=record["caps"]["max_regen"],
        on_ungrounded=record["caps"]["on_ungrounded"],
        handoff_text=chosen["HANDOFF_TEXT"],
        supported_at=chosen["supported_at"],
    )


def thread_before(record: Record) -> State:
    """The thread as the run found it, as far as it bears on the answer: the numbers that were taken, and a turn."""
    known = {source["n"]: source for source in record["sources"]}
    taken = [known.get(n) or nameless(n, record["sources"]) for n in range(1, record["registered_before"] + 1)]
    earlier: list[Turn] = [turn("an earlier question")] if "condense" in record["usage"]["calls"] else []
    return {"registry": taken, "turns": earlier}


def nameless(n: int, shape: list[StoredSource]) -> StoredSource:
    return {**shape[0], "n": n, "passage_id": f"earlier {n}"}


async def replayed(record: Record, snapshots: Snapshots, folder: Path) -> Record:
    """The record of the same question, asked again of the record's own words."""
    passes = record["passes"]
    supports = {citation["quote"]: citation["support"] for citation in record["citations"]}
    world = Services(
        knowledge=RecordedKnowledge(passes=passes, snapshots=snapshots),
        reranker=RecordedReranker(passes=passes),
        support=FixedReranker(lambda _, quote: supports[quote]),
        web=RecordedWeb(passes=passes, snapshots=snapshots),
        snapshots=snapshots,
        limits=limits_from(record),
    )
    async with audit_log(folder) as audit:
        house = House(world, model_from(record), audit=audit)
        before = thread_before(record)
        if before["registry"] or before["turns"]:
            await house.graph.aupdate_state(config_of(ThreadRef("reader", "again")), before, as_node="finalize")
        await house.ask(
            record["question"],
            thread="again",
            client="reader",
            web_search=record["web_search"],
            delivery=record["delivery"],
        )
    [again] = bodies(folder)
    return again
