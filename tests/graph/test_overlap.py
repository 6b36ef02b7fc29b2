"""Grading is concurrent and both reflections overlap: shown by when the calls ran, not by a limit on time."""

from itertools import combinations
from pathlib import Path

import pytest

from service.graph.state import Limits
from tests.fakes import Call, ScriptedModel, services
from tests.running import House


def overlap(first: Call, second: Call) -> bool:
    return first.began < second.ended and second.began < first.ended


def most_at_once(calls: list[Call]) -> int:
    return max(sum(other.began <= call.began < other.ended for other in calls) for call in calls)


async def test_gate_1_grades_concurrently_within_its_bound(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=0.4)
    limits = Limits(top_n=6, grade_concurrency=4)
    await House(services(tmp_path, limits=limits), model).ask()
    grades = [call for call in model.calls if call.name == "grade"]
    assert len(grades) == 6
    assert most_at_once(grades) == 4
    assert all(overlap(a, b) for a, b in combinations(grades[:4], 2))


async def test_both_reflections_overlap(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=0.4)
    await House(services(tmp_path), model).ask()
    grounded, answers = (next(c for c in model.calls if c.name == name) for name in ("judge_grounded", "judge_answers"))
    assert overlap(grounded, answers)


@pytest.mark.parametrize(("mode", "calls"), [("each", 6), ("batch", 1)])
async def test_the_grade_mode_sets_the_number_of_calls(tmp_path: Path, mode: str, calls: int) -> None:
    model = ScriptedModel()
    limits = Limits(grade_mode="batch" if mode == "batch" else "each")
    await House(services(tmp_path, limits=limits), model).ask()
    assert model.count("grade") == calls
