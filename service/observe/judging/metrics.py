"""The metrics, each measured afresh for one answer: a metric of DeepEval's keeps the texts of its last test case.

What DeepEval would score anyway is refused here: it takes an answer without claims, or a judge that returns fewer
verdicts than there are claims, for a good one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import anthropic
from deepeval.metrics import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
    FaithfulnessMetric,
)
from deepeval.test_case import LLMTestCase

from service.citations.statements import statements
from service.observe.judging.citation_support import PROMPT_SHA256, CitationSupport
from service.observe.judging.judge import Judge, Price
from service.observe.scorable import Scorable
from service.observe.scoring import NoScore, Scored
from service.record import MissingScore, ScoreItem

MAX_WORDS = 1_000
OWN_LOOP: dict[str, Any] = {"include_reason": False, "async_mode": True, "eval_mode": "llm"}
"""Without a reason of DeepEval's: that is one more call, and the verdicts have reasons of their own."""

Measure = Callable[[Judge, Scorable], Awaitable[ScoreItem]]


async def faithfulness(judge: Judge, answer: Scorable) -> ScoreItem:
    """The share of the answer's claims that the sources do not contradict."""
    metric = FaithfulnessMetric(model=judge, **OWN_LOOP)
    await metric.a_measure(case_of(answer), _show_indicator=False)
    verdicts = one_each(metric.verdicts, metric.claims, "claim")
    return item("faithfulness", metric.score, verdicts, "claims agree with the sources")


async def answer_relevancy(judge: Judge, answer: Scorable) -> ScoreItem:
    """The share of the answer's statements that address the question."""
    metric = AnswerRelevancyMetric(model=judge, **OWN_LOOP)
    await metric.a_measure(case_of(answer), _show_indicator=False)
    verdicts = one_each(metric.verdicts, metric.statements, "statement")
    return item("answer_relevancy", metric.score, verdicts, "statements address the question")


async def contextual_relevancy(judge: Judge, answer: Scorable) -> ScoreItem:
    """The share of what the sources say that bears on the question."""
    metric = ContextualRelevancyMetric(model=judge, **OWN_LOOP)
    await metric.a_measure(case_of(answer), _show_indicator=False)
    for of_one in metric.verdicts_list:
        if not of_one.verdicts:
            raise NoScore("unusable", "no verdict on a source")
    verdicts = [verdict for of_one in metric.verdicts_list for verdict in of_one.verdicts]
    return item("contextual_relevancy", metric.score, verdicts, "statements of the sources bear on the question")


async def citation_support(judge: Judge, answer: Scorable) -> ScoreItem:
    """The share of cited sentences that the source they cite supports."""
    metric = CitationSupport(judge, tuple(answer.sources))
    await metric.a_measure(case_of(answer, with_markers=True))
    supported = sum(pair.supported for pair in metric.cited)
    detail = f"{supported} of {len(metric.cited)} citations are supported by their source"
    return scored("citation_support", metric.score, detail, metric.reason or "")


async def contextual_precision(judge: Judge, answer: Scorable, expected: str) -> ScoreItem:
    """How far the sources that the expected answer needs stand before the others. For the golden set alone."""
    metric = ContextualPrecisionMetric(model=judge, **OWN_LOOP)
    await metric.a_measure(case_of(answer, expected), _show_indicator=False)
    verdicts = one_each(metric.verdicts, list(answer.sources), "source")
    return item("contextual_precision", metric.score, verdicts, "sources are of use for the expected answer")


async def contextual_recall(judge: Judge, answer: Scorable, expected: str) -> ScoreItem:
    """The share of the expected answer that the sources hold. For the golden set alone."""
    metric = ContextualRecallMetric(model=judge, **OWN_LOOP)
    await metric.a_measure(case_of(answer, expected), _show_indicator=False)
    if not metric.verdicts:
        raise NoScore("unusable", "no verdict on the expected answer")
    return item(
        "contextual_recall", metric.score, metric.verdicts, "sentences of the expected answer are in the sources"
    )


