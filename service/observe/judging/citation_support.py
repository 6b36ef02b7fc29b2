"""A metric of our own: does the source that a sentence cites support it?

Faithfulness holds an answer against all sources at once, so a sentence that cites the wrong one passes it. Here each
sentence is held against each source that it cites, and against that one alone.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any, Literal

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from pydantic import BaseModel, ConfigDict

from service.citations.statements import Statement, statements
from service.observe.judging.judge import Judge
from service.observe.scoring import NoScore

_TEXT = resources.files("service.observe.judging").joinpath("citation_support.md").read_text(encoding="utf-8")
_SYSTEM, _, _REQUEST = _TEXT.partition("\n---\n")
PROMPT_SHA256 = hashlib.sha256(_TEXT.encode("utf-8")).hexdigest()


class SupportVerdict(BaseModel):
    model_config = ConfigDict(extra="ignore")

    number: int
    verdict: Literal["yes", "no"]
    reason: str = ""


class SupportVerdicts(BaseModel):
    verdicts: list[SupportVerdict]


@dataclass(frozen=True, slots=True)
class Cited:
    """A statement held against one source that it cites."""

    statement: str
    n: int
    supported: bool
    reason: str


class CitationSupport(BaseMetric):
    """The share of (sentence, source it cites) pairs in which the source supports the sentence, 0..1.

    The test case's `actual_output` has its markers; `numbers[i]` is the number of `retrieval_context[i]`. A marker that
    names no source is not supported, whatever a judge says. Raises `NoScore` where nothing is cited, or where the judge
    cannot be had or believed.
    """

    def __init__(self, model: Judge, numbers: Sequence[int], threshold: float = 1.0) -> None:
        self.model = self._judge = model
        self.using_native_model = False
        self.evaluation_model = model.get_model_name()
        self.threshold = threshold
        self.include_reason = True
        self.async_mode = True
        self.numbers = tuple(numbers)
        self.cited: list[Cited] = []

    def measure(self, *_: Any, **__: Any) -> float:
        raise NotImplementedError("this judge is asked in its own event loop: use a_measure")

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:
        found = statements(test_case.actual_output or "")
        sources = dict(zip(self.numbers, map(str, test_case.retrieval_context or ()), strict=True))
        numbers = sorted({n for statement in found for n in statement.numbers})
        if not numbers:
            raise NoScore("nothing_cited", "the answer cites nothing")
        checks = [self._held_against(n, sources.get(n), [s for s in found if n in s.numbers]) for n in numbers]
        self.cited = [pair for pairs in await asyncio.gather(*checks) for pair in pairs]
        self.score = sum(pair.supported for pair in self.cited) / len(self.cited)
        self.reason = " ".join(pair.reason for pair in self.cited if not pair.supported)
        self.success = self.is_successful()
        return self.score

    async def _held_against(self, n: int, source: str | None, citing: Sequence[Statement]) -> list[Cited]:
        if source is None:
            return [Cited(statement.text, n, False, f"[[{n}]] is no source of this answer.") for statement in citing]
        reply = await self._judge.ask(request(source, citing), SupportVerdicts, system=_SYSTEM, name="citation_support")
        if [verdict.number for verdict in reply.verdicts] != list(range(1, len(citing) + 1)):
            raise NoScore("unusable", "not one verdict for each statement")
        return [
            Cited(statement.text, n, verdict.verdict == "yes", verdict.reason)
            for statement, verdict in zip(citing, reply.verdicts, strict=True)
        ]

    def is_successful(self) -> bool:
        return self.score is not None and self.score >= (self.threshold or 0.0)

    @property
    def __name__(self) -> str:
        return "Citation Support"


def request(source: str, citing: Sequence[Statement]) -> str:
    """The prompt's second part. The mark of its fences is new each time: no page can foresee it."""
    mark = secrets.token_hex(8)
    listed = "\n".join(
        f"{number}. {' '.join(statement.text.split())}{others(statement)}" for number, statement in enumerate(citing, 1)
    )
    return Template(_REQUEST.strip()).substitute(
        mark=mark, source=fenced(source, mark), statements=fenced(listed, mark)
    )


def others(statement: Statement) -> str:
    return " (cites other sources too)" if len(statement.numbers) > 1 else ""


def fenced(text: str, mark: str) -> str:
    return f"<data {mark}>\n{text.replace(mark, '')}\n</data {mark}>"
