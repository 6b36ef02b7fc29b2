"""Design 2: three ways, an unknown route, three generations, and the test set of its router."""

from dataclasses import replace

import pytest

from evals.designs.desk import MENDED, PUBLISHED, Quirks
from evals.designs.port import DONT_KNOW
from evals.designs.three_way import MAX_GENERATIONS, ROUTER_TEST_SET, build
from tests.evals.designs.benches import NO_FAULTS, calls, case_of, desk_of, mending, run, told


async def test_an_unknown_route_falls_back_to_the_store() -> None:
    desk = desk_of(told(case_of(1), way="vectorstore, I think"))
    state = await run(build(), desk)
    assert (len(state["found"]), desk.visit.queries, calls(desk)) == (5, [], 9)


async def test_one_surviving_passage_keeps_the_web_out() -> None:
    desk = desk_of(told(case_of(3)))
    state = await run(build(), desk)
    assert (desk.visit.queries, "for 3 years" in state["draft"]) == ([], True)


async def test_the_web_is_searched_when_no_passage_survives_with_the_question_as_it_was_typed() -> None:
    question = "What did our client Ada Thornbury say about her record?"
    desk = desk_of(told(case_of(kind="private", question=question)))
    await run(build(), desk, question)
    assert desk.visit.queries == [question]


async def test_a_direct_answer_rests_on_nothing_and_is_not_checked() -> None:
    model = told(case_of(), way="direct")
    desk = desk_of(model)
    state = await run(build(), desk)
    assert (calls(desk), desk.evidence, "7,777" in state["draft"]) == (2, [], True)
    assert not any(call.name in ("judge_grounded", "judge_answers") for call in model.asked)


async def test_a_draft_that_is_not_grounded_is_written_again() -> None:
    desk = desk_of(mending(case_of(1, 2, 3), wrong=2))
    state = await run(build(), desk)
    assert (state["drafts"], "for 1 years" in state["draft"], desk.visit.queries) == (3, True, [])


async def test_an_answer_that_is_not_useful_brings_the_web_in() -> None:
    case = replace(case_of(1), facts=("for 99 years",))
    desk = desk_of(told(case))
    state = await run(build(), desk)
    assert (len(desk.visit.queries), len(state["pages"]), state["drafts"]) == (1, 3, MAX_GENERATIONS)


@pytest.mark.parametrize(("quirks", "status"), [(PUBLISHED, None), (MENDED, "partial")])
async def test_after_three_generations_the_draft_is_shown_whatever_the_checks_said(
    quirks: Quirks, status: str | None
) -> None:
    desk = desk_of(told(case_of(1, 2, 3), faults=replace(NO_FAULTS, invents=1.0)), quirks)
    state = await run(build(), desk)
    assert (state["drafts"], state.get("status"), "7,777" in state["draft"]) == (MAX_GENERATIONS, status, True)
    assert calls(desk) == 1 + 5 + 3 * 2


async def test_a_writer_that_does_not_know_says_so_in_the_end() -> None:
    state = await run(build(), desk_of(told(case_of())))
    assert state["draft"] == DONT_KNOW


@pytest.mark.parametrize(("question", "way"), ROUTER_TEST_SET)
async def test_each_of_the_five_kinds_of_question_ends_where_the_published_test_wants_it(
    question: str, way: str
) -> None:
    said = "no idea" if question.startswith("asdf") else way
    desk = desk_of(told(case_of(1), way=said))
    state = await run(build(), desk, question)
    took = "direct" if "kept" in state and not desk.evidence else "web" if desk.visit.queries else "store"
    assert took == way


def test_the_published_router_test_covers_five_kinds_and_all_three_ways() -> None:
    assert len(ROUTER_TEST_SET) == 5
    assert {way for _, way in ROUTER_TEST_SET} == {"store", "web", "direct"}
