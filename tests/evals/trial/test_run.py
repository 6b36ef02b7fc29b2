"""A few cases of the real product: Quote, Milvus Lite, the shipped weights. Twice the same; broken, the gate fails."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evals.golden_set import Case
from evals.trial.bench import Bench, about_of, open_bench, run_trial
from evals.trial.cases import load_trial
from evals.trial.compare import compare
from evals.trial.gate import Limits, failures, verdict
from evals.trial.trial import Trial
from evals.trial.watched import Watched
from service.llm.quote import Quote
from service.model import Candidate, ComponentState, Grade, Passage, Scope
from service.ports import Reranker
from service.settings import Settings
from service.usage import Usage

pytestmark = pytest.mark.slow

WANTED = ("a03", "c001", "c127", "w01", "v01", "s03")
LIMITS = Limits(
    never=["web egress when off", "passages outside the scope", "runs that ended in an error"],
    drops={"recall@40 before rerank": 0.01, "MRR@10 after rerank": 0.01, "irrelevant passages passed": 0.02},
)
CASES: list[Case] = [case for case in load_trial() if case.id in WANTED]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    settings = Settings.model_validate({"DATA_DIR": tmp_path, "MODEL_PROVIDER": "quote", "TORCH_THREADS": 1})
    async with open_bench(settings, lambda _: None) as opened:
        yield opened


async def tried(bench: Bench) -> Trial:
    return await run_trial(bench, CASES, about_of(bench, "quote", "all", CASES), lambda *_: None)


class UpsideDown:
    """A reranker that puts last what it should put first."""

    name = "upside-down"

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [1 - score for score in await self._reranker.scores(query, texts)]

    def state(self) -> ComponentState:
        return ComponentState("reranker", True, self.name)


class Unfiltered(Watched):
    """A store that forgets what the run may read."""

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        return await super().search(query, limit=limit, scope=replace(scope, sources=None, kinds=None))


class Lenient(Quote):
    """A first gate that lets everything through."""

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        return [Grade("pass", "let through") for _ in passages]


async def test_the_same_numbers_come_twice_and_a_broken_part_fails_the_gate_where_it_is(bench: Bench) -> None:
    good = await tried(bench)
    again = await tried(bench)
    assert good.as_json()["numbers"] == again.as_json()["numbers"]
    assert good.estimates()["web egress when off"].value == 0
    assert good.estimates()["web reached when on"].value == 1
    assert failures(again, LIMITS, good) == []

    built = bench.services
    bench.services = replace(built, reranker=UpsideDown(built.reranker))
    assert_fails(await tried(bench), good, "MRR@10 after rerank", "rerank_vector")
    bench.services = replace(built, knowledge=Unfiltered(built.knowledge))
    assert_fails(await tried(bench), good, "passages outside the scope", "retrieve_vector")
    bench.services, bench.model_for_run = built, lambda: Lenient(built.support)
    assert_fails(await tried(bench), good, "irrelevant passages passed", "grade_documents")


def assert_fails(broken: Trial, good: Trial, measure: str, node: str) -> None:
    found = failures(broken, LIMITS, good)
    assert measure in [failure.measure.name for failure in found]
    assert f"Where it begins: {node}." in verdict(found, compare(good, broken))