AFTER_EACH_ANSWER: Mapping[str, Measure] = {
    "faithfulness": faithfulness,
    "answer_relevancy": answer_relevancy,
    "contextual_relevancy": contextual_relevancy,
    "citation_support": citation_support,
}


def against(expected: str) -> Mapping[str, Measure]:
    """The metrics of a golden set's case. Of its sources only where an answer is expected."""
    measures: dict[str, Measure] = {"faithfulness": faithfulness, "answer_relevancy": answer_relevancy}
    if expected:
        measures["contextual_precision"] = partial(contextual_precision, expected=expected)
        measures["contextual_recall"] = partial(contextual_recall, expected=expected)
    return measures


def case_of(answer: Scorable, expected: str | None = None, *, with_markers: bool = False) -> LLMTestCase:
    """The answer as DeepEval takes it. Its own metrics get it without markers, which are no part of what it says."""
    said = answer.answer if with_markers else "\n".join(each.text for each in statements(answer.answer))
    return LLMTestCase(
        input=answer.question,
        actual_output=said,
        expected_output=expected,
        retrieval_context=list(answer.sources.values()),
    )


def one_each(verdicts: Sequence[Any], of: Sequence[Any], what: str) -> Sequence[Any]:
    """Raises `NoScore` unless there is a verdict on each, and something to have one on."""
    if not of or len(verdicts) != len(of):
        raise NoScore("unusable", f"{len(verdicts)} verdicts, one for each {what} wanted ({len(of)})")
    return verdicts


def item(name: str, value: float | None, verdicts: Sequence[Any], what: str) -> ScoreItem:
    against = [verdict for verdict in verdicts if str(verdict.verdict) == "no"]
    words = " ".join(verdict.reason for verdict in against if verdict.reason)
    return scored(name, value, f"{len(verdicts) - len(against)} of {len(verdicts)} {what}", words)


def scored(name: str, value: float | None, detail: str, words: str) -> ScoreItem:
    if value is None:
        raise NoScore("broken", "no score and no fault")
    return {"name": name, "value": round(float(value), 4), "detail": detail, "words": words[:MAX_WORDS]}


class DeepEvalScorer:
    """`Scorer`: all metrics of one answer at once, each with a judge's verdicts of its own."""

    def __init__(self, client: anthropic.AsyncAnthropic, model: str, price: Price) -> None:
        self._client = client
        self._model = model
        self._price = price

    @property
    def judge(self) -> dict[str, str]:
        return {"model": self._model, "deepeval": version("deepeval"), "citation_support": PROMPT_SHA256}

    async def scores(self, answer: Scorable, timeout_s: float) -> Scored:
        return await self.measure(AFTER_EACH_ANSWER, answer, timeout_s)

    async def measure(self, measures: Mapping[str, Measure], answer: Scorable, timeout_s: float) -> Scored:
        judge = Judge(self._client, self._model, self._price)
        found = Scored(usage=judge.usage)
        until = asyncio.get_running_loop().time() + timeout_s
        await asyncio.gather(
            *(measured(name, measure, judge, answer, until, found) for name, measure in measures.items())
        )
        return found

    async def aclose(self) -> None:
        await self._client.close()


async def measured(name: str, measure: Measure, judge: Judge, answer: Scorable, until: float, found: Scored) -> None:
    """Add the score, or why there is none: one metric's fault is no other's."""
    try:
        async with asyncio.timeout_at(until):
            found.scores.append(await measure(judge, answer))
    except NoScore as none:
        found.missing.append(missing(name, none.code))
    except TimeoutError:
        found.missing.append(missing(name, "timeout"))
    except Exception as broken:  # DeepEval raises what it likes, and says the texts it was given
        found.faults.append(f"{name}: {type(broken).__name__}")
        found.missing.append(missing(name, "broken"))


def missing(name: str, code: str) -> MissingScore:
    return {"name": name, "code": code}
