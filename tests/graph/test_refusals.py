"""What a run that shows no answer tells its reader: why, and only what is known."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from service.graph import refusals
from service.graph.state import Limits
from service.model import ABSTAIN, Delivery, Grade, Judgement, OnUngrounded, Passage
from service.threads import ThreadRef
from tests.audit.logs import audit_log, bodies
from tests.fakes import ERROR, FAIL, FixedKnowledge, ScriptedModel, cite_first, cut, passage, services
from tests.running import House
from tests.wire import Frame, assert_grammar, of

LACKING = "does not hold enough"
DOWN = Judgement("error", "unavailable: The language model did not finish in time.")
HANDOFF = "Ask the knowledge team."


@dataclass(frozen=True)
class Unknown:
    """A model that keeps the run from knowing whether there is an answer, and the fault that its reader is told."""

    model: Callable[[], ScriptedModel]
    code: str
    said: str


UNKNOWN = {
    "the grounded judge is down": Unknown(
        lambda: ScriptedModel(grounded=lambda _: DOWN), "model_unavailable", "could not be checked"
    ),
    "the grounded judge says what is no verdict": Unknown(
        lambda: ScriptedModel(grounded=lambda _: ERROR), "model_unusable", "could not be checked"
    ),
    "the other judge is down": Unknown(
        lambda: ScriptedModel(answering=lambda _: DOWN), "model_unavailable", "could not be checked"
    ),
    "one judge is down and the other says no": Unknown(
        lambda: ScriptedModel(grounded=lambda _: DOWN, answering=lambda _: FAIL),
        "model_unavailable",
        "could not be checked",
    ),
    "the draft was too long": Unknown(
        lambda: ScriptedModel(draft=lambda _, sources: cut(cite_first(sources))), "model_unusable", "cut short"
    ),
    "the model declined": Unknown(
        lambda: ScriptedModel(draft=lambda _, sources: cut(cite_first(sources), "refusal")),
        "model_unusable",
        "cut short",
    ),
}


@pytest.mark.parametrize(("delivery", "rule"), [("verified", "warn"), ("draft", "refuse"), ("verified", "refuse")])
@pytest.mark.parametrize("case", UNKNOWN)
async def test_a_draft_that_could_not_be_checked_is_not_shown_and_never_told_as_a_gap_of_the_knowledge_base(
    tmp_path: Path, case: str, delivery: Delivery, rule: OnUngrounded
) -> None:
    limits = Limits(on_ungrounded=rule, handoff_text=HANDOFF)
    async with audit_log(tmp_path / "audit") as audit:
        house = House(services(tmp_path, limits=limits), UNKNOWN[case].model(), audit=audit)
        frames = await house.ask(delivery=delivery)
    assert_grammar(frames, delivery)
    assert_fault(frames, UNKNOWN[case].code, UNKNOWN[case].said)
    [record] = bodies(tmp_path / "audit")
    assert (record["ending"]["code"], record["answer"], record["complete"]) == (UNKNOWN[case].code, "", False)
    assert record["forks"][-1]["to"] == "give_up"
    assert (await house.history.state(ThreadRef("alice", "t1")))["turns"] == []


def assert_fault(frames: list[Frame], code: str, said: str) -> None:
    last = frames[-1]
    assert (last["type"], last["code"], last["retryable"]) == ("error", code, True)
    assert said in last["message"]
    assert LACKING not in str(frames)


@pytest.mark.parametrize("mode", ["each", "batch"])
async def test_where_a_passage_could_not_be_graded_nothing_is_said_of_what_the_knowledge_base_lacks(
    tmp_path: Path, mode: Literal["each", "batch"]
) -> None:
    def grading(_: int, item: Passage) -> Grade:
        return Grade("error", "garbage") if item.passage_id == knowledge.passages[2].passage_id else Grade("fail")

    knowledge = FixedKnowledge([passage(n) for n in range(1, 5)])
    house = House(
        services(tmp_path, knowledge=knowledge, limits=Limits(grade_mode=mode, handoff_text=HANDOFF)),
        ScriptedModel(grading=grading),
    )
    frames = await house.ask()
    assert_grammar(frames)
    assert_fault(frames, "model_unusable", "could not be graded")


async def test_a_passage_that_is_graded_in_a_second_pass_leaves_no_doubt(tmp_path: Path) -> None:
    model = ScriptedModel(grading=lambda count, _: Grade("error" if count == 0 else "fail"))
    frames = await House(services(tmp_path), model).ask()
    assert frames[-1]["status"] == "refused"
    assert LACKING in frames[-1]["answer"]


FAILED = {
    "not grounded": ScriptedModel(grounded=lambda _: FAIL),
    "off topic": ScriptedModel(answering=lambda _: FAIL),
    "a marker of no source": ScriptedModel(draft=lambda *_: "The rule says so [[99]]."),
    "no citation": ScriptedModel(draft=lambda *_: "The rule says so."),
    "an invented quotation": ScriptedModel(draft=lambda *_: "It says “nobody ever wrote these words” [[1]]."),
    "not grounded, and the other judge down": ScriptedModel(grounded=lambda _: FAIL, answering=lambda _: DOWN),
}


@pytest.mark.parametrize("case", FAILED)
async def test_a_draft_that_failed_a_check_is_told_as_that(tmp_path: Path, case: str) -> None:
    frames = await House(services(tmp_path), FAILED[case]).ask(delivery="verified")
    assert_grammar(frames, "verified")
    done = frames[-1]
    assert (done["status"], done["citations"]) == ("refused", [])
    assert "passed its checks" in done["answer"]
    assert done["answer"].endswith(HANDOFF)
    assert LACKING not in done["answer"]


LACKED = {
    "nothing is found": (ScriptedModel(), 0),
    "nothing is relevant": (ScriptedModel(grading=lambda *_: Grade("fail")), 4),
    "the writer abstains": (ScriptedModel(draft=lambda *_: f"{ABSTAIN} nothing here"), 4),
}


@pytest.mark.parametrize("case", LACKED)
async def test_what_the_knowledge_base_lacks_is_told_as_that(tmp_path: Path, case: str) -> None:
    model, passages = LACKED[case]
    knowledge = FixedKnowledge([passage(n) for n in range(1, passages + 1)])
    frames = await House(services(tmp_path, knowledge=knowledge), model).ask()
    assert frames[-1]["answer"] == f"The knowledge base does not hold enough to answer this reliably. {HANDOFF}"


async def test_a_draft_that_was_seen_is_withdrawn_before_the_fault_is_told(tmp_path: Path) -> None:
    limits = Limits(on_ungrounded="refuse")
    frames = await House(services(tmp_path, limits=limits), ScriptedModel(grounded=lambda _: DOWN)).ask()
    assert [frame["reason"] for frame in of(frames, "reset")] == ["not_assessed"]


def test_the_page_knows_both_texts_of_a_refusal() -> None:
    """It shows whom to ask apart from them."""
    script = Path("service/ui/answer.js").read_text()
    assert all(f'"{text}"' in script for text in (refusals.LACKING, refusals.FAILED))
