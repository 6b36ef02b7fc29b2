"""ObliQA (Gokhan et al. 2024, arXiv:2409.05677), read from a folder that the user names: passages, questions, splits.

The folder holds `documents/*.json` and `ObliQA_<split>.json`. None of its text is part of this project.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def load_rules(folder: Path) -> list[Rule]:
    """Return the passages with text, in reading order. A number that stands twice keeps both texts, once each."""
    rules: dict[PassageKey, Rule] = {}
    for path in sorted((folder / "documents").glob("*.json"), key=lambda p: int(p.stem)):
        rows = json.loads(path.read_text(encoding="utf-8"))
        headings = headings_of(rows)
        for row in rows:
            text = row["Passage"].strip()
            key = (int(row["DocumentID"]), row["PassageID"])
            if key in rules and text not in rules[key].text:
                text = f"{rules[key].text}\n{text}"
            if text:
                rules[key] = Rule(key, context_of(row["PassageID"], headings), text)
    return list(rules.values())


def headings_of(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the heading of each number: a short passage, or the short first line of one."""
    found: dict[str, str] = {}
    for row in rows:
        first = row["Passage"].strip().split("\n")[0].strip()
        if first and len(first.split()) <= HEADING_WORDS and not first.endswith((":", ";", ",")):
            found.setdefault(row["PassageID"].rstrip(".)"), first.rstrip("."))
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
    rows = json.loads((folder / f"ObliQA_{split}.json").read_text(encoding="utf-8"))
    return [
        Asked(
            row["QuestionID"],
            row["Question"],
            frozenset((int(passage["DocumentID"]), passage["PassageID"]) for passage in row["Passages"]),
        )
        for row in rows
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
