import json
from dataclasses import replace

import pytest

from evals.trial.commands import as_text
from evals.trial.trial import Trial, time_json
from tests.evals.trial.made import case, observed, one_pass, record, row, trial


def test_a_report_read_again_is_the_trial_that_was_written() -> None:
    rows = [row("a1", parts={"citation precision": (2.0, 3.0)}), row("a2", right=False)]
    made = trial(rows)
    assert Trial.of_json(json.loads(as_text(made))) == made


def test_two_trials_that_differ_in_time_alone_have_the_same_numbers() -> None:
    made = trial([row("a1"), row("a2", right=False)])
    later = replace(made, rows=[replace(r, ms={"total": 99.0}) for r in made.rows], seconds=1.0, when="later")
    assert made.as_json()["numbers"] == later.as_json()["numbers"]
    assert made.as_json()["times"] != later.as_json()["times"]


def test_each_measure_is_stored_with_its_interval_and_its_cases() -> None:
    told = trial([row("a1"), row("a2", right=False)]).as_json()["numbers"]["measures"]["right"]
    assert told == {"value": 0.5, "low": 0.0, "high": 1.0, "cases": 2}


def test_times_are_given_by_node_with_median_and_tail() -> None:
    found = time_json([float(value) for value in range(1, 101)])
    assert (found["runs"], found["mean"], found["p50"], found["p95"]) == (100, 50.5, 51, 96)
    assert found["low"] < 50.5 < found["high"]


@pytest.mark.parametrize(
    ("told", "stage"),
    [
        (record(one_pass([2])), 0),
        (record(one_pass([1])), 1),
        (record(one_pass([1], grades={1: "fail"})), 2),
        (record(one_pass([1], grades={1: "pass"})), 3),
        (record(one_pass([1], grades={1: "pass"}), outcome="partial", answer="1 years"), 4),
        (record(one_pass([1], grades={1: "pass"}), answer="1 years"), 5),
    ],
)
def test_the_funnel_counts_the_stages_that_a_case_came_through(told: object, stage: int) -> None:
    from evals.trial.trial import funnel_of

    assert funnel_of(observed(case(1), told)) == stage  # type: ignore[arg-type]
