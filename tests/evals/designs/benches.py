"""A desk in memory: eight passages, of which a case labels some, a scripted model, and three web pages."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.designs.desk import FENCE, PUBLISHED, Desk, Graph, Quirks, State
from evals.designs.gatehouse import Product
from evals.designs.outcome import Bench, as_state
from evals.designs.port import Fork
from evals.designs.scripted import Faults, Scripted
from evals.designs.shelf import Shelf
from evals.designs.web import LoopbackWeb, Visit, WebPage
from evals.golden_set import Case
from evals.seed import Expected
from service.graph.state import Limits
from service.model import Passage, Source
from tests.fakes import FixedKnowledge, FixedReranker, services
from tests.running import installation

NO_FAULTS = Faults(invents=0.0, guesses=0.0, misreads=0.0, distorts=0.0)
CANDIDATES = 40
QUESTION = "How long must the first record be kept?"
PAGES = [
    WebPage("https://www.papers.example/records", "Records", "Most firms keep the first record for 40 years."),
    WebPage("https://www.papers.example/kept", "What is kept", "The first record must be kept in a safe."),
    WebPage("https://www.papers.example/long", "How long", "A record may be kept for 60 days."),
]


def case_of(*numbers: int, kind: str = "plain", web_search: bool = False, question: str = QUESTION) -> Case:
    """A case that the passages of these numbers answer; without any, one that nothing answers."""
    expected = tuple(Expected(f"part/{n}.html", f"R {n}", f"must keep record {n} for {n} years") for n in numbers)
    facts = tuple(f"for {n} years" for n in numbers)
    status = "answered" if numbers else "refused"
    return Case("t01", question, (), expected, status, facts, (), (kind,), "dev", web_search)


@dataclass
class Told(Scripted):
    """A scripted model whose route is told, word for word."""

    way: str = "store"

    def _way(self, fork: Fork) -> str:  # noqa: ARG002 - it is told
        return self.way


@dataclass
class Mending(Told):
    """Invents in its first `wrong` drafts, then states the answer."""

    wrong: int = 1

    def _draft(self, sources: list[Source]) -> str:  # type: ignore[override]
        drafts = sum(call.name == "answer" for call in self.asked)
        return self._invention(sources) if drafts < self.wrong else self._stated(sources)


def told(case: Case, way: str = "store", faults: Faults = NO_FAULTS) -> Told:
    return Told(case, "part", faults=faults, way=way)


def mending(case: Case, wrong: int, way: str = "store") -> Mending:
    return Mending(case, "part", faults=NO_FAULTS, way=way, wrong=wrong)


def alike(texts: list[str]) -> NDArray[np.float32]:
    """Every text points the same way: all cosines are 1."""
    return np.ones((len(texts), 1), dtype=np.float32)


def shelf_of(passages: list[Passage] | None = None) -> Shelf:
    knowledge = FixedKnowledge(passages) if passages is not None else FixedKnowledge()
    return Shelf(knowledge, FixedReranker(), alike, CANDIDATES)


def desk_of(model: Scripted, quirks: Quirks = PUBLISHED, passages: list[Passage] | None = None) -> Desk:
    return Desk(shelf_of(passages), model, Visit(LoopbackWeb(PAGES), model.clock), quirks)


async def run(graph: Graph, desk: Desk, question: str = QUESTION) -> State:
    values = await graph.ainvoke({"question": question}, {"recursion_limit": FENCE}, context=desk)
    return as_state(values)


def bench_of(folder: Path, pages: list[WebPage] | None = None) -> Bench:
    """What all designs share, with the product over the same passages."""
    limits = Limits(handoff_text="Ask the knowledge team.")
    given = services(folder, limits=limits)
    product = Product(given.knowledge, given.reranker, given.support, given.snapshots, limits, installation(limits))
    return Bench(Shelf(given.knowledge, given.reranker, alike, CANDIDATES), LoopbackWeb(pages or PAGES), product)


def calls(desk: Desk) -> int:
    return desk.usage.model_calls
