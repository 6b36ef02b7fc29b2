"""The place of a judge of our own answers: DeepEval's four metrics where `JUDGE_MODEL` names one, nothing otherwise.

Faithfulness and answer relevancy need an answer and its sources; contextual precision and recall need what the case
expects as well, which only a golden set has: live traffic cannot compute them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from evals.golden_set import Case
from service.observe.scorable import Mask, Scorable, for_a_judge
from service.scores import connect, mask_of
from service.settings import Settings
from service.store import Progress

if TYPE_CHECKING:
    from service.observe.judging.metrics import DeepEvalScorer

JUDGED = ("faithfulness", "answer_relevancy", "contextual_precision", "contextual_recall")


class Judge(Protocol):
    """Scores an answer, 0..1, by the names in `JUDGED`; a score that cannot be had is left out, never guessed.

    The sources of `answer` stand best first. `expected` is `expected_answer` of the case, "" where nothing answers.
    """

    @property
    def name(self) -> str: ...

    async def scores(self, answer: Scorable, expected: str) -> Mapping[str, float]: ...


class NoJudge:
    """No judge is configured: no scores, and no column in the report."""

    name = "none"

    async def scores(self, answer: Scorable, expected: str) -> Mapping[str, float]:  # noqa: ARG002 - the port's signature
        return {}


class DeepEvalJudge:
    """The judge that scores live answers, asked for the golden set's metrics. `tell` hears which scores are missing."""

    def __init__(self, scorer: "DeepEvalScorer", name: str, mask: Mask, timeout_s: float, tell: Progress) -> None:
        self.name = name
        self._scorer = scorer
        self._mask = mask
        self._timeout_s = timeout_s
        self._tell = tell

    async def scores(self, answer: Scorable, expected: str) -> Mapping[str, float]:
        from service.observe.judging.metrics import against  # two seconds of loading, where it is wanted

        measures = against(for_a_judge(expected, self._mask))
        found = await self._scorer.measure(measures, self._shown(answer), self._timeout_s)
        for missing in found.missing:
            self._tell(f"no {missing['name']} from {self.name}: {missing['code']}")
        return {score["name"]: score["value"] for score in found.scores}

    def _shown(self, answer: Scorable) -> Scorable:
        sources = {n: for_a_judge(text, self._mask) for n, text in answer.sources.items()}
        return Scorable(for_a_judge(answer.question, self._mask), for_a_judge(answer.answer, self._mask), sources)


def expected_answer(case: Case) -> str:
    """The answer that the labels expect, a sentence a line: the words that answer, and each fact not among them.

    Where one of several passages is enough their words are no one's answer, so that the facts stand alone.
    """
    words = [] if case.any_of else [expected.text for expected in case.expected]
    facts = [fact for fact in case.facts if not any(fact.casefold() in text.casefold() for text in words)]
    return "\n".join(f"{said.rstrip('.')}." for said in [*words, *facts])


@asynccontextmanager
async def judge_of(settings: Settings, tell: Progress) -> AsyncIterator[Judge]:
    """The judge that the settings name: the one place where it is chosen for a trial.

    Raises `ValueError` where one is named that cannot be asked, `OperatorError` for the mask file.
    """
    if not settings.JUDGE_MODEL:
        yield NoJudge()
        return
    if not (settings.JUDGE_BASE_URL or settings.provider_by_key() == "claude"):
        raise ValueError(
            f"JUDGE_MODEL={settings.JUDGE_MODEL} needs JUDGE_BASE_URL, ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL. Set "
            "one, or leave JUDGE_MODEL empty for a report without a judge's scores."
        )
    mask = mask_of(settings)
    scorer = await asyncio.to_thread(connect, settings)
    try:
        yield DeepEvalJudge(scorer, settings.JUDGE_MODEL, mask, settings.SCORE_TIMEOUT_S, tell)
    finally:
        await scorer.aclose()
