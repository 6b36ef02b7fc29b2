"""The place of a judge of our own answers: DeepEval's four metrics where one is configured, nothing otherwise.

Faithfulness and answer relevancy need an answer and its sources; contextual precision and recall need the case's facts
as well, which only a golden set has: live traffic cannot compute them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.settings import Settings

JUDGED = ("faithfulness", "answer_relevancy", "contextual_precision", "contextual_recall")


@dataclass(frozen=True, slots=True)
class ToJudge:
    """An answer as a judge reads it. `contexts` are the passages that were kept, best first; `wanted` the facts."""

    question: str
    answer: str
    contexts: Sequence[str]
    wanted: Sequence[str]


class Judge(Protocol):
    """Scores an answer, 0..1, by the names in `JUDGED`; a score that cannot be had is left out, never guessed."""

    @property
    def name(self) -> str: ...

    async def scores(self, asked: ToJudge) -> Mapping[str, float]: ...


class NoJudge:
    """No judge is configured: no scores, and no column in the report."""

    name = "none"

    async def scores(self, asked: ToJudge) -> Mapping[str, float]:  # noqa: ARG002 - the port's signature
        return {}


def judge_of(settings: Settings) -> Judge:  # noqa: ARG001 - what a judge is configured by
    """The judge that the settings name: the one place where it is chosen for a trial."""
    return NoJudge()
