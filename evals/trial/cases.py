"""Which cases a trial asks: the golden set, and the cases that need the web's toggle or a skill."""

from collections.abc import Sequence
from typing import Literal

from evals.golden_set import Case, load_cases, load_golden
from evals.seed import QUESTIONS, Expected

SWITCHED = QUESTIONS.with_name("switched.jsonl")
Split = Literal["dev", "report", "all"]


def load_trial(split: Split = "all", limit: int | None = None) -> list[Case]:
    """The cases of one split in the order of their files. `limit` takes so many, spread evenly over all of them."""
    every = [*load_golden(), *load_cases(SWITCHED)]
    return spread([case for case in every if split in ("all", case.split)], limit)


def spread(cases: Sequence[Case], limit: int | None) -> list[Case]:
    if limit is None or limit >= len(cases):
        return list(cases)
    return [cases[index * len(cases) // limit] for index in range(limit)]


def find_case(case_id: str) -> Case:
    """Raises `ValueError` that names the ids there are."""
    every = load_trial()
    found = next((case for case in every if case.id == case_id), None)
    if found is None:
        raise ValueError(f"There is no case {case_id!r}: the ids run from {every[0].id} to {every[-1].id}.")
    return found


def is_web(expected: Expected) -> bool:
    """Whether the passage stands on the web and not in the knowledge base."""
    return expected.address.startswith(("http://", "https://"))
