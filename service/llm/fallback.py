"""One run's answer model with a spare: `MODEL_FALLBACK=quote` when the model API is down before the first token."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from service.errors import ModelUnavailable
from service.model import ComponentState, Grade, Judgement, Passage, Source, Turn, is_down
from service.ports import AnswerModel
from service.usage import Usage

T = TypeVar("T")

SWITCHED = "The language model did not answer, so this answer is made of verbatim quotes only."


class WithFallback:
    """An `AnswerModel` that is built per run. It turns to `spare` once, for the rest of the run.

    The turn comes where a call that raises finds the primary unavailable, or where every passage of a `grade` is an
    error because it is. Not after a token was shown, and not in the judges: a draft is judged by the
    model that wrote it, or it is not assessed. The spare's repeat of a failed call is the same logical call, so the
    bound on model calls holds.
    """

    def __init__(self, primary: AnswerModel, spare: AnswerModel) -> None:
        self._primary = primary
        self._spare = spare
        self._switched = False

    @property
    def name(self) -> str:
        return f"{self._primary.name}, then {self._spare.name}" if self._switched else self._primary.name

    @property
    def warning(self) -> str:
        return SWITCHED if self._switched else self._primary.warning

    @property
    def _current(self) -> AnswerModel:
        return self._spare if self._switched else self._primary

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        return await self._either(lambda model, spent: model.condense(turns, question, spent), usage)

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        return await self._either(lambda model, spent: model.rewrite(question, tried, seen, spent), usage)

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        return await self._either(lambda model, spent: model.web_query(question, tried, spent), usage)

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        model = self._current
        grades = await model.grade(question, passages, usage, hint)
        if model is self._spare or not is_down(grades):
            return grades
        return await self._again(lambda spare, spent: spare.grade(question, passages, spent, hint), usage)

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        shown = False
        try:
            async with _closing(self._current.answer(question, sources, feedback, usage, instructions)) as stream:
                async for text in stream:
                    shown = True
                    yield text
            return
        except ModelUnavailable:
            if shown or self._switched:
                raise
        self._switched = True
        spent = Usage()
        try:
            async with _closing(self._spare.answer(question, sources, feedback, spent, instructions)) as stream:
                async for text in stream:
                    yield text
        finally:
            _book(spent, usage)

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return await self._current.judge_grounded(question, answer, sources, usage)

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return await self._current.judge_answers(question, answer, sources, usage)

    def state(self) -> ComponentState:
        return self._current.state()

    async def _either(self, call: Callable[[AnswerModel, Usage], Awaitable[T]], usage: Usage) -> T:
        model = self._current
        try:
            return await call(model, usage)
        except ModelUnavailable:
            if model is self._spare:
                raise
        return await self._again(call, usage)

    async def _again(self, call: Callable[[AnswerModel, Usage], Awaitable[T]], usage: Usage) -> T:
        """Repeat with the spare a call that is counted already."""
        self._switched = True
        spent = Usage()
        try:
            return await call(self._spare, spent)
        finally:
            _book(spent, usage)


def _book(spent: Usage, usage: Usage) -> None:
    for request in spent.requests:
        usage.spend(request)


@asynccontextmanager
async def _closing(stream: AsyncIterator[str]) -> AsyncGenerator[AsyncIterator[str], None]:
    """Close `stream` when it is left, rather than when the garbage collector comes by. The port does not promise that
    there is anything to close.
    """
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
