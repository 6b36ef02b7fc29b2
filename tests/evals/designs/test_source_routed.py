"""Design 1: its model calls on every path, and each of its published quirks."""

from dataclasses import replace
from pathlib import Path

import pytest

from evals.designs.desk import MENDED, PUBLISHED, Quirks
from evals.designs.lineup import LINEUP
from evals.designs.outcome import outcome_of
from evals.designs.scripted import Faults, Scripted
from evals.designs.source_routed import build
from evals.golden_set import Case
from evals.seed import Expected
from tests.evals.designs.benches import NO_FAULTS, bench_of, calls, case_of, desk_of, mending, run, told
from tests.fakes import passage


async def test_the_store_path_takes_nine_calls_and_no_search() -> None:
    desk = desk_of(told(case_of(1, 2, 3)))
    state = await run(build(), desk)
    assert (calls(desk), desk.visit.queries) == (9, [])
    assert "for 1 years" in state["draft"]


async def test_the_detour_takes_ten_calls_and_one_search() -> None:
    desk = desk_of(told(case_of(1)))
    await run(build(), desk)
    assert (calls(desk), len(desk.visit.queries)) == (10, 1)


async def test_the_detour_keeps_the_passages_that_passed_beside_the_pages() -> None:
    desk = desk_of(told(case_of(1)))
    state = await run(build(), desk)
    assert ([c.passage.address for c in state["kept"]], len(state["pages"])) == (["part/1.html"], 3)
    assert "for 1 years" in state["draft"]


async def test_the_web_path_takes_four_calls() -> None:
    desk = desk_of(told(case_of(1), way="web"))
    await run(build(), desk)
    assert (calls(desk), len(desk.visit.queries)) == (4, 1)


@pytest.mark.parametrize("wrong", [1, 2, 3])
async def test_each_regeneration_takes_two_calls_more_and_carries_the_feedback(wrong: int) -> None:
    desk = desk_of(mending(case_of(1, 2, 3), wrong))
    state = await run(build(), desk)
    assert calls(desk) == 9 + 2 * wrong
    assert state["drafts"] == 1 + wrong


@pytest.mark.parametrize(("relevant", "searches"), [((1, 2), 1), ((1, 2, 3), 0)])
async def test_exactly_half_counts_as_failure(relevant: tuple[int, ...], searches: int) -> None:
    desk = desk_of(told(case_of(*relevant)), passages=[passage(n) for n in range(1, 5)])
    await run(build(), desk)
    assert len(desk.visit.queries) == searches


async def test_the_published_loop_never_ends_and_the_fence_stops_and_counts_it(tmp_path: Path) -> None:
    model = told(case_of(1, 2, 3), faults=replace(NO_FAULTS, invents=1.0))
    entry = next(entry for entry in LINEUP if entry.key == "1")
    outcome = await outcome_of(entry, model.case, bench_of(tmp_path), model, model.clock)
    assert (outcome.status, outcome.right, outcome.path) == ("stopped", False, "store: stopped")
    assert outcome.calls == 28  # five steps to the first draft, then two for each pair of draft and check


async def test_with_a_counter_the_loop_ends_after_two_regenerations_in_the_best_answer_with_a_warning() -> None:
    desk = desk_of(told(case_of(1, 2, 3), faults=replace(NO_FAULTS, invents=1.0)), MENDED)
    state = await run(build(), desk)
    assert (state["status"], state["drafts"], calls(desk)) == ("partial", 3, 13)


async def test_a_misread_yes_ships_the_hallucination_at_once() -> None:
    desk = desk_of(told(case_of(1, 2, 3), faults=replace(NO_FAULTS, invents=1.0)), replace(PUBLISHED, misread=True))
    state = await run(build(), desk)
    assert ("7,777" in state["draft"], state["drafts"], state.get("status")) == (True, 1, None)


async def test_a_misread_no_sends_a_good_draft_round_for_ever(tmp_path: Path) -> None:
    model = told(case_of(1, 2, 3))
    entry = next(entry for entry in LINEUP if entry.key == "1i")
    outcome = await outcome_of(entry, model.case, bench_of(tmp_path), model, model.clock)
    assert outcome.status == "stopped"


def about_data() -> Case:
    expected = Expected("dat/breach.html", "DAT 5", "within 72 hours")
    return Case("t02", "When is a breach notified?", (), (expected,), "answered", ("72 hours",), (), ("plain",), "dev")


@pytest.mark.parametrize(("quirks", "way", "searches"), [(PUBLISHED, "web", 1), (MENDED, "store", 0)])
async def test_a_topic_that_the_stale_list_does_not_name_is_sent_to_the_web(
    quirks: Quirks, way: str, searches: int
) -> None:
    case = about_data()
    rule = replace(passage(1, "A breach is notified within 72 hours."), address="dat/breach.html")
    desk = desk_of(Scripted(case, "dat", faults=NO_FAULTS), quirks, [rule])
    state = await run(build(), desk, case.question)
    assert (state["way"], len(desk.visit.queries)) == (way, searches)
    assert ("72 hours" in state["draft"]) == (way == "store")


async def test_whole_pages_flood_the_context_and_strips_do_not() -> None:
    flooded, cut = (desk_of(told(case_of(1), way="web"), quirks) for quirks in (PUBLISHED, MENDED))
    await run(build(), flooded)
    await run(build(), cut)
    assert flooded.context_chars > 15_000 > 20 * 100 > cut.context_chars


async def test_an_error_of_the_router_is_an_unasked_search(tmp_path: Path) -> None:
    case = case_of(1, 2, 3)
    model = Scripted(case, "cm", faults=Faults(errors=1.0))
    entry = next(entry for entry in LINEUP if entry.key == "1b")
    # `part` is on no topic list, so the right way is the web; the router that errs takes the store.
    outcome = await outcome_of(entry, case, bench_of(tmp_path), model, model.clock)
    assert outcome.unasked == outcome.searches
