"""One design on one case: Gatehouse through its own runs, what counts as right, and what counts as unasked."""

from dataclasses import replace
from pathlib import Path

import pytest

from evals.designs.lineup import LINEUP, Entry
from evals.designs.outcome import Outcome, outcome_of, path_of
from evals.designs.scripted import Scripted
from evals.designs.truth import states_the_answer
from evals.designs.web import WebPage
from evals.golden_set import Case
from evals.seed import Expected, Result
from service.errors import ModelUnavailable
from service.model import Grade
from tests.evals.designs.benches import NO_FAULTS, PAGES, bench_of, case_of, told
from tests.evals.trial.made import observed, record

DRAFT, VERIFIED = (entry for entry in LINEUP if entry.build is None)
PAGE = "https://www.papers.example/strike"


async def ask(entry: Entry, model: Scripted, folder: Path, pages: list[WebPage] | None = None) -> Outcome:
    return await outcome_of(entry, model.case, bench_of(folder, pages), model, model.clock)


def web_case(web_search: bool) -> Case:
    expected = Expected(PAGE, "", "The strike ends on 14 October")
    return Case(
        "t03",
        "When does the strike end?",
        (),
        (expected,),
        "answered",
        ("14 October",),
        (),
        ("web-only",),
        "dev",
        web_search,
    )


@pytest.mark.parametrize("entry", [DRAFT, VERIFIED])
async def test_gatehouse_answers_from_the_store_and_searches_nothing(entry: Entry, tmp_path: Path) -> None:
    outcome = await ask(entry, told(case_of(1, 2)), tmp_path)
    assert (outcome.status, outcome.right, outcome.searches, outcome.unsupported) == ("answered", True, 0, False)
    assert outcome.calls == 6 + 3  # six grades, one draft, two judgements
    assert outcome.seconds > 0


async def test_gatehouse_refuses_a_private_question_without_a_search(tmp_path: Path) -> None:
    outcome = await ask(DRAFT, told(case_of(kind="private")), tmp_path)
    assert (outcome.status, outcome.right, outcome.searches) == ("refused", True, 0)


@pytest.mark.parametrize(("toggle", "status", "unasked"), [(True, "answered", 0), (False, "refused", 0)])
async def test_gatehouse_reads_the_web_only_where_the_person_asked(
    toggle: bool, status: str, unasked: int, tmp_path: Path
) -> None:
    model = Scripted(web_case(toggle), "cm", faults=NO_FAULTS)
    pages = [*PAGES, WebPage(PAGE, "Strike", "The strike ends on 14 October. Ferries sail again.")]
    outcome = await ask(DRAFT, model, tmp_path, pages)
    assert (outcome.status, outcome.searches > 0, outcome.unasked) == (status, toggle, unasked)


async def test_a_draft_that_is_never_grounded_is_shown_with_a_warning_or_refused_when_verified(tmp_path: Path) -> None:
    wrong = replace(NO_FAULTS, invents=1.0)
    warned = await ask(DRAFT, told(case_of(1), faults=wrong), tmp_path / "draft")
    refused = await ask(VERIFIED, told(case_of(1), faults=wrong), tmp_path / "verified")
    assert (warned.status, warned.wrong, refused.status) == ("partial", False, "refused")


@pytest.mark.parametrize("key", ["3", "7d"])
async def test_a_model_that_is_away_is_a_failed_case_and_no_end_of_the_comparison(key: str, tmp_path: Path) -> None:
    class Away(Scripted):
        async def grade(self, *_: object, **__: object) -> list[Grade]:
            raise ModelUnavailable("away")

    entry = next(entry for entry in LINEUP if entry.key == key)
    outcome = await ask(entry, Away(case_of(1), "cm"), tmp_path)
    assert (outcome.status, outcome.right, outcome.unsupported) == ("failed", False, False)


async def test_a_follow_up_stands_on_its_thread(tmp_path: Path) -> None:
    case = replace(case_of(1), question="And record 1?", history=(("How long are recordings kept?", "Two years."),))
    model = told(case)
    await ask(DRAFT, model, tmp_path)
    assert model.asked[0].name == "condense"


async def test_the_searches_of_a_design_that_routes_by_itself_are_unasked(tmp_path: Path) -> None:
    entry = next(entry for entry in LINEUP if entry.key == "3")
    outcome = await ask(entry, told(case_of(1)), tmp_path)
    assert (outcome.searches, outcome.unasked, outcome.path) == (1, 1, "store, then web")
    asked_for = await ask(entry, told(case_of(1, web_search=True)), tmp_path / "asked")
    assert (asked_for.searches, asked_for.unasked) == (1, 0)


@pytest.mark.parametrize(
    ("status", "answer", "numbers", "right"),
    [
        ("answered", "for 1 years", (1,), True),
        ("answered", "for 9 years", (1,), False),
        ("partial", "for 1 years", (1,), False),
        ("answered", "for 1 years, or for 3 years", (1,), False),
        ("refused", "no", (1,), False),
        ("refused", "no", (), True),
        ("partial", "for 1 years", (), False),
        ("answered", "for 1 years", (), False),
        ("stopped", "", (), False),
    ],
)
def test_right_is_an_answer_with_its_facts_or_a_refusal_where_nothing_answers_in_every_evaluation(
    status: str, answer: str, numbers: tuple[int, ...], right: bool
) -> None:
    asked = replace(case_of(*numbers), forbidden=("for 3 years",))
    assert asked.is_right(status, states_the_answer(answer, asked)) is right
    assert Result(asked, status, answer, 1, 1, True, (), 0.0).right is right
    assert observed(asked, record(outcome=status, answer=answer)).right is right


@pytest.mark.parametrize(
    ("way", "searches", "status", "path"),
    [
        ("", 0, "answered", "store"),
        ("gibberish", 1, "answered", "store, then web"),
        ("web", 1, "refused", "web"),
        ("direct", 0, "answered", "direct"),
        ("store", 0, "stopped", "store: stopped"),
    ],
)
def test_a_path_is_named_by_where_the_run_went(way: str, searches: int, status: str, path: str) -> None:
    assert path_of(way, searches, status) == path
