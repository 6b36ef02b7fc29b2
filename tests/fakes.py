"""The few fakes of the tests, held to the ports by mypy. A scripted model answers as told and remembers."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from service.graph.state import Limits, Services
from service.knowledge.snapshots import Snapshots
from service.model import (
    Block,
    Candidate,
    ComponentState,
    Grade,
    Judgement,
    Kind,
    Page,
    Passage,
    Scope,
    Source,
    Span,
    Turn,
)
from service.ports import AnswerCut, AnswerModel, KnowledgeBase, Reranker, WebAsk, WebFindings, WebSearch
from service.usage import Usage

PASS = Judgement("pass", "fine")
FAIL = Judgement("fail", "not so")
ERROR = Judgement("error", "garbage")


@dataclass(frozen=True)
class Call:
    """One question put to the scripted model, with when it began and ended (seconds of the monotonic clock)."""

    name: str
    asked: str
    began: float
    ended: float


def cite_first(sources: Sequence[Source]) -> str:
    """A draft that says what its first source says, in quotation marks."""
    return f"The rule says “{sources[0].passage.text}” [[{sources[0].n}]]."


@dataclass
class ScriptedModel:
    """Each script is a function of how often it was asked before; a constant is the usual case.

    `advice` is what a skill said to it, by call; `read` are the passages it was given to grade.
    """

    draft: Callable[[int, Sequence[Source]], str | Exception] = lambda _, sources: cite_first(sources)
    grading: Callable[[int, Passage], Grade] = lambda _, __: Grade("pass", "relevant")
    grounded: Callable[[int], Judgement] = lambda _: PASS
    answering: Callable[[int], Judgement] = lambda _: PASS
    condensed: Callable[[Sequence[Turn], str], str] = lambda turns, question: f"{turns[-1]['standalone']} {question}"
    piece: int = 7
    delay_s: float = 0.0
    name: str = "scripted"
    warning: str = ""
    calls: list[Call] = field(default_factory=list)
    closed: int = 0
    advice: set[tuple[str, str]] = field(default_factory=set)
    read: list[Passage] = field(default_factory=list)

    async def _asked(self, name: str, asked: str, usage: Usage) -> int:
        usage.call(name)
        count = sum(call.name == name for call in self.calls)
        began = time.monotonic()
        self.calls.append(Call(name, asked, began, began))
        index = len(self.calls) - 1
        await asyncio.sleep(self.delay_s)
        self.calls[index] = Call(name, asked, began, time.monotonic())
        return count

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        await self._asked("condense", question, usage)
        return self.condensed(turns, question)

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        count = await self._asked("web_query", f"{question}|{tried}", usage)
        return f"web words {count + 1}"

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        self.advice.add(("grade", hint))
        self.read.extend(passages)
        count = await self._asked("grade", question, usage)
        return [self.grading(count, passage) for passage in passages]

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        count = await self._asked("rewrite", tried, usage)
        return f"{question} rewritten {count + 1} after {len(seen)}"

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        self.advice.add(("answer", instructions))
        count = await self._asked("answer", f"{question}|{feedback}", usage)
        said = self.draft(count, sources)
        text = said if isinstance(said, str) else (said.args[1] if len(said.args) > 1 else "")
        try:
            for start in range(0, len(text), self.piece):
                yield text[start : start + self.piece]
                await asyncio.sleep(self.delay_s / 10)
            if isinstance(said, Exception):
                raise said
        finally:
            self.closed += 1

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return self.grounded(await self._asked("judge_grounded", answer, usage))

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return self.answering(await self._asked("judge_answers", answer, usage))

    def state(self) -> ComponentState:
        return ComponentState("model", True, "scripted")

    def count(self, name: str) -> int:
        return sum(call.name == name for call in self.calls)

    def asked(self, name: str) -> list[str]:
        return [call.asked for call in self.calls if call.name == name]


def cut(text: str, reason: str = "max_tokens") -> Exception:
    """A draft that streams `text` and then stops for a reason that is no answer."""
    stopped = AnswerCut(reason)
    stopped.args = (reason, text)
    return stopped


def passage(
    number: int, text: str = "", kind: Kind = "official", source: str = "rules", sha256: str = "a" * 64
) -> Passage:
    said = text or f"Rule {number} says that a firm must keep record {number} for {number} years."
    return Passage(
        passage_id=f"p{number:015d}",
        sha256=sha256,
        source=source,
        kind=kind,
        title=f"Rulebook {number}",
        address=f"part/{number}.html",
        section=f"R {number}",
        headings=(f"Part {number}",),
        context=f"Rulebook {number} > R {number}",
        text=said,
        spans=(Span(0, 0, len(said)),),
        fetched_at="2031-01-01T00:00:00Z",
    )


def turn(question: str, answer: str = "a", *, standalone: str | None = None) -> Turn:
    return {
        "run_id": "r1",
        "asked_at": "2031-01-01T00:00:00+00:00",
        "question": question,
        "standalone": question if standalone is None else standalone,
        "web_search": False,
        "web": {"query": "", "status": "off", "sent": []},
        "model": "scripted",
        "reranker": "fixed",
        "answer": answer,
        "status": "answered",
        "warning": "",
        "citations": [],
        "consulted": [],
        "verdicts": [],
        "rewrites": 0,
        "regens": 0,
        "usage": {},
        "timings": {},
    }


def page_of(item: Passage) -> Page:
    return Page(item.title, (Block(item.text, section=item.section),))


@dataclass
class FixedKnowledge:
    """A knowledge base that returns what it was given, and remembers each query and scope."""

    passages: list[Passage] = field(default_factory=lambda: [passage(n) for n in range(1, 9)])
    queries: list[tuple[str, Scope]] = field(default_factory=list)
    failing: Exception | None = None
    delay_s: float = 0.0

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        self.queries.append((query, scope))
        await asyncio.sleep(self.delay_s)
        if self.failing is not None:
            raise self.failing
        return [Candidate(item, 1 / (60 + rank)) for rank, item in enumerate(self.passages[:limit])]

    async def get(self, passage_id: str) -> Passage | None:
        return next((item for item in self.passages if item.passage_id == passage_id), None)

    async def documents(self, source: str) -> dict[str, str]:
        return {item.address: item.sha256 for item in self.passages if item.source == source}

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        await self.remove(source, address)
        self.passages.extend(passages)

    async def remove(self, source: str, address: str) -> None:
        self.passages = [item for item in self.passages if (item.source, item.address) != (source, address)]

    async def count(self) -> int:
        return len(self.passages)

    async def state(self) -> ComponentState:
        return ComponentState("knowledge", self.failing is None, "fixed")


@dataclass
class FixedReranker:
    """Scores by a rule: the text's score, or 0.9 falling with the place in the list."""

    rule: Callable[[str, str], float] | None = None
    name: str = "fixed"

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if self.rule is None:
            return [0.9 - 0.01 * place for place in range(len(texts))]
        return [self.rule(query, text) for text in texts]

    def state(self) -> ComponentState:
        return ComponentState("reranker", True, self.name)


