"""From one record, a reader who was not there rebuilds the answer (acceptance 5)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from service.graph.state import Limits
from service.model import Candidate, Delivery, Grade, Judgement
from service.ports import WebFindings
from service.skills.skill import Gates
from tests.audit.logs import audit_log, bodies
from tests.audit.replaying import Record, replayed
from tests.fakes import FAIL, PASS, FixedKnowledge, ScriptedModel, ScriptedWeb, cut, passage, services, snapped
from tests.graph.test_every_run_ends import NeverTheSame
from tests.running import House
from tests.skills.writing import skill

REBUILT = ("sources", "forks", "citations", "answer", "warning", "complete", "verdicts", "drafts", "registered_before")

LIMITS = Limits(handoff_text="Ask the knowledge team.")


def without_times(record: Record) -> Record:
    kept = {name: record[name] for name in REBUILT}
    kept["outcome"] = record["ending"]["outcome"]
    kept["passes"] = [(one["query"], one["grades"], one["kept"]) for one in record["passes"]]
    return kept


async def assert_rebuilt(records: list[Record], house: House, folder: Path) -> None:
    for number, record in enumerate(records):
        again = await replayed(record, house.services.snapshots, folder / f"again{number}")
        assert without_times(again) == without_times(record)
        assert again["run_id"] != record["run_id"]


def only_even(_: int, item: object) -> Grade:
    number = int(getattr(item, "passage_id", "p0")[1:])
    return Grade("pass" if number % 2 == 0 else "fail", f"because it is {number}")


MODELS: dict[str, Callable[[], ScriptedModel]] = {
    "answered with a quotation": ScriptedModel,
    "answered in other words": lambda: ScriptedModel(draft=lambda _, s: f"Keep it [[{s[0].n}]]. Or so [[{s[1].n}]]."),
    "some passages relevant": lambda: ScriptedModel(grading=only_even),
    "a draft withdrawn": lambda: ScriptedModel(grounded=lambda count: FAIL if count == 0 else PASS),
    "never grounded": lambda: ScriptedModel(grounded=lambda _: FAIL),
    "off topic, then rewritten": lambda: ScriptedModel(answering=lambda count: FAIL if count == 0 else PASS),
    "refused": lambda: ScriptedModel(grading=lambda *_: Grade("fail", "beside the point")),
    "abstained": lambda: ScriptedModel(draft=lambda *_: "[[abstain]]"),
    "a marker that is no source": lambda: ScriptedModel(draft=lambda *_: "It is so [[99]]."),
    "no citation": lambda: ScriptedModel(draft=lambda *_: "It is so."),
    "an invented quotation": lambda: ScriptedModel(draft=lambda *_: "It says “no one ever wrote this” [[1]]."),
    "cut short": lambda: ScriptedModel(draft=lambda *_: cut("It is so [[1]]. And")),
    "a judge that cannot be believed": lambda: ScriptedModel(answering=lambda _: Judgement("error", "garbage")),
}


@pytest.mark.parametrize("delivery", ["draft", "verified"])
@pytest.mark.parametrize("name", MODELS)
async def test_a_record_replayed_gives_the_same_sources_forks_and_citations(
    tmp_path: Path, name: str, delivery: Delivery
) -> None:
    async with audit_log(tmp_path / "first") as audit:
        house = House(services(tmp_path, limits=LIMITS), MODELS[name](), audit=audit)
        await house.ask("How long?", delivery=delivery)
    await assert_rebuilt(bodies(tmp_path / "first"), house, tmp_path)


async def test_a_record_of_a_rewrite_to_other_passages_is_rebuilt(tmp_path: Path) -> None:
    model = ScriptedModel(grading=lambda count, _: Grade("fail" if count < 3 else "pass", f"word {count}"))
    async with audit_log(tmp_path / "first") as audit:
        house = House(services(tmp_path, knowledge=NeverTheSame(tmp_path), limits=LIMITS), model, audit=audit)
        await house.ask("How long?")
    await assert_rebuilt(bodies(tmp_path / "first"), house, tmp_path)


async def test_a_follow_up_is_rebuilt_with_the_numbers_of_its_thread(tmp_path: Path) -> None:
    knowledge = FixedKnowledge([passage(n) for n in range(1, 13)])
    world = services(tmp_path, knowledge=knowledge, limits=replace(LIMITS, top_n=4))
    async with audit_log(tmp_path / "first") as audit:
        house = House(world, ScriptedModel(), audit=audit)
        await house.ask("first")
        knowledge.passages = knowledge.passages[2:]
        await house.ask("second")
        knowledge.passages = knowledge.passages[6:]
        await house.ask("third")
    records = bodies(tmp_path / "first")
    assert [record["registered_before"] for record in records] == [0, 4, 6]
    assert [source["n"] for source in records[1]["sources"]] == [3, 4, 5, 6]
    await assert_rebuilt(records, house, tmp_path)


async def test_a_run_that_asked_the_web_is_rebuilt_without_asking_it_again(tmp_path: Path) -> None:
    world = services(tmp_path)
    strip = snapped(passage(90, kind="web"), world.snapshots)
    web = ScriptedWeb(WebFindings("what left", "ok", (Candidate(strip, 0.95),)))
    async with audit_log(tmp_path / "first") as audit:
        house = House(services(tmp_path, web=web, limits=LIMITS), ScriptedModel(), audit=audit)
        await house.ask("How long?", web_search=True)
    await assert_rebuilt(bodies(tmp_path / "first"), house, tmp_path)
    assert [ask.question for ask in web.asked] == ["How long?"]


async def test_a_refusal_that_the_operator_chose_is_rebuilt(tmp_path: Path) -> None:
    limits = replace(LIMITS, on_ungrounded="refuse", max_regen=0, grade_mode="batch")
    async with audit_log(tmp_path / "first") as audit:
        house = House(services(tmp_path, limits=limits), ScriptedModel(grounded=lambda _: FAIL), audit=audit)
        await house.ask("How long?")
    [record] = bodies(tmp_path / "first")
    assert record["ending"]["outcome"] == "refused"
    await assert_rebuilt([record], house, tmp_path)


async def test_a_run_under_a_skill_is_rebuilt_with_the_caps_that_held(tmp_path: Path) -> None:
    strict = skill(gates=Gates(top_n=2, max_regen=0, delivery="verified", on_ungrounded="refuse"))
    async with audit_log(tmp_path / "first") as audit:
        house = House(services(tmp_path, limits=LIMITS), ScriptedModel(grounded=lambda _: FAIL), audit=audit)
        await house.ask("How long?", skill=strict)
    [record] = bodies(tmp_path / "first")
    assert (record["ending"]["outcome"], len(record["passes"][0]["grades"])) == ("refused", 2)
    await assert_rebuilt([record], house, tmp_path)
