"""What a machine can check of the labels of the cases that need the web's toggle or a skill."""

from collections import Counter
from pathlib import Path

import pytest

from evals.golden_set import Case, load_cases, load_golden
from evals.seed import fold
from evals.trial.cases import SWITCHED, find_case, is_web, load_trial, spread
from evals.trial.web import load_pages
from service.sample import RULEBOOK
from service.skills.registry import Skills

switched = load_cases(SWITCHED)
each_case = pytest.mark.parametrize("case", switched, ids=lambda case: case.id)


def texts() -> dict[str, str]:
    """The text of every page of the made-up web, by address."""
    return {url: fold(data.decode()) for url, data in load_pages().items()}


def test_the_trial_is_the_golden_set_and_the_switched_cases_each_once() -> None:
    every = load_trial()
    assert len(every) == len(load_golden()) + len(switched)
    assert max(Counter(case.id for case in every).values()) == 1


def test_a_third_of_the_switched_cases_is_kept_for_reports() -> None:
    kept = sum(case.split == "report" for case in switched)
    assert len(switched) / 4 < kept < len(switched) / 2
    assert {case.split for case in load_trial("report")} == {"report"}


def test_a_limit_takes_cases_from_the_whole_set() -> None:
    every = load_trial()
    chosen = spread(every, 10)
    assert len(chosen) == 10
    assert len({case.kind for case in chosen}) > 4
    assert spread(every, 10_000) == every


def test_an_unknown_case_is_refused_with_the_ids_there_are() -> None:
    with pytest.raises(ValueError, match="no case 'zzz'"):
        find_case("zzz")


@each_case
def test_what_is_expected_of_the_web_stands_on_its_page(case: Case) -> None:
    for expected in case.expected:
        if is_web(expected):
            assert fold(expected.text) in texts()[expected.address]
            assert all(fold(fact) in texts()[expected.address] for fact in case.facts)


@each_case
def test_a_fact_of_the_web_alone_stands_nowhere_in_the_rulebook(case: Case) -> None:
    if case.kind == "web-only" and case.status == "answered":
        held = [fold(path.read_text(encoding="utf-8")) for path in RULEBOOK.rglob("*.html")]
        assert not any(fold(case.expected[0].text) in text for text in held)


@each_case
def test_a_case_without_the_web_expects_nothing_of_it(case: Case) -> None:
    if not case.web_search:
        assert not any(is_web(expected) for expected in case.expected)


@each_case
def test_facts_and_what_is_forbidden_do_not_overlap_and_are_not_given_away(case: Case) -> None:
    assert not [fact for fact in case.facts if fold(fact) in fold(case.question)]
    assert not set(case.facts) & set(case.forbidden)
    assert (case.status == "answered") == bool(case.expected) == bool(case.facts)
    assert case.why.endswith(".")


def test_every_skill_that_a_case_names_is_there() -> None:
    skills = Skills.load(Path("skills"))
    for case in switched:
        if case.skill:
            assert skills.get(case.skill).name == case.skill