@dataclass
class ScriptedWeb:
    """A web that brings back what it was given, and remembers what it was asked and which queries left."""

    findings: WebFindings = field(default_factory=lambda: WebFindings("", "empty"))
    asked: list[WebAsk] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def search(self, ask: WebAsk) -> WebFindings:
        self.asked.append(ask)
        query = await ask.write(ask.question)
        self.sent.append(query)
        ask.sending(query)
        return replace(self.findings, query=query)

    def state(self) -> ComponentState:
        return ComponentState("web", True, "scripted")


def snapped(item: Passage, snapshots: Snapshots) -> Passage:
    """The passage with its page stored; its `sha256` names the snapshot."""
    page, place = page_of(item), {"source": item.source, "address": item.address}
    sha256 = snapshots.hash_of(page, kind=item.kind, **place)
    named = replace(item, sha256=sha256)
    snapshots.put(page, kind=item.kind, fetched_at=item.fetched_at, passages=[named], **place)
    return named


def stored(knowledge: FixedKnowledge, folder: Path) -> Snapshots:
    """Snapshots of the fixed passages' pages; the passages are changed to name them."""
    snapshots = Snapshots(folder)
    knowledge.passages = [snapped(item, snapshots) for item in knowledge.passages]
    return snapshots


def services(
    folder: Path,
    *,
    knowledge: FixedKnowledge | None = None,
    reranker: Reranker | None = None,
    web: WebSearch | None = None,
    limits: Limits | None = None,
) -> Services:
    store = knowledge or FixedKnowledge()
    scorer = reranker or FixedReranker()
    return Services(
        knowledge=store,
        reranker=scorer,
        support=FixedReranker(lambda _, __: 0.8),
        web=web or ScriptedWeb(),
        snapshots=stored(store, folder),
        limits=limits or Limits(handoff_text="Ask the knowledge team."),
    )


_model: AnswerModel = ScriptedModel()
_knowledge: KnowledgeBase = FixedKnowledge()
_reranker: Reranker = FixedReranker()
_web: WebSearch = ScriptedWeb()
