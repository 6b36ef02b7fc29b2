"""Quote's thresholds, fitted on the development half and on nothing else."""

import math
from collections.abc import Sequence
from itertools import product

from evals.house import House
from evals.seed import Question, answerable, unanswerable
from service.llm.quote import Thresholds

FALSE_ANSWERS = 0.05
"""Share of the unanswerable questions that may be answered."""
FALSE_REFUSALS = 0.05
"""Share of the answerable questions that may be refused outright; the others between are `partial`."""


async def fitted(house: House, questions: Sequence[Question]) -> Thresholds:
    """Both thresholds by the shares above; then what is quoted, by facts stated."""
    relevant, answers = thresholds_of(*await best_evidence(house, questions))
    best, best_value = Thresholds(), -1
    for quotes, margin in product((1, 2, 3), (0.05, 0.1, 0.2, 0.3)):
        at = Thresholds(relevant, answers, quotes, margin)
        results = [await house.run(question, at) for question in questions]
        value = sum(r.states_facts and not r.states_forbidden for r in answerable(results)) - sum(
            r.status == "answered" for r in unanswerable(results)
        )
        if value > best_value:
            best, best_value = at, value
            print(f"# {value:4} {at}", flush=True)  # noqa: T201 - a command's output
    return best


def thresholds_of(right: Sequence[float], wrong: Sequence[float]) -> tuple[float, float]:
    """Return the two thresholds, of three digits, for the best evidence of answerable and of unanswerable questions.

    Rounded towards fewer faults of the kind that each is there for: the lower one down, the upper one up.
    """
    kept = sorted(right)[int(FALSE_REFUSALS * len(right))]
    held_back = sorted(wrong, reverse=True)[int(FALSE_ANSWERS * len(wrong))]
    relevant = math.floor(kept * 1000) / 1000
    return relevant, max(relevant, (math.floor(held_back * 1000) + 1) / 1000)


async def best_evidence(house: House, questions: Sequence[Question]) -> tuple[list[float], list[float]]:
    """The best evidence among what is graded, for each answerable question and for each unanswerable one."""
    found: tuple[list[float], list[float]] = ([], [])
    for question in questions:
        best = await house.best_evidence(question)
        found[0 if question.status == "answered" else 1].append(best)
    return found
