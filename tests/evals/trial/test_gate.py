import json
from dataclasses import asdict
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from evals.trial.compare import compare
from evals.trial.gate import ALONG_THE_GRAPH, Limits, failures, load_limits, load_trial_report, verdict
from evals.trial.measure import Measure
from evals.trial.measures import all_measures
from service.graph.build import build_graph
from service.llm.quote import DEFAULT_THRESHOLDS
from tests.evals.trial.made import row, trial

DROPS = Limits(drops={"answerable: right": 0.02})


def rows(right: int, of: int) -> list:  # type: ignore[type-arg]
    return [row(f"a{n}", right=n < right) for n in range(of)]


def test_the_baseline_was_measured_with_the_thresholds_that_ship() -> None:
    path = load_limits("quote").baseline
    assert path is not None
    measured = json.loads(path.read_text("utf-8"))["about"]["installation"]["settings"]["quote"]
    assert measured == asdict(DEFAULT_THRESHOLDS), "measure again: python -m evals run --model quote --remember"


def test_a_trial_that_is_its_own_baseline_passes_every_limit() -> None:
    made = trial(rows(40, 60))
    assert failures(made, DROPS, made) == []
    assert verdict([], None).startswith("The gate is open")


def test_a_real_drop_fails_and_names_the_node_the_numbers_and_the_cases() -> None:
    before, after = trial(rows(50, 60)), trial(rows(30, 60))
    found = failures(after, DROPS, before)
    text = verdict(found, compare(before, after))
    assert "FAIL answerable: right: 0.833 in the baseline, 0.500 now" in text
    assert "Look at reflect. Cases: a30, a31," in text
    assert "Where it begins: reflect." in text
    assert "Cases lost since the baseline: 20" in text
    assert "Lost at, by node: generate 10 -> 30" in text


def test_a_drop_within_chance_passes() -> None:
    assert failures(trial(rows(48, 60)), DROPS, trial(rows(49, 60))) == []


def test_a_real_drop_that_is_smaller_than_what_is_let_pass_passes() -> None:
    allowing = Limits(drops={"answerable: right": 0.5})
    assert failures(trial(rows(30, 60)), allowing, trial(rows(50, 60))) == []


def test_a_rise_never_fails() -> None:
    assert failures(trial(rows(60, 60)), DROPS, trial(rows(20, 60))) == []


def test_what_must_never_happen_fails_at_a_single_case() -> None:
    made = trial([*rows(9, 9), row("w1", parts={"web egress when off": (1.0, 1.0)})])
    (found,) = failures(made, Limits(never=["web egress when off"]), None)
    assert str(found) == (
        "web egress when off: must never happen, and did in 1 case(s). Look at search_web. Cases: w1."
    )


def test_a_floor_fails_where_the_whole_interval_lies_below_it() -> None:
    floor = Limits(floors={"answerable: right": 0.6})
    assert failures(trial(rows(28, 50)), floor, None) == []
    (found,) = failures(trial(rows(5, 50)), floor, None)
    assert "0.100 (at most 0.180) is below 0.6" in str(found)


def test_a_ceiling_fails_where_the_whole_interval_lies_above_it() -> None:
    made = trial([row(f"a{n}", parts={"unanswerable: answered": (1.0, 1.0)}) for n in range(9)])
    (found,) = failures(made, Limits(ceilings={"unanswerable: answered": 0.05}), None)
    assert "1.000 (at least 1.000) is above 0.05" in str(found)


def test_the_failure_that_comes_first_along_the_graph_is_said_to_be_the_beginning() -> None:
    parts = {"passages outside the scope": (1.0, 1.0), "forbidden facts stated": (1.0, 1.0)}
    made = trial([row("a1", parts=parts)])
    found = failures(made, Limits(never=["forbidden facts stated", "passages outside the scope"]), None)
    assert [failure.measure.node for failure in found] == ["retrieve_vector", "generate"]
    assert "Where it begins: retrieve_vector." in verdict(found, None)


@pytest.mark.parametrize(
    "limits",
    [
        Limits(never=["web egress when off"]),
        Limits(floors={"web egress when off": 0.5}),
        Limits(ceilings={"web egress when off": 0.5}),
        Limits(drops={"web egress when off": 0.5}),
    ],
)
def test_a_limit_on_what_no_case_measured_fails(limits: Limits) -> None:
    made = trial(rows(9, 9))
    [found] = failures(made, limits, made)
    assert str(found).startswith("web egress when off: was not measured in ")
    assert verdict([found], None).startswith("FAIL web egress when off")


def test_a_drop_that_only_cases_of_the_baseline_measured_fails() -> None:
    before = trial([row("a0"), row("w1", parts={"web egress when off": (0.0, 1.0)})])
    [found] = failures(trial([row("a0")]), Limits(drops={"web egress when off": 0.5}), before)
    assert "was not measured in the cases that this report shares with the baseline" in str(found)


def test_a_drop_without_a_baseline_fails() -> None:
    [found] = failures(trial(rows(9, 9)), DROPS, None)
    assert "answerable: right: has no baseline to be held against" in str(found)


def test_every_node_of_the_graph_has_its_place_and_one_that_is_new_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(build_graph(InMemorySaver()).get_graph().nodes) - {"__start__", "__end__"} <= set(ALONG_THE_GRAPH)
    new = Measure("new", "Answers", "translate", "lower", lambda _: None)
    known = [measure for measure in all_measures() if measure.name == "web egress when off"]
    monkeypatch.setattr("evals.trial.gate.all_measures", lambda: [new, *known])
    made = trial([row("a0", parts={"new": (1.0, 1.0), "web egress when off": (1.0, 1.0)})])
    found = failures(made, Limits(never=["new", "web egress when off"]), None)
    assert [failure.measure.name for failure in found] == ["web egress when off", "new"]


def test_the_baseline_that_ships_passes_the_gate_that_ships() -> None:
    limits = load_limits("quote")
    assert limits.baseline is not None
    shipped = load_trial_report(limits.baseline)
    assert failures(shipped, limits, shipped) == []


@pytest.mark.parametrize("model", ["quote", "claude"])
def test_the_limits_that_ship_can_be_read(model: str) -> None:
    found = load_limits(model)
    assert "web egress when off" in found.never
    assert "passages outside the scope" in found.never


def test_the_baseline_that_the_limits_name_is_there() -> None:
    baseline = load_limits("quote").baseline
    assert baseline is not None
    assert baseline.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[quote]\nnever = ['web egres']", "no such measure or key: web egres"),
        ("[quote]\nfloor = {}", "no such measure or key: floor"),
        ("[other]\n", r"no limits for the model 'quote'. Add a table \[quote\]"),
        ("[quote", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_the_file_of_limits_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        load_limits("quote", path)
