"""The sample questions, and what a run of one is worth: what is found, what is answered, what is refused.

`house.py` asks them of the product's own store, graph and Quote. Thresholds are chosen on the development half and
reported on the other.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.model import Candidate, Passage, Turn

HERE = Path(__file__).parent
QUESTIONS = HERE / "golden" / "seed.jsonl"


@dataclass(frozen=True, slots=True)
class Expected:
    """A passage that answers: the page's address, the section it prints, and words that stand in it verbatim."""

    address: str
    section: str
    text: str

    def is_in(self, passage: Passage) -> bool:
        return passage.address == self.address and fold(self.text) in fold(passage.text)


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    question: str
    history: tuple[tuple[str, str], ...]
    expected: tuple[Expected, ...]
    status: str
    facts: tuple[str, ...]
    forbidden: tuple[str, ...]
    tags: tuple[str, ...]
    split: str

    def is_right(self, status: str, states_all: bool) -> bool:
        """Refused where nothing answers; else answered, with every fact and nothing forbidden (`states_all`).

        A draft under a warning (`partial`) is neither: it is not what was asked for, and it does not say that the
        knowledge base lacks it.
        """
        if self.status == "refused":
            return status == "refused"
        return status == "answered" and states_all


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of one question did. Ranks count from 1; 0 means not there."""

    question: Question
    status: str
    answer: str
    rank_found: int
    rank_kept: int
    cites_expected: bool
    statuses: tuple[str, ...]
    seconds: float

    @property
    def states_facts(self) -> bool:
        return all(states(self.answer, fact) for fact in self.question.facts)

    @property
    def states_forbidden(self) -> bool:
        """Whether it states a fact of the near-miss passage."""
        return any(states(self.answer, wrong) for wrong in self.question.forbidden)

    @property
    def right(self) -> bool:
        return self.question.is_right(self.status, self.states_facts and not self.states_forbidden)


def fold(text: str) -> str:
    """Lower case, white space folded: facts are written with plain spaces, pages with no-break ones."""
    return " ".join(text.split()).casefold()


def states(text: str, fact: str) -> bool:
    """Whether a text says a fact, not as a part of another: "110%" does not say "10%", nor "MC 90,000" the figure 90.

    A word may go on ("dividends" says "dividend").
    """
    wanted = fold(fact)
    before = r"(?<!\w)" if wanted[0].isalnum() else ""
    before += r"(?<!\d[.,])" if wanted[0].isdigit() else ""
    after = r"(?![.,]?\d)" if wanted[-1].isdigit() else ""
    return re.search(before + re.escape(wanted) + after, fold(text)) is not None


def load_questions(path: Path = QUESTIONS) -> list[Question]:
    return [as_question(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def as_question(row: dict[str, Any]) -> Question:
    return Question(
        id=row["id"],
        question=row["question"],
        history=tuple((turn["question"], turn["answer"]) for turn in row["history"]),
        expected=tuple(Expected(e["address"], e["section"], e["text"]) for e in row["expected"]),
        status=row["status"],
        facts=tuple(row["facts"]),
        forbidden=tuple(row["forbidden"]),
        tags=tuple(row["tags"]),
        split=row["split"],
    )


def turns_of(question: Question) -> list[Turn]:
    """The question's history as stored turns, each standing alone."""
    return [
        {
            "run_id": f"r_{question.id}",
            "asked_at": "2031-08-01T00:00:00+00:00",
            "question": asked,
            "standalone": asked,
            "web_search": False,
            "web": {"query": "", "status": "off", "sent": []},
            "model": "history",
            "reranker": "history",
            "answer": answered,
            "status": "answered",
            "warning": "",
            "citations": [],
            "consulted": [],
            "verdicts": [],
            "rewrites": 0,
            "regens": 0,
            "usage": {},
            "timings": {},
        }
        for asked, answered in question.history
    ]


def rank_of(expected: Sequence[Expected], found: Iterable[Candidate]) -> int:
    for rank, candidate in enumerate(found, start=1):
        if any(item.is_in(candidate.passage) for item in expected):
            return rank
    return 0


def share(results: Sequence[bool]) -> str:
    if not results:
        return "-"
    return f"{sum(results)}/{len(results)} ({100 * sum(results) / len(results):.0f} %)"


Pick = Callable[[Sequence[Result]], list[bool]]


def report(results: Sequence[Result], retrieve_k: int, top_n: int) -> str:
    """A Markdown table, one column per half."""
    halves = {split: [r for r in results if r.question.split == split] for split in ("dev", "report")}
    rows: list[tuple[str, Pick]] = [
        (f"expected passage among the {retrieve_k} candidates", lambda rs: [r.rank_found > 0 for r in answerable(rs)]),
        (f"expected passage among the {top_n} graded", lambda rs: [r.rank_kept > 0 for r in answerable(rs)]),
        ("answerable: answered", lambda rs: [r.status == "answered" for r in answerable(rs)]),
        ("answerable: answered, facts stated, none forbidden", lambda rs: [r.right for r in answerable(rs)]),
        ("answerable: closest passages shown as partial", lambda rs: [r.status == "partial" for r in answerable(rs)]),
        ("answerable: facts quoted, answered or partial", lambda rs: [r.states_facts for r in answerable(rs)]),
        ("answerable: refused", lambda rs: [r.status == "refused" for r in answerable(rs)]),
        ("answerable: the expected passage is cited", lambda rs: [r.cites_expected for r in answerable(rs)]),
        ("unanswerable: answered", lambda rs: [r.status == "answered" for r in unanswerable(rs)]),
        (
            "unanswerable: shown as partial",
            lambda rs: [r.status == "partial" for r in unanswerable(rs)],
        ),
        ("unanswerable: refused", lambda rs: [r.status == "refused" for r in unanswerable(rs)]),
        ("citations verified", lambda rs: [s == "verified" for r in rs for s in r.statuses]),
    ]
    lines = ["| measure | development half | reported half |", "| --- | --- | --- |"]
    lines += [f"| {name} | {share(pick(halves['dev']))} | {share(pick(halves['report']))} |" for name, pick in rows]
    return "\n".join(lines)


def answerable(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.question.status == "answered"]


def unanswerable(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.question.status == "refused"]
