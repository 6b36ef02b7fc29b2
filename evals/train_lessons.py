"""Lessons: invented documents with questions that they answer and near misses that they do not (`lessons/*.jsonl`).

Every line is one document: sections that are easily confused, questions with the sections that answer them, and
questions that no section answers, each with what sets it apart. They were written for this training by a language
model that had seen neither the sample knowledge base nor any question about it.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evals.train_bm25 import Bm25

LESSONS = Path(__file__).parent / "lessons"
FAR = 8
"""Sections of other documents, by BM25, that a far negative is drawn from."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the sections of its document that answer it; for a near miss the ones it resembles."""

    question: str
    sections: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One document. Sections are (path, text); `far` holds for each answerable question texts of other documents."""

    sections: tuple[tuple[str, str], ...]
    answered: tuple[Asked, ...]
    unanswered: tuple[Asked, ...]
    far: tuple[tuple[tuple[str, str], ...], ...] = ()


Pairs = tuple[tuple[str, str], ...]
T = TypeVar("T")


def load_lessons(folder: Path = LESSONS) -> list[Lesson]:
    """Raises `ValueError` naming the file and line that is no lesson."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                rows.append(as_lesson(json.loads(line)))
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ValueError(f"{path.name}, line {number} is no lesson: {error!r}") from error
    return with_far_sections(rows)


def as_lesson(row: dict[str, Any]) -> Lesson:
    """The document's title opens every path, as a heading path does in the store."""
    sections = tuple((f"{row['title']} > {item['path']}", item["text"]) for item in row["sections"])
    answered = tuple(Asked(item["q"], tuple(item["answers"])) for item in row["questions"])
    unanswered = tuple(Asked(item["q"], tuple(item["near"])) for item in row["unanswered"])
    for item in (*answered, *unanswered):
        if not item.sections or not all(0 <= index < len(sections) for index in item.sections):
            raise ValueError(f"no such section: {item.question}")
    return Lesson(sections, answered, unanswered)


def with_far_sections(lessons: Sequence[Lesson]) -> list[Lesson]:
    places = [(number, section) for number, lesson in enumerate(lessons) for section in lesson.sections]
    bm25 = Bm25(["\n".join(section) for _, section in places])

    def far(number: int, question: str) -> tuple[tuple[str, str], ...]:
        found = [places[index] for index in bm25.top(question, 4 * FAR)]
        return tuple(section for of, section in found if of != number)[:FAR]

    return [
        Lesson(
            lesson.sections,
            lesson.answered,
            lesson.unanswered,
            tuple(far(number, asked.question) for asked in lesson.answered),
        )
        for number, lesson in enumerate(lessons)
    ]


class LessonPairs:
    """Draws pairs of (question, text) from lessons, the first of each draw right and the others wrong."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self._questions = [(lesson, place) for lesson in lessons for place in range(len(lesson.answered))]
        self._twins = [
            (lesson, asked, section)
            for lesson in lessons
            for asked in lesson.answered
            for section in asked.sections
            if near(lesson, section)
        ]

    def passages(self, turn: int, chance: random.Random) -> Pairs:
        """A question with a right section, three sections beside it and one of another document."""
        lesson, place = drawn(self._questions, turn)
        asked = lesson.answered[place]
        beside = [i for i in range(len(lesson.sections)) if i not in asked.sections]
        chosen = [chance.choice(asked.sections), *chance.sample(beside, min(3, len(beside)))]
        sections = [lesson.sections[i] for i in chosen] + (
            [chance.choice(lesson.far[place])] if lesson.far[place] else []
        )
        with_path = chance.random() < 0.7
        return tuple((asked.question, "\n".join(section) if with_path else section[1]) for section in sections)

    def twins(self, turn: int, chance: random.Random) -> Pairs:
        """A question with a section that answers it; near misses with that section, and with one that they resemble."""
        lesson, asked, section = drawn(self._twins, turn)
        close = near(lesson, section)
        misses = chance.sample(close, min(3, len(close)))
        text = "\n".join(lesson.sections[section])
        other = chance.choice(lesson.unanswered)
        elsewhere = "\n".join(lesson.sections[chance.choice(other.sections)])
        return ((asked.question, text), *((miss.question, text) for miss in misses), (other.question, elsewhere))


def near(lesson: Lesson, section: int) -> list[Asked]:
    return [asked for asked in lesson.unanswered if section in asked.sections]


def drawn(items: Sequence[T], turn: int) -> T:
    """The item of this turn: every item once in each round, each round in an order of its own."""
    order = list(range(len(items)))
    random.Random(f"lessons.{turn // len(items)}").shuffle(order)
    return items[order[turn % len(items)]]
