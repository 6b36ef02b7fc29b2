"""Design 6: one grade for the set, rewrites that drift, forced generation, the check and its trace."""

from dataclasses import replace

import pytest

from evals.designs.desk import MENDED, PUBLISHED, Quirks
from evals.designs.port import DONT_KNOW
from evals.designs.state_machine import TEMPERATURES, build
from tests.evals.designs.benches import NO_FAULTS, calls, case_of, desk_of, mending, run, told


async def test_at_best_it_takes_four_calls_with_one_grade_for_the_set() -> None:
    desk = desk_of(told(case_of(1)))
    state = await run(build(), desk)
    assert desk.usage.calls == {"route": 1, "grade_set": 1, "answer": 1, "hallucinated": 1}
    assert len(state["found"]) == 5  # one relevant passage lets four others through


async def test_an_empty_retrieval_is_not_graded_by_a_model() -> None:
    desk = desk_of(told(case_of(1)), passages=[])
    state = await run(build(), desk)
    assert desk.usage.calls["grade_set"] == 0
    assert "grade: nothing retrieved" in state["trace"]


async def test_the_check_is_skipped_without_documents() -> None:
    desk = desk_of(told(case_of(1), faults=replace(NO_FAULTS, guesses=1.0)), passages=[])
    state = await run(build(), desk)
    assert (desk.usage.calls["hallucinated"], state["trace"][-1]) == (0, "verify: skipped")
    assert "7,777" in state["draft"]  # and so an invention over nothing is shown


async def test_i_do_not_know_is_faithful() -> None:
    desk = desk_of(told(case_of()))
    state = await run(build(), desk)
    assert (state["draft"], state["bad"], state["drafts"]) == (DONT_KNOW, False, 1)


@pytest.mark.parametrize(("quirks", "status"), [(PUBLISHED, None), (MENDED, "partial")])
async def test_when_the_rewrites_are_used_up_it_generates_all_the_same(quirks: Quirks, status: str | None) -> None:
    desk = desk_of(told(case_of(), faults=replace(NO_FAULTS, misreads=1.0)), quirks)
    state = await run(build(), desk)
    assert desk.usage.calls["rewrite"] == 2
    assert ("generate: forced" in state["trace"], state.get("status")) == (True, status)


@pytest.mark.parametrize(("quirks", "drifts"), [(PUBLISHED, True), (MENDED, False)])
async def test_a_rewrite_builds_on_the_last_rewrite(quirks: Quirks, drifts: bool) -> None:
    model = told(case_of())
    state = await run(build(), desk_of(model, quirks))
    first, second = (entry for entry in state["trace"] if entry.startswith("rewrite"))
    asked = [call.about for call in model.asked if call.name == "rewrite"]
    assert (f"rewrite: {asked[1]}" == first) == drifts
    assert second.startswith(f"rewrite: {asked[1]}")


async def test_the_check_has_one_retry() -> None:
    desk = desk_of(mending(case_of(1), wrong=1))
    state = await run(build(), desk)
    assert (state["drafts"], calls(desk), "for 1 years" in state["draft"]) == (2, 6, True)


@pytest.mark.parametrize(("quirks", "status"), [(PUBLISHED, None), (MENDED, "partial")])
async def test_after_the_retry_what_failed_the_check_is_shown(quirks: Quirks, status: str | None) -> None:
    desk = desk_of(told(case_of(1), faults=replace(NO_FAULTS, invents=1.0)), quirks)
    state = await run(build(), desk)
    assert (state["drafts"], "7,777" in state["draft"], state.get("status")) == (2, True, status)


async def test_a_misread_yes_ships_the_hallucination_at_once() -> None:
    desk = desk_of(told(case_of(1), faults=replace(NO_FAULTS, invents=1.0)), replace(PUBLISHED, misread=True))
    state = await run(build(), desk)
    assert (state["drafts"], "7,777" in state["draft"]) == (1, True)


async def test_what_is_not_for_the_store_goes_to_the_web_in_doubt() -> None:
    desk = desk_of(told(case_of(1), way="somewhere"))
    await run(build(), desk)
    assert len(desk.visit.queries) == 1


async def test_each_node_has_its_temperature_and_leaves_a_trace_entry() -> None:
    model = told(case_of())
    state = await run(build(), desk_of(model))
    asked = {call.name: call.temperature for call in model.asked}
    assert asked["rewrite"] == TEMPERATURES["rewrite"]
    assert (asked["route"], asked["grade_set"]) == (TEMPERATURES["route"], TEMPERATURES["grade"])
    assert asked["answer"] == TEMPERATURES["generate"]
    nodes = [entry.split(":")[0] for entry in state["trace"]]
    assert nodes == ["route", *["retrieve", "grade", "rewrite"] * 2, "retrieve", "grade", "generate", "verify"]
