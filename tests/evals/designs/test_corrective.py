"""Designs 3, 4 and 5: the majority vote, the three verdicts, and the retry that stays inside."""

from dataclasses import replace

import pytest

from evals.designs import majority, retry_inside, three_verdicts
from evals.designs.desk import MENDED, PUBLISHED, Quirks
from evals.designs.port import DONT_KNOW
from evals.designs.truth import unsupported
from tests.evals.designs.benches import NO_FAULTS, calls, case_of, desk_of, run, told
from tests.fakes import passage

PRIVATE = "What did our client Ada Thornbury pay for her record?"


# Design 3


async def test_two_relevant_passages_of_five_are_outvoted_at_seven_calls_and_a_search() -> None:
    desk = desk_of(told(case_of(1, 2)))
    state = await run(majority.build(), desk)
    assert (calls(desk), len(desk.visit.queries)) == (7, 1)
    assert (len(state["kept"]), len(state["pages"])) == (2, 3)


async def test_with_k_three_the_same_two_pass_at_four_calls() -> None:
    desk = desk_of(told(case_of(1, 2)))
    await run(majority.build(k=3), desk)
    assert (calls(desk), desk.visit.queries) == (4, [])


async def test_with_k_one_a_single_yes_passes_at_two_calls() -> None:
    desk = desk_of(told(case_of(1, 2)))
    state = await run(majority.build(k=1), desk)
    assert (calls(desk), desk.visit.queries) == (2, [])
    assert "for 2 years" not in state["draft"]  # the thin pass: half of the evidence was never read


async def test_the_wrong_fix_sends_a_private_question_to_the_web_at_five_calls() -> None:
    desk = desk_of(told(case_of(kind="private", question=PRIVATE)))
    await run(majority.build(k=3), desk, PRIVATE)
    assert calls(desk) == 5
    (query,) = desk.visit.queries
    assert "Ada Thornbury" in query


async def test_without_the_majority_one_passage_is_enough() -> None:
    desk = desk_of(told(case_of(1)), MENDED)
    await run(majority.build(), desk)
    assert (calls(desk), desk.visit.queries) == (6, [])


@pytest.mark.parametrize(("quirks", "read"), [(PUBLISHED, 3), (MENDED, 0)])
async def test_what_the_web_brings_is_not_graded(quirks: Quirks, read: int) -> None:
    desk = desk_of(told(case_of()), quirks)
    state = await run(majority.build(), desk)
    assert len(state["pages"]) == read


async def test_whole_pages_flood_the_context() -> None:
    desk = desk_of(told(case_of(1)))
    await run(majority.build(), desk)
    assert desk.context_chars > 100 * len(passage(1).text)


async def test_nothing_checks_its_answer() -> None:
    desk = desk_of(told(case_of(1, 2, 3), faults=replace(NO_FAULTS, invents=1.0)))
    state = await run(majority.build(), desk)
    assert unsupported(state["draft"], desk.evidence)
    assert desk.usage.calls == {"grade": 5, "answer": 1}


# Design 4


async def test_a_best_score_over_07_uses_the_best_document_alone_as_it_is() -> None:
    desk = desk_of(told(case_of(1, 2)))
    state = await run(three_verdicts.build(), desk)
    assert (calls(desk), desk.visit.queries, desk.evidence) == (4, [], [passage(1).text])
    assert "for 2 years" not in state["draft"]


async def test_a_best_score_under_03_uses_refined_web_pages_alone() -> None:
    desk = desk_of(told(case_of()))
    await run(three_verdicts.build(), desk)
    assert (calls(desk), len(desk.visit.queries), desk.usage.calls["bullets"]) == (6, 1, 1)
    assert not any("Rule 1" in text for text in desk.evidence)


async def test_a_best_score_between_uses_both_each_refined() -> None:
    case = replace(case_of(1), expected=tuple(replace(e, text="not on the page") for e in case_of(1).expected))
    desk = desk_of(told(case))
    await run(three_verdicts.build(), desk)
    assert (calls(desk), len(desk.visit.queries), desk.usage.calls["bullets"]) == (7, 1, 2)
    assert passage(1).text in desk.evidence


async def test_evidence_that_a_model_rewrote_carries_its_error_into_the_answer() -> None:
    case = replace(case_of(1), expected=tuple(replace(e, text="not on the page") for e in case_of(1).expected))
    wrong = replace(NO_FAULTS, distorts=1.0, misreads=1.0)
    desk = desk_of(told(case, faults=wrong))
    state = await run(three_verdicts.build(), desk)
    bullets = [candidate.passage.text for candidate in state["kept"]]
    assert not unsupported(state["draft"], bullets)  # it says what the bullets say
    assert unsupported(state["draft"], desk.evidence)  # which the passage never said


async def test_with_verbatim_evidence_there_are_no_bullets_to_be_wrong() -> None:
    case = replace(case_of(1), expected=tuple(replace(e, text="not on the page") for e in case_of(1).expected))
    desk = desk_of(told(case, faults=replace(NO_FAULTS, distorts=1.0, misreads=1.0)), MENDED)
    state = await run(three_verdicts.build(), desk)
    assert desk.usage.calls["bullets"] == 0
    assert not unsupported(state["draft"], desk.evidence)


# Design 5


async def test_it_retries_twice_in_the_index_then_refuses_and_names_whom_to_ask() -> None:
    desk = desk_of(told(case_of()))
    state = await run(retry_inside.build(), desk)
    assert (state["status"], state["draft"]) == ("refused", retry_inside.REFUSAL)
    assert "ask the knowledge team" in state["draft"]
    assert (calls(desk), desk.usage.calls["rewrite"]) == (17, 2)


async def test_no_question_of_any_kind_leaves_for_the_web() -> None:
    desk = desk_of(told(case_of(kind="private", question=PRIVATE)))
    await run(retry_inside.build(), desk, PRIVATE)
    assert desk.visit.queries == []


@pytest.mark.parametrize(("quirks", "needed"), [(PUBLISHED, "refused"), (MENDED, None)])
async def test_a_rule_that_stands_in_one_passage_alone_is_refused_by_the_majority(
    quirks: Quirks, needed: str | None
) -> None:
    state = await run(retry_inside.build(), desk_of(told(case_of(1)), quirks))
    assert state.get("status") == needed


async def test_with_a_majority_it_answers_at_six_calls() -> None:
    desk = desk_of(told(case_of(1, 2, 3)))
    state = await run(retry_inside.build(), desk)
    assert (calls(desk), state["draft"] != DONT_KNOW) == (6, True)
