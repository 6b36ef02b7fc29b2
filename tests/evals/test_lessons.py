import json
import random
from pathlib import Path

import pytest

from evals.train_lessons import LESSONS, Lesson, LessonPairs, load_lessons

ROW = {
    "title": "Handbook",
    "sections": [
        {"path": "Fees > 1", "text": "A firm must pay the yearly fee by the end of March."},
        {"path": "Fees > 2", "text": "A branch must pay the yearly fee by the end of June."},
    ],
    "questions": [{"q": "When does a firm pay?", "answers": [0]}, {"q": "When does a branch pay?", "answers": [1]}],
    "unanswered": [{"q": "When does an agent pay?", "near": [0, 1], "changed": "actor"}],
}


@pytest.fixture(scope="module")
def lessons() -> list[Lesson]:
    return load_lessons()


def written(folder: Path, *rows: object) -> Path:
    (folder / "some.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return folder


def test_every_shipped_lesson_is_whole_and_no_question_stands_twice(lessons: list[Lesson]) -> None:
    questions = [asked.question for lesson in lessons for asked in (*lesson.answered, *lesson.unanswered)]
    assert len(lessons) > 100
    assert len(questions) == len(set(questions))


def test_no_lesson_repeats_a_question_that_the_reranker_is_measured_with(lessons: list[Lesson]) -> None:
    golden = LESSONS.parent / "golden"
    measured = set()
    for path in golden.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            measured |= {row.get("question", "").lower(), row.get("twin", "").lower()} - {""}
    asked = {item.question.lower() for lesson in lessons for item in (*lesson.answered, *lesson.unanswered)}
    assert measured
    assert not measured & asked


def test_a_draw_begins_with_a_section_that_answers_and_holds_none_among_the_others(tmp_path: Path) -> None:
    loaded = load_lessons(written(tmp_path, ROW, {**ROW, "title": "Other"}))
    for turn in range(20):
        question, *texts = (
            LessonPairs(loaded).passages(turn, random.Random(turn))[0][0],
            *(text for _, text in LessonPairs(loaded).passages(turn, random.Random(turn))),
        )
        who = "firm" if "firm" in question else "branch"
        assert f"A {who} must" in texts[0]
        assert f"A {who} must" not in texts[1]


def test_a_twin_is_held_against_the_section_that_it_resembles(tmp_path: Path) -> None:
    pairs = LessonPairs(load_lessons(written(tmp_path, ROW)))
    (right, text), *others = pairs.twins(0, random.Random(0))
    assert right in ("When does a firm pay?", "When does a branch pay?")
    assert ("When does an agent pay?", text) in others


def test_draws_are_the_same_for_the_same_turn_and_every_question_comes_in_each_round(tmp_path: Path) -> None:
    pairs = LessonPairs(load_lessons(written(tmp_path, ROW)))
    assert pairs.passages(3, random.Random(1)) == pairs.passages(3, random.Random(1))
    assert {pairs.passages(turn, random.Random(1))[0][0] for turn in (4, 5)} == {
        "When does a firm pay?",
        "When does a branch pay?",
    }


@pytest.mark.parametrize("wrong", [{**ROW, "questions": [{"q": "?", "answers": [2]}]}, {"title": "x"}, [], "text"])
def test_a_line_that_is_no_lesson_is_named(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(ValueError, match=r"some\.jsonl, line 2"):
        load_lessons(written(tmp_path, ROW, wrong))
