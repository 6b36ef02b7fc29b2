"""A model whose faults are named by the question, so that one server can show a page every way in which a run ends."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from service.errors import ModelUnavailable
from service.model import Grade, Judgement, Passage, Source, Turn
from service.usage import Usage
from tests.fakes import ERROR, FAIL, PASS, ScriptedModel

AWAY = "The model does not answer at the moment."
FIRST = "The first draft says so"
SECOND = "The second draft says so"

# What a question may name.
WITHDRAWN = "the first draft is not grounded"
UNGROUNDED = "no draft is grounded"
UNJUDGED = "the judge gives no verdict"
IRRELEVANT = "no passage is relevant"
BREAKS = "the model breaks off once"
HELD_WRITER = "the writer waits"
HELD_REWRITER = "the second writer waits"
HELD_JUDGE = "the judge waits"


class Away(ModelUnavailable):
    def __str__(self) -> str:
        return AWAY


@dataclass
class FaultyModel(ScriptedModel):
    """`go` lets those that wait go on. A question that names no fault is answered as by any scripted model."""

    condensed: Callable[[Sequence[Turn], str], str] = lambda _, question: question  # its own faults alone
    go: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: list[str] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        grades = await super().grade(question, passages, usage, hint)
        return [Grade("fail", "about something else") for _ in grades] if IRRELEVANT in question else grades

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        self.tries[question] += 1
        texts = super().answer(question, sources, feedback, usage, instructions)
        if WITHDRAWN in question or UNGROUNDED in question:
            yield f"{SECOND if feedback else FIRST} [[{sources[0].n}]]. "
        async with aclosing(texts):
            async for text in texts:
                yield text
                if BREAKS in question and self.tries[question] == 1:
                    raise Away
                if HELD_WRITER in question or (HELD_REWRITER in question and feedback):
                    await self._wait(question)

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        if HELD_JUDGE in question:
            await self._wait(question)
        await super().judge_grounded(question, answer, sources, usage)
        if UNJUDGED in question:
            return ERROR
        failing = UNGROUNDED in question or (WITHDRAWN in question and answer.startswith(FIRST))
        return FAIL if failing else PASS

    async def _wait(self, question: str) -> None:
        if self.go.is_set():
            return
        self.waiting.append(question)
        async with asyncio.timeout(30):
            await self.go.wait()
