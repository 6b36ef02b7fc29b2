"""What each of the six graphs is given, and the state that they share. All six read, ask and write through a desk."""

import operator
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, TypedDict

from langgraph.graph.state import CompiledStateGraph

from evals.designs.port import DONT_KNOW, DesignModel, Topic
from evals.designs.shelf import Shelf
from evals.designs.topics import CURRENT, STALE
from evals.designs.web import Visit
from service.model import ABSTAIN, Candidate, Source, Status
from service.ports import AnswerCut
from service.usage import Usage

FENCE = 25
"""Supersteps after which a run is stopped and counted as stopped: LangGraph's own default for years."""

STRIPS = 4


@dataclass(frozen=True, slots=True)
class Quirks:
    """Published habits, each of which can be switched off. The numbers are the designs that have it."""

    stale_topics: bool = True  # 1, 2: the router's topic list is older than the store
    unbounded: bool = True  # 1: regenerates until the check is content
    misread: bool = False  # 1, 6: the check's "yes, hallucinated" is read as a pass
    whole_pages: bool = True  # 1, 2, 3, 4, 6: web pages as they are, in place of their best strips
    ungraded_web: bool = True  # 3: what the web brings is not graded
    majority: bool = True  # 3, 5: more than half of what was retrieved must pass; without it, one is enough
    rewritten: bool = True  # 4: a model rewrites the evidence before the writer sees it
    drifting: bool = True  # 6: a rewrite builds on the last rewrite, not on the question
    silent: bool = True  # 2, 6: when the tries are used up the last draft is shown as an answer


PUBLISHED = Quirks()
MENDED = Quirks(
    stale_topics=False,
    unbounded=False,
    misread=False,
    whole_pages=False,
    ungraded_web=False,
    majority=False,
    rewritten=False,
    drifting=False,
    silent=False,
)


class State(TypedDict, total=False):
    question: str
    way: str  # where the router sent the question
    query: str  # what the store is asked
    found: list[Candidate]  # what the store brought
    kept: list[Candidate]  # what may be put before the writer
    pages: list[Candidate]  # what the web brought
    draft: str
    drafts: int
    rewrites: int
    feedback: str
    bad: bool  # the last check said that the draft is hallucinated
    useful: bool
    best: float  # design 4: the best score
    status: Status  # only where the graph itself says how it ended
    trace: Annotated[list[str], operator.add]  # design 6: an entry per node


@dataclass(slots=True)
class Desk:
    """One run's shelf, model, web and usage. `evidence` is what the writer read, as it was found."""

    shelf: Shelf
    model: DesignModel
    visit: Visit
    quirks: Quirks = PUBLISHED
    usage: Usage = field(default_factory=Usage)
    evidence: list[str] = field(default_factory=list)
    context_chars: int = 0

    @property
    def topics(self) -> tuple[Topic, ...]:
        return STALE if self.quirks.stale_topics else CURRENT

    async def search_web(self, question: str, query: str) -> list[Candidate]:
        if self.quirks.whole_pages:
            return await self.visit.whole_pages(query)
        return await self.visit.strips(question, query, STRIPS)

    async def write(
        self,
        question: str,
        kept: Sequence[Candidate],
        feedback: str = "",
        *,
        originals: Sequence[Candidate] | None = None,
        temperature: float | None = None,
    ) -> str:
        """Write over what was kept. A writer that abstains says that it does not know; what was cut short is kept.

        `originals` are what was found, where `kept` is a rewriting of it.
        """
        self._read(kept if originals is None else originals)
        model = self.model if temperature is None else self.model.at(temperature)
        pieces: list[str] = []
        try:
            async with aclosing(model.answer(question, numbered(kept), feedback, self.usage)) as stream:
                async for piece in stream:
                    pieces.append(piece)
        except AnswerCut:
            pass
        text = "".join(pieces).strip()
        return DONT_KNOW if text.startswith(ABSTAIN) or not text else text

    def _read(self, found: Sequence[Candidate]) -> None:
        self.evidence += [c.passage.text for c in found if c.passage.text not in self.evidence]
        self.context_chars = max(self.context_chars, sum(len(c.passage.text) for c in found))

    async def hallucinated(self, draft: str, kept: Sequence[Candidate]) -> bool:
        """The check as published, and how its word is read."""
        return self.reads_as_bad(await self.model.hallucinated(draft, numbered(kept), self.usage))

    def reads_as_bad(self, said: str) -> bool:
        """`yes` means hallucinated, and no usable verdict is let through: as published. Misread, `yes` is praise."""
        return said == "no" if self.quirks.misread else said == "yes"

    async def grounded(self, question: str, draft: str, kept: Sequence[Candidate]) -> bool:
        """The check the other way round: a pass is good."""
        said = await self.model.judge_grounded(question, draft, numbered(kept), self.usage)
        return said.result == "pass"

    async def answers(self, question: str, draft: str, kept: Sequence[Candidate]) -> bool:
        said = await self.model.judge_answers(question, draft, numbered(kept), self.usage)
        return said.result == "pass"

    async def grade_each(self, question: str, found: Sequence[Candidate]) -> list[Candidate]:
        """One call per passage, one after the other, as the designs publish it."""
        kept = []
        for candidate in found:
            (grade,) = await self.model.grade(question, [candidate.passage], self.usage)
            if grade.result == "pass":
                kept.append(candidate)
        return kept


Graph = CompiledStateGraph[State, Desk, State, State]


def numbered(kept: Sequence[Candidate]) -> list[Source]:
    return [Source(n, candidate.passage, candidate.score) for n, candidate in enumerate(kept, start=1)]
