"""Two turns of one thread: follow-ups, numbering, stops (acceptance 4)."""

import asyncio
from pathlib import Path

import pytest

from service.errors import ThreadBusy
from service.graph.run import Request
from service.llm.quote import Quote, Thresholds
from service.model import Grade
from service.threads import ThreadRef
from tests.fakes import FixedKnowledge, FixedReranker, ScriptedModel, passage, services, stored
from tests.running import House
from tests.wire import of


def quoting() -> Quote:
    return Quote(FixedReranker(lambda *_: 1.0), Thresholds(0.1, 0.1))


async def test_a_follow_up_is_searched_with_the_topic_of_the_turn_before(tmp_path: Path) -> None:
    """U20."""
    knowledge = FixedKnowledge()
    house = House(services(tmp_path, knowledge=knowledge), quoting())
    await house.ask("How often must a firm reconcile client money?")
    await house.ask("What about joint accounts?")
    query = knowledge.queries[-1][0]
    assert "joint accounts" in query
    assert "reconcile" in query
    assert "client money" in query


async def test_a_question_that_stands_alone_is_left_alone(tmp_path: Path) -> None:
    """U20."""
    knowledge = FixedKnowledge()
    house = House(services(tmp_path, knowledge=knowledge), quoting())
    await house.ask("How often must a firm reconcile client money?")
    await house.ask("Which documents identify a trust under standard due diligence?")
    assert knowledge.queries[-1][0] == "Which documents identify a trust under standard due diligence?"


async def test_the_first_turn_of_a_thread_asks_no_model_to_condense(tmp_path: Path) -> None:
    model = ScriptedModel()
    house = House(services(tmp_path), model)
    await house.ask("first")
    assert model.count("condense") == 0
    await house.ask("second")
    assert model.count("condense") == 1


async def test_a_thread_read_again_has_the_same_numbers_quotes_and_links(tmp_path: Path) -> None:
    """U07."""
    house = House(services(tmp_path), ScriptedModel())
    frames = [*await house.ask("first"), *await house.ask("second")]
    state = await house.history.state(ThreadRef("alice", "t1"))
    for turn, done in zip(state["turns"], of(frames, "done"), strict=True):
        again = house.presenter.answer(turn, state["registry"]).model_dump(mode="json")
        assert {key: done[key] for key in again} == again
    shown = {item["n"]: item for frame in of(frames, "sources") for item in frame["items"]}
    assert [house.presenter.source(item).model_dump(mode="json") for item in state["registry"]] == list(shown.values())


async def test_a_stopped_run_leaves_no_half_turn_and_the_thread_goes_on(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=0.2)
    house = House(services(tmp_path), model)
    ref = ThreadRef("alice", "t1")
    run = house.runs.start(Request(ref, "stopped in the middle"))
    frames = []
    async for told in run.events():
        frames.append(house.presenter.frame(told, run.run_id).model_dump(mode="json"))
        if frames[-1]["type"] == "token":
            run.stop()
    assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "cancelled")
    assert model.closed == 1
    assert (await house.history.state(ref))["turns"] == []
    assert (await house.ask("asked again"))[-1]["status"] == "answered"
    assert [turn["question"] for turn in (await house.history.state(ref))["turns"]] == ["asked again"]


async def test_a_run_stopped_before_its_first_step_still_ends(tmp_path: Path) -> None:
    house = House(services(tmp_path), ScriptedModel())
    run = house.runs.start(Request(ThreadRef("alice", "t1"), "never begun"))
    run.stop()
    assert [type(told.event).__name__ async for told in run.events()] == ["Started", "Failed"]
    assert (await house.ask())[-1]["status"] == "answered"


async def test_two_runs_on_one_thread_give_one_answer_and_one_refusal_to_begin(tmp_path: Path) -> None:
    house = House(services(tmp_path), ScriptedModel(delay_s=0.05))
    first = asyncio.create_task(house.ask("amber"))
    await asyncio.sleep(0)
    with pytest.raises(ThreadBusy):
        house.runs.start(Request(ThreadRef("alice", "t1"), "cobalt"))
    assert (await house.ask("other thread", thread="t2"))[-1]["status"] == "answered"
    assert (await first)[-1]["status"] == "answered"


async def test_a_run_past_its_deadline_ends_in_an_error(tmp_path: Path) -> None:
    house = House(services(tmp_path), ScriptedModel(delay_s=5), deadline_s=0.2)
    frames = await house.ask()
    assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "deadline_exceeded")


async def test_the_same_passage_keeps_its_number_and_a_changed_page_gets_a_new_one(tmp_path: Path) -> None:
    knowledge = FixedKnowledge([passage(1)])
    world = services(tmp_path, knowledge=knowledge)
    house = House(world, ScriptedModel())
    first = of(await house.ask(), "sources")[0]["items"][0]
    again = of(await house.ask(), "sources")[0]["items"][0]
    knowledge.passages = [passage(1, "The rule was changed to say something else entirely.")]
    stored(knowledge, tmp_path)
    changed = of(await house.ask(), "sources")[0]["items"][0]
    assert (first["n"], again["n"], changed["n"]) == (1, 1, 2)
    assert first["passage_id"] == changed["passage_id"]
    assert first["sha256"] != changed["sha256"]


async def test_a_rewrite_searches_again_with_other_words_and_grades_what_is_new(tmp_path: Path) -> None:
    knowledge = FixedKnowledge()
    model = ScriptedModel(grading=lambda count, _: Grade("fail" if count < 6 else "pass"))
    house = House(services(tmp_path, knowledge=knowledge), model)
    frames = await house.ask("question", web_search=True)
    assert frames[-1]["status"] == "refused"  # the same six came back: nothing new to grade
    assert (frames[-1]["rewrites"], model.count("rewrite"), model.count("grade")) == (1, 1, 6)
    assert knowledge.queries[1][0] != knowledge.queries[0][0]
