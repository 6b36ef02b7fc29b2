"""ObliQA (Gokhan et al. 2024, arXiv:2409.05677), read from a folder that the user names: passages, questions, splits.

The folder holds `documents/*.json` and `ObliQA_<split>.json`. None of its text is part of this project.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

SPLIT_SEED = 20310701
HEADING_WORDS = 14
PassageKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One passage. `context` is the path of headings that the document's own numbering gives, then the number."""

    key: PassageKey
    context: str
    text: str

    @property
    def indexed_text(self) -> str:
        return f"{self.context}\n{self.text}" if self.context else self.text


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the keys of all passages that answer it."""

    id: str
    question: str
    answers: frozenset[PassageKey]


class PassageRow(BaseModel):
    """A row of a document, as the data set names its fields."""

    DocumentID: int
    PassageID: str
    Passage: str


class AnswerRow(BaseModel):
    DocumentID: int
    PassageID: str


class QuestionRow(BaseModel):
    QuestionID: str
    Question: str
    Passages: Annotated[list[AnswerRow], Field(min_length=1)]


PASSAGES: TypeAdapter[list[PassageRow]] = TypeAdapter(Annotated[list[PassageRow], Field(min_length=1)])
QUESTIONS: TypeAdapter[list[QuestionRow]] = TypeAdapter(Annotated[list[QuestionRow], Field(min_length=1)])
HOLDS = (
    "DIR must hold documents/<number>.json, each a list of {DocumentID, PassageID, Passage}, and ObliQA_<split>.json, "
    "a list of {QuestionID, Question, Passages}."
)
Rows = TypeVar("Rows")


def read(folder: Path, split: str, *, whole: bool = True) -> tuple[list[Rule], list[Asked]]:
    """Return the passages and the questions of a split, in the order of the files.

    `whole`: every answer must be among the passages; otherwise one of them is enough. Raises `ValueError`, which names
    the file and says what to do.
    """
    asked = load_asked(folder, split)
    rules = load_rules(folder)
    lost = strangers(rules, asked)
    if lost and (whole or len(lost) == len({key for question in asked for key in question.answers})):
        number, passage = lost[0]
        raise ValueError(
            f"{file_of(folder, split)}: {len(lost)} of the answers are in no file of documents/, such as passage "
            f"{passage!r} of document {number}. Put the documents there that belong to these questions."
        )
    return rules, asked


def strangers(rules: Iterable[Rule], asked: Iterable[Asked]) -> list[PassageKey]:
    """Answers that are none of the passages, or one without text."""
    known = {rule.key for rule in rules}
    return sorted({key for question in asked for key in question.answers} - known)


def rows_in(path: Path, rows: "TypeAdapter[Rows]") -> Rows:
    """Return what a file holds. Raises `ValueError`."""
    try:
        return rows.validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. {HOLDS}") from error
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise ValueError(f"{path}: {place.lstrip('.')}: {first['msg']}. {HOLDS}".replace(": : ", ": ")) from error


def documents_in(folder: Path) -> list[Path]:
    """Return the documents in the order of their numbers. Raises `ValueError`."""
    paths = list((folder / "documents").glob("*.json"))
    if not paths:
        raise ValueError(f"{folder / 'documents'} holds no *.json, so nothing could be found. {HOLDS}")
    for path in paths:
        if not path.stem.isdecimal():
            raise ValueError(f"{path} is named after no document's number: take it out of there. {HOLDS}")
    return sorted(paths, key=lambda path: int(path.stem))


def file_of(folder: Path, split: str) -> Path:
    return folder / f"ObliQA_{split}.json"


def load_rules(folder: Path) -> list[Rule]:
    """Return the passages with text, in reading order. A number that stands twice keeps both texts, once each.

    Raises `ValueError`.
    """
    rules: dict[PassageKey, Rule] = {}
    for path in documents_in(folder):
        rows = rows_in(path, PASSAGES)
        headings = headings_of(rows)
        for row in rows:
            text = row.Passage.strip()
            key = (row.DocumentID, row.PassageID)
            if key in rules and text not in rules[key].text:
                text = f"{rules[key].text}\n{text}"
            if text:
                rules[key] = Rule(key, context_of(row.PassageID, headings), text)
    if not rules:
        raise ValueError(f"No passage in {folder / 'documents'} has any text. {HOLDS}")
    return list(rules.values())


def headings_of(rows: Iterable[PassageRow]) -> dict[str, str]:
    """Return the heading of each number: a short passage, or the short first line of one."""
    found: dict[str, str] = {}
    for row in rows:
        first = row.Passage.strip().split("\n")[0].strip()
        if first and len(first.split()) <= HEADING_WORDS and not first.endswith((":", ";", ",")):
            found.setdefault(row.PassageID.rstrip(".)"), first.rstrip("."))
    return found


def context_of(number: str, headings: dict[str, str]) -> str:
    above = [headings[parent] for parent in parents(number) if parent in headings]
    return " > ".join([*dict.fromkeys(above), number])


def parents(number: str) -> Iterator[str]:
    """Yield "18", "18.8" for "18.8.2", outermost first."""
    for match in re.finditer(r"[.(]", number.rstrip(".)")):
        if match.start():
            yield number[: match.start()].rstrip(".")


def load_asked(folder: Path, split: str) -> list[Asked]:
    """Return the questions of a split. Raises `ValueError`."""
    path = file_of(folder, split)
    if not path.is_file():
        found = sorted(other.stem.removeprefix("ObliQA_") for other in folder.glob("ObliQA_*.json"))
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}. {HOLDS}")
        splits = f"It holds these splits: {', '.join(found)}. " if found else ""
        raise ValueError(f"There is no {path.name} in {folder}. {splits}{HOLDS}")
    return [
        Asked(
            row.QuestionID,
            row.Question,
            frozenset((passage.DocumentID, passage.PassageID) for passage in row.Passages),
        )
        for row in rows_in(path, QUESTIONS)
    ]


def two_thirds(questions: Sequence[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Return (for training, kept): questions that share a passage fall on the same side."""
    groups = grouped(questions)
    random.Random(SPLIT_SEED).shuffle(groups)
    taken: list[Asked] = []
    kept: list[Asked] = []
    for group in groups:
        (taken if len(taken) + len(group) <= 2 * len(questions) / 3 else kept).extend(group)
    return taken, kept


def grouped(questions: Sequence[Asked]) -> list[list[Asked]]:
    """Return the questions in connected components over shared passages, in the order of their first question."""
    leader: dict[PassageKey, PassageKey] = {}

    def find(key: PassageKey) -> PassageKey:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]
        return key

    for question in questions:
        first, *others = sorted(question.answers)
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[PassageKey, list[Asked]] = {}
    for question in questions:
        groups.setdefault(find(min(question.answers)), []).append(question)
    return list(groups.values())
