"""Whatever judges, writers and the store do, a run ends in one terminal event within its caps (acceptance 2)."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import KnowledgeBaseError, ModelUnavailable
from service.graph.routing import max_model_calls
from service.graph.state import Limits
from service.knowledge.snapshots import Snapshots
from service.model import ABSTAIN, Candidate, Delivery, Grade, Judgement, Passage, Scope, Source
from service.usage import Usage
from tests.fakes import FixedKnowledge, ScriptedModel, cite_first, cut, passage, services, snapped
from tests.running import House
from tests.wire import Frame, assert_grammar, of

DRAFTS = ["good", "abstain", "unresolved", "uncited", "empty", "invented", "cut", "cut_empty", "down", "down_midway"]
JUDGEMENTS = ["pass", "fail", "error"]

draft_plan = st.lists(st.sampled_from(DRAFTS), min_size=1, max_size=4)
judge_plan = st.lists(st.sampled_from(JUDGEMENTS), min_size=1, max_size=4)
grade_plan = st.lists(st.sampled_from(JUDGEMENTS), min_size=1, max_size=8)
limits_plan = st.builds(
    Limits,
    top_n=st.integers(1, 4),
    grade_mode=st.sampled_from(["each", "batch"]),
    grade_concurrency=st.integers(1, 4),
    max_rewrites=st.integers(0, 3),
    max_regen=st.integers(0, 3),
    on_ungrounded=st.sampled_from(["warn", "refuse"]),
    handoff_text=st.just("Ask the knowledge team."),
)


def drafting(plan: Sequence[str], count: int, sources: Sequence[Source]) -> str | Exception:
    kind = plan[count % len(plan)]
    good = cite_first(sources)
    plans: dict[str, str | Exception] = {
        "good": good,
        "abstain": f"{ABSTAIN} nothing here",
        "unresolved": "A rule says so [[99]].",
        "uncited": "A rule says so.",
        "empty": "  ",
        "invented": f"It says “these are words that nobody ever wrote down” [[{sources[0].n}]].",
        "cut": cut(good[: len(good) // 2]),
        "cut_empty": cut(""),
        "down": ModelUnavailable("The model is away."),
        "down_midway": ModelUnavailable("The model is away.", good),
    }
    return plans[kind]


def scripted(
    drafts: Sequence[str], grounded: Sequence[str], answers: Sequence[str], grades: Sequence[str]
) -> ScriptedModel:
    def judge(plan: Sequence[str], count: int) -> Judgement:
        return Judgement(plan[count % len(plan)], "words")  # type: ignore[arg-type]  # one of JUDGEMENTS

    def grade(count: int, item: Passage) -> Grade:
        place = count + int(item.passage_id[1:])
        return Grade(grades[place % len(grades)], "words")  # type: ignore[arg-type]  # one of JUDGEMENTS

    return ScriptedModel(
        draft=lambda count, sources: drafting(drafts, count, sources),
        grading=grade,
        grounded=lambda count: judge(grounded, count),
        answering=lambda count: judge(answers, count),
    )


def run_once(model: ScriptedModel, limits: Limits, delivery: Delivery, knowledge: FixedKnowledge) -> list[Frame]:
    async def work() -> list[Frame]:
        with tempfile.TemporaryDirectory() as folder:
            house = House(services(Path(folder), knowledge=knowledge, limits=limits), model)
            await house.ask("first question", thread="t")
            model.calls.clear()
            return await house.ask("and the second?", thread="t", delivery=delivery)

    return asyncio.run(work())


def final_results(frames: Sequence[Frame], gate: str) -> str:
    said = [frame["result"] for frame in of(frames, "verdict") if frame["gate"] == gate]
    return said[-1] if said else ""


def assert_status(frames: Sequence[Frame], limits: Limits, delivery: str) -> None:
    done = frames[-1]
    grounded, answers = final_results(frames, "grounded"), final_results(frames, "answers")
    if done["status"] == "answered":
        assert (grounded, answers) == ("pass", "pass")
        assert done["warning"] == ""
    if done["status"] == "partial":
        assert (grounded, answers) != ("pass", "pass")
        assert limits.on_ungrounded == "warn"
        assert delivery == "draft"
        assert done["warning"]
        assert "[[99]]" not in done["answer"]
    if done["status"] == "refused":
        assert "Ask the knowledge team." in done["answer"]
    assert done["answer"].strip()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    draft_plan,
    judge_plan,
    judge_plan,
    grade_plan,
    limits_plan,
    st.sampled_from(["draft", "verified"]),
    st.integers(0, 6),
)
def test_every_run_ends_in_one_terminal_event_within_its_caps(
    drafts: list[str],
    grounded: list[str],
    answers: list[str],
    grades: list[str],
    limits: Limits,
    delivery: Delivery,
    passages: int,
) -> None:
    model = scripted(drafts, grounded, answers, grades)
    knowledge = FixedKnowledge([passage(n) for n in range(1, passages + 1)])
    frames = run_once(model, limits, delivery, knowledge)
    assert_grammar(frames, delivery)
    assert len(model.calls) <= max_model_calls(limits)
    assert max(frame["attempt"] for frame in frames) <= 1 + limits.max_rewrites + limits.max_regen
    if frames[-1]["type"] == "done":
        assert frames[-1]["rewrites"] <= limits.max_rewrites
        assert frames[-1]["regens"] <= limits.max_regen
        assert frames[-1]["usage"]["model_calls"] == len(model.calls)
        assert_status(frames, limits, delivery)
    else:
        assert frames[-1]["code"] in {"model_unavailable", "model_unusable"}


@pytest.mark.parametrize("rewrites", [0, 1, 2, 4])
@pytest.mark.parametrize("regens", [0, 1, 3])
@pytest.mark.parametrize("mode", ["each", "batch"])
def test_a_judge_that_always_says_no_ends_at_the_computed_bound(
    tmp_path: Path, rewrites: int, regens: int, mode: Literal["each", "batch"]
) -> None:
    """D06: the bound is tight: regenerate to the cap, then go off topic to the cap, over passages always new."""
    limits = Limits(top_n=3, grade_mode=mode, max_rewrites=rewrites, max_regen=regens)
    model = ScriptedModel(
        grounded=lambda count: Judgement("fail" if count < regens else "pass", "no"),
        answering=lambda _: Judgement("fail", "no"),
    )

    async def work() -> list[Frame]:
        house = House(services(tmp_path, knowledge=NeverTheSame(tmp_path), limits=limits), model)
        await house.ask("first")
        model.calls.clear()
        return await house.ask("second")

    frames = asyncio.run(work())
    assert frames[-1]["type"] == "done"
    assert (frames[-1]["rewrites"], frames[-1]["regens"]) == (rewrites, regens)
    assert len(model.calls) == max_model_calls(limits)


class NeverTheSame(FixedKnowledge):
    """Each search brings passages that were not seen before, so each pass grades anew."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._snapshots = Snapshots(folder)

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        self.queries.append((query, scope))
        first = len(self.queries) * 100
        return [Candidate(snapped(passage(first + n), self._snapshots), 1.0) for n in range(3)][:limit]


