"""A small trial with a scripted model over fixed passages: what it keeps, what the gate says of each broken part."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from evals.golden_set import Case
from evals.trial.bench import Bench, about_of, run_trial
from evals.trial.compare import compare
from evals.trial.gate import Failure, Limits, failures, verdict
from evals.trial.route import explained
from evals.trial.trial import Trial
from evals.trial.web import Remembered, open_loopback_web
from service.graph.state import Limits as RunLimits
from service.knowledge.snapshots import Snapshots
from service.model import Candidate, Grade, Judgement, Passage, Scope, Source
from service.ports import WebAsk
from service.skills.registry import Skills
from service.skills.skill import Skill
from service.usage import Usage
from tests import fakes
from tests.evals.trial.made import case
from tests.running import installation
from tests.web.searching import overlap

COUNT = 8
NOTE = 3  # stands in the notes, which the skill may not read
OFFICIAL = Skill("official", "", "", Scope(sources=frozenset({"rules"}), web=False))
LIMITS = Limits(
    never=["web egress when off", "passages outside the scope", "runs that ended in an error"],
    ceilings={"unanswerable: answered": 0.05},
    drops={
        name: 0.01
        for name in (
            "recall@40 before rerank",
            "nDCG@10 after rerank",
            "expected passages kept",
            "gate 1 (documents) precision",
            "irrelevant passages passed",
            "probe documents: precision",
            "probe grounded: precision",
            "probe answers: precision",
            "answerable: right",
            "refusal recall",
        )
    },
)


def number_in(text: str) -> str:
    return text.split("record ")[1].split()[0].rstrip("?")


def same(question: str, text: str) -> float:
    """A reranker that knows which rule a question is about."""
    return 0.9 if number_in(question) == number_in(text) else 0.1


class Reading(fakes.ScriptedModel):
    """Grades a passage by the rule that the question names, quotes it, and judges what it reads."""

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        usage.call("grade")
        return [Grade("pass" if same(question, passage.text) > 0.5 else "fail") for passage in passages]

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        said = answer.split("“")[1].split("”")[0]
        return fakes.PASS if any(said in source.passage.text for source in sources) else fakes.FAIL

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return fakes.PASS if same(question, answer) > 0.5 else fakes.FAIL


class Sieved(fakes.FixedKnowledge):
    """A store that returns what the scope admits, and nothing else."""

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        found = await super().search(query, limit=limit, scope=scope)
        return [candidate for candidate in found if scope.admits(candidate.passage)]


def passages() -> list[Passage]:
    made = [fakes.passage(number) for number in range(1, COUNT + 1)]
    return [replace(p, source="notes", kind="reference") if i + 1 == NOTE else p for i, p in enumerate(made)]


def cases() -> list[Case]:
    def question(number: int) -> str:
        return f"How long must a firm keep record {number}?"

    plain = [case(n, case_id=f"a{n}", question=question(n)) for n in range(1, COUNT + 1)]
    refused = [case(case_id=f"u{n}", question=question(n), tags=("unanswerable",)) for n in range(70, 78)]
    barred = case(case_id="s1", question=question(NOTE), tags=("skill",), skill="official")
    return [*plain, *refused, barred]


@dataclass
class Parts:
    """What a bench is made of, each to be replaced by a broken one."""

    model: fakes.ScriptedModel
    knowledge: fakes.FixedKnowledge
    reranker: fakes.FixedReranker
    web: Remembered


@asynccontextmanager
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    snapshots = Snapshots(tmp_path / "web")
    async with open_loopback_web(fakes.FixedReranker(overlap), snapshots, strips=4) as web:
        yield Parts(Reading(), Sieved(passages()), fakes.FixedReranker(same), web)


def bench_of(made: Parts, tmp_path: Path) -> Bench:
    limits = RunLimits(top_n=4, handoff_text="Ask the team.")
    services = fakes.services(tmp_path, knowledge=made.knowledge, reranker=made.reranker, web=made.web, limits=limits)
    skills = Skills([OFFICIAL])
    return Bench(services, lambda: made.model, installation(limits), made.web, skills, passages())


async def tried(made: Parts, tmp_path: Path) -> Trial:
    bench = bench_of(made, tmp_path)
    return await run_trial(bench, cases(), about_of(bench, "quote", "all", cases()), lambda *_: None)


@pytest.fixture
async def good(tmp_path: Path) -> Trial:
    async with parts(tmp_path) as made:
        return await tried(made, tmp_path)


def held(trial: Trial, baseline: Trial) -> list[Failure]:
    return failures(trial, LIMITS, baseline)


def failed(trial: Trial, baseline: Trial) -> dict[str, str]:
    """The measures that failed, with the node that each points at."""
    return {failure.measure.name: failure.measure.node for failure in held(trial, baseline)}


def where(trial: Trial, baseline: Trial) -> str:
    text = verdict(held(trial, baseline), compare(baseline, trial))
    return next(line for line in text.splitlines() if line.startswith("Where it begins"))


def test_the_whole_product_does_right_by_every_scripted_case(good: Trial) -> None:
    assert [row.id for row in good.rows if not row.right] == []
    assert held(good, good) == []


async def test_the_numbers_of_a_second_trial_are_the_same(good: Trial, tmp_path: Path) -> None:
    async with parts(tmp_path / "again") as made:
        again = await tried(made, tmp_path / "again")
    assert again.as_json()["numbers"] == good.as_json()["numbers"]


async def test_a_grader_that_passes_everything_fails_the_gate_at_grade_documents(good: Trial, tmp_path: Path) -> None:
    class Lenient(Reading):
        async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
            return [Grade("pass") for _ in passages]

    async with parts(tmp_path / "broken") as made:
        made.model = Lenient()
        broken = await tried(made, tmp_path / "broken")
    names = failed(broken, good)
    assert {"gate 1 (documents) precision", "irrelevant passages passed", "probe documents: precision"} <= set(names)
    assert "refusal recall" in names
    assert where(broken, good) == "Where it begins: grade_documents."


async def test_a_judge_that_is_turned_round_fails_the_gate_at_reflect(good: Trial, tmp_path: Path) -> None:
    class TurnedRound(Reading):
        async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
            said = await super().judge_answers(question, answer, sources, usage)
            return fakes.FAIL if said.result == "pass" else fakes.PASS

    async with parts(tmp_path / "broken") as made:
        made.model = TurnedRound()
        broken = await tried(made, tmp_path / "broken")
    assert failed(broken, good) == {"probe answers: precision": "reflect", "answerable: right": "reflect"}
    assert where(broken, good) == "Where it begins: reflect."


async def test_a_reranker_that_prefers_the_wrong_fails_the_gate_at_rerank_vector(good: Trial, tmp_path: Path) -> None:
    async with parts(tmp_path / "broken") as made:
        made.reranker = fakes.FixedReranker(lambda question, text: 1 - same(question, text))
        broken = await tried(made, tmp_path / "broken")
    names = failed(broken, good)
    assert names["nDCG@10 after rerank"] == "rerank_vector"
    assert "recall@40 before rerank" not in names
    assert where(broken, good) == "Where it begins: rerank_vector."


async def test_a_filter_that_lets_all_through_fails_the_gate_at_retrieve_vector(good: Trial, tmp_path: Path) -> None:
    async with parts(tmp_path / "broken") as made:
        made.knowledge = fakes.FixedKnowledge(passages())
        broken = await tried(made, tmp_path / "broken")
    (found,) = held(broken, good)
    assert found.measure.name == "passages outside the scope"
    assert list(found.cases) == ["s1"]
    assert where(broken, good) == "Where it begins: retrieve_vector."


async def test_a_filter_that_holds_too_much_back_fails_the_gate_at_retrieve_vector(good: Trial, tmp_path: Path) -> None:
    class Greedy(Sieved):
        async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
            return (await super().search(query, limit=limit, scope=scope))[::2]

    async with parts(tmp_path / "broken") as made:
        made.knowledge = Greedy(passages())
        broken = await tried(made, tmp_path / "broken")
    assert failed(broken, good)["recall@40 before rerank"] == "retrieve_vector"
    assert where(broken, good) == "Where it begins: retrieve_vector."


async def test_a_step_that_asks_the_web_unasked_fails_the_gate_at_search_web(good: Trial, tmp_path: Path) -> None:
    async with parts(tmp_path / "broken") as made:
        web = made.web

        class Leaking(Sieved):
            async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
                async def write(_: str) -> str:
                    return "supervision levy 2032"

                await web.search(WebAsk(query, write, lambda _: None))
                return await super().search(query, limit=limit, scope=scope)

        made.knowledge = Leaking(passages())
        broken = await tried(made, tmp_path / "broken")
    (found,) = held(broken, good)
    assert (found.measure.name, found.measure.node) == ("web egress when off", "search_web")
    assert len(found.cases) == len(cases())


async def test_a_run_that_breaks_is_a_row_of_its_own_and_the_trial_goes_on(good: Trial, tmp_path: Path) -> None:
    async with parts(tmp_path / "broken") as made:
        made.knowledge.failing = RuntimeError("the store fell over")
        broken = await tried(made, tmp_path / "broken")
    assert {row.lost_at for row in broken.rows} == {"error"}
    assert "runs that ended in an error" in failed(broken, good)


async def test_a_history_is_asked_on_a_thread_that_holds_it(tmp_path: Path) -> None:
    follow_up = replace(case(1, question="And record 1?"), history=(("What of record 2?", "Two years."),))
    async with parts(tmp_path) as made:
        observed = await bench_of(made, tmp_path).ask(follow_up)
    assert observed.record["standalone"] == "What of record 2? And record 1?"


async def test_the_web_is_reached_where_the_case_asks_for_it(tmp_path: Path) -> None:
    asked = case(1, question="Which supervision levy is paid for record 1?", web_search=True)
    async with parts(tmp_path) as made:
        observed = await bench_of(made, tmp_path).ask(asked)
    assert observed.egress.searches == 1
    assert observed.web_allowed


async def test_the_route_of_a_case_shows_its_labels_and_the_audit_text(tmp_path: Path) -> None:
    async with parts(tmp_path) as made:
        observed = await bench_of(made, tmp_path).ask(cases()[0])
    text = explained(observed.case, dict(observed.record))
    assert "must state: 1 years" in text
    assert "=> grade_documents -> assemble_sources" in text
    assert "End: answered: both gates passed" in text
