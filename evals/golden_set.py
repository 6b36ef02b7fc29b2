"""The golden set: the seed questions and the cases grown from them, over the sample knowledge base.

A case's first tag is its kind. `any-of` marks a case whose expected passages each answer it alone; without that tag all
of them are needed. `why` names the rule that answers, or says why none does, for whoever reads the labels again.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from evals.seed import QUESTIONS, Question, as_question

CASES = QUESTIONS.with_name("cases.jsonl")
ANY_OF = "any-of"
KINDS = (
    "plain",
    "paraphrased",
    "multi-passage",
    "numbers",
    "table",
    "definition",
    "notes",
    "conflict",
    "follow-up",
    "near-miss",
    "unanswerable",
    "false-premise",
    "injection",
    "out-of-scope",
)


@dataclass(frozen=True, slots=True)
class Case(Question):
    """A question with its switches: `web_search` as the person set it, `skill` by name, None without one."""

    web_search: bool = False
    skill: str | None = None
    why: str = ""

    @property
    def kind(self) -> str:
        return self.tags[0]

    @property
    def any_of(self) -> bool:
        """Whether each expected passage answers alone."""
        return ANY_OF in self.tags


def load_golden() -> list[Case]:
    """Return the seed questions, then the cases, in the order of their files. Raises `ValueError` as `load_cases`."""
    return load_cases(QUESTIONS) + load_cases(CASES)


def load_cases(path: Path) -> list[Case]:
    """Return the cases of one file. Raises `ValueError` that names the line which cannot be read."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [_case(line, f"{path.name}, line {number}") for number, line in lines if line.strip()]


def _case(line: str, place: str) -> Case:
    try:
        return as_case(json.loads(line))
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}: not JSON ({error.msg})") from error
    except KeyError as error:
        raise ValueError(f"{place}: the field {error} is missing") from error


def as_case(row: dict[str, Any]) -> Case:
    question = as_question(row)
    return Case(
        **{field.name: getattr(question, field.name) for field in fields(question)},
        web_search=row.get("web_search", False),
        skill=row.get("skill"),
        why=row.get("why", ""),
    )


def count_by_kind(cases: Iterable[Case]) -> dict[str, Counter[str]]:
    """Return for each kind how many cases of each split there are."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for case in cases:
        counts[case.kind][case.split] += 1
    return counts
