"""Polarity probes: each judge is handed a draft that is good by the labels and one that is bad.

A published grader whose "yes" meant "hallucinated" shipped every bad answer: only labels of both kinds show that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evals.golden_set import Case
from evals.seed import Expected
from service.model import Passage, Result, Source
from service.ports import AnswerModel
from service.usage import Usage

ProbedGate = Literal["documents", "grounded", "answers"]


@dataclass(frozen=True, slots=True)
class Probed:
    """One question put to one judge: is it good, by the labels, and what did the judge say?"""

    gate: ProbedGate
    good: bool
    said: Result


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage with the words in it that answer."""

    expected: Expected
    passage: Passage


async def probe(model: AnswerModel, question: str, case: Case, right: Evidence, other: Evidence) -> tuple[Probed, ...]:
    """Ask all three judges about the right passage and about another question's. Six questions."""
    usage = Usage()
    sources, others = [Source(1, right.passage, 1.0)], [Source(1, other.passage, 1.0)]
    good, elsewhere = quoted(right.expected.text), quoted(other.expected.text)
    (relevant,) = await model.grade(question, [right.passage], usage)
    (irrelevant,) = await model.grade(question, [other.passage], usage)
    grounded = await model.judge_grounded(question, good, sources, usage)
    invented = await model.judge_grounded(question, quoted(distorted(case, right)), sources, usage)
    answering = await model.judge_answers(question, good, sources, usage)
    off_topic = await model.judge_answers(question, elsewhere, others, usage)
    return (
        Probed("documents", True, relevant.result),
        Probed("documents", False, irrelevant.result),
        Probed("grounded", True, grounded.result),
        Probed("grounded", False, invented.result),
        Probed("answers", True, answering.result),
        Probed("answers", False, off_topic.result),
    )


def quoted(text: str) -> str:
    return f"“{text}” [[1]]"


def distorted(case: Case, right: Evidence) -> str:
    """The words that answer with a fact of theirs made wrong; turned into a denial where none of them can be."""
    text = right.expected.text
    fact = next((fact for fact in case.facts if fact in text), "")
    wrong = next((wrong for wrong in case.forbidden if wrong not in right.passage.text), "")
    if fact and wrong:
        return text.replace(fact, wrong)
    return f"It is not the case that {text}"


def fitting_other(evidence: Sequence[Evidence | None], index: int) -> Evidence | None:
    """The evidence of the next case, going round, that stands on another page than this one's; None without one."""
    own = evidence[index]
    following = [*evidence[index + 1 :], *evidence[:index]]
    return next((e for e in following if own and e and e.passage.address != own.passage.address), None)