class Parrot(ScriptedModel):
    """Rewrites a query into itself."""

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        await super().rewrite(question, tried, seen, usage)
        return tried


@pytest.mark.parametrize(
    ("model", "passages"),
    [
        (ScriptedModel(grading=lambda _, __: Grade("fail", "no")), 8),
        (ScriptedModel(), 0),
        (Parrot(grading=lambda _, __: Grade("fail", "no")), 8),
    ],
    ids=["the grader always says no", "nothing is found", "the rewrite is the question again"],
)
async def test_D06_a_search_in_vain_ends_in_a_refusal_within_the_caps_and_the_thread_goes_on(
    tmp_path: Path, model: ScriptedModel, passages: int
) -> None:
    limits = Limits(max_rewrites=2, handoff_text="Ask.")
    knowledge = FixedKnowledge([passage(n) for n in range(1, passages + 1)])
    house = House(services(tmp_path, knowledge=knowledge, limits=limits), model)
    frames = await house.ask()
    assert_grammar(frames)
    assert (frames[-1]["type"], frames[-1]["status"], frames[-1]["rewrites"]) == ("done", "refused", 2)
    assert len(model.calls) <= max_model_calls(limits)
    model.grading = lambda _, __: Grade("pass")
    knowledge.passages = FixedKnowledge([snapped(passage(90), Snapshots(tmp_path))]).passages
    assert (await house.ask("And record 90?"))[-1]["status"] == "answered"


@pytest.mark.parametrize("on_ungrounded", ["warn", "refuse"])
async def test_U26_a_draft_that_cites_nothing_is_given_no_citation(
    tmp_path: Path, on_ungrounded: Literal["warn", "refuse"]
) -> None:
    """However well a passage fits, only the writer cites."""
    limits = Limits(max_regen=0, on_ungrounded=on_ungrounded, handoff_text="Ask.")
    said = "Rule 1 says that a firm must keep record 1 for 1 years."
    model = ScriptedModel(draft=lambda _, __: said)
    frames = await House(services(tmp_path, limits=limits), model).ask()
    assert frames[-1]["citations"] == []
    assert frames[-1]["status"] == ("partial" if on_ungrounded == "warn" else "refused")
    assert [(v["gate"], v["result"], v["reason"]) for v in of(frames, "verdict")][1] == (
        "grounded",
        "fail",
        "no_citation",
    )
    assert model.count("judge_grounded") == 0


async def test_a_store_that_is_down_ends_the_run_in_an_error(tmp_path: Path) -> None:
    knowledge = FixedKnowledge()
    house = House(services(tmp_path, knowledge=knowledge), ScriptedModel())
    knowledge.failing = KnowledgeBaseError("The knowledge base does not answer.")
    frames = await house.ask()
    assert_grammar(frames)
    assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "knowledge_base_unavailable")
    knowledge.failing = None
    assert (await house.ask())[-1]["status"] == "answered"
