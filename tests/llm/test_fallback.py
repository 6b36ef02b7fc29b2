"""The spare model takes over before the first token, once and for the rest of the run."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from service.errors import ModelUnavailable, ModelUnusable
from service.llm.claude import Claude
from service.llm.fallback import SWITCHED, WithFallback
from service.llm.patience import Patience
from service.model import ComponentState, Grade, Judgement, Passage, Source, Turn
from service.ports import AnswerCut, AnswerModel
from service.usage import ModelCall, Usage
from tests.llm.test_claude import QUESTION, SOURCES, TEXT, TURNS, passage
from tests.messages_server import fails, running_messages_server, says

DOWN = ModelUnavailable("down")
UNAVAILABLE = Grade("error", "unavailable: down")


@dataclass
class Scripted:
    """An answer model that says its name, or fails as it was told. `asked` names the calls in order, `given`
    holds their arguments.
    """

    name: str
    fault: Exception | None = None
    tokens_before_fault: int = 0
    grades: list[Grade] = field(default_factory=lambda: [Grade("pass")])
    asked: list[str] = field(default_factory=list)
    given: list[tuple[object, ...]] = field(default_factory=list)
    closed: bool = False
    warning: str = ""

    def _call(self, name: str, usage: Usage, *given: object) -> None:
        self.asked.append(name)
        self.given.append(given)
        usage.call(name)
        usage.spend(ModelCall("answer", "scripted", "", 0.0, 1.0, 1, 1, 0.5, "end_turn"))

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        self._call("condense", usage, turns, question)
        if self.fault:
            raise self.fault
        return f"{self.name}: {question}"

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        self._call("web_query", usage, question, tried)
        if self.fault:
            raise self.fault
        return f"{self.name}: {question}"

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        self._call("rewrite", usage, question, tried, seen)
        if self.fault:
            raise self.fault
        return f"{self.name}: {question}"

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        self._call("grade", usage, question, passages, hint)
        await asyncio.sleep(0)
        return self.grades

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        self._call("answer", usage, question, sources, feedback, instructions)
        try:
            for number in range(self.tokens_before_fault if self.fault else 2):
                yield f"{self.name}{number} "
            if self.fault:
                raise self.fault
        finally:
            self.closed = True

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        self._call("judge_grounded", usage, question, answer, sources)
        return Judgement("error", f"unavailable: {self.name}")

    async def judge_answers(
        self,
        question: str,
        answer: str,
        sources: Sequence[Source],  # noqa: ARG002 - the port's
        usage: Usage,
    ) -> Judgement:
        self._call("judge_answers", usage, question, answer)
        return Judgement("error", f"unavailable: {self.name}")

    def state(self) -> ComponentState:
        return ComponentState("model", True, self.name)


def pair(
    fault: Exception | None = None, tokens: int = 0, grades: list[Grade] | None = None
) -> tuple[WithFallback, Scripted, Scripted]:
    primary = Scripted("primary", fault, tokens, grades or [Grade("pass")])
    spare = Scripted("spare", grades=[Grade("fail")])
    return WithFallback(primary, spare), primary, spare


async def written(model: AnswerModel, usage: Usage | None = None) -> list[str]:
    return [text async for text in model.answer(QUESTION, SOURCES, "", usage or Usage())]


async def test_a_primary_that_works_is_never_left() -> None:
    model, _, spare = pair()
    usage = Usage()
    assert await model.condense(TURNS, "q", usage) == "primary: q"
    assert await model.grade("q", [passage()], usage) == [Grade("pass")]
    assert await model.rewrite("q", "t", [], usage) == "primary: q"
    assert await written(model, usage) == ["primary0 ", "primary1 "]
    assert (model.name, model.state().detail, model.warning) == ("primary", "primary", "")
    assert spare.asked == []


CALLS: list[Callable[[WithFallback, Usage], Awaitable[object]]] = [
    lambda model, usage: model.condense(TURNS, "q", usage),
    lambda model, usage: model.web_query("q", "t", usage),
    lambda model, usage: model.rewrite("q", "t", [], usage),
    lambda model, usage: written(model, usage),
    lambda model, usage: model.grade("q", [passage()], usage),
]


@pytest.mark.parametrize("call", CALLS, ids=["condense", "web_query", "rewrite", "answer", "grade"])
async def test_the_spare_takes_over_for_the_rest_of_the_run(
    call: Callable[[WithFallback, Usage], Awaitable[object]],
) -> None:
    model, primary, spare = pair(DOWN, grades=[UNAVAILABLE])
    await call(model, Usage())
    assert model.name == "primary, then spare"
    assert model.warning == SWITCHED
    await model.condense(TURNS, "q", Usage())
    await model.grade("q", [passage()], Usage())
    await written(model)
    await model.judge_grounded("q", "a", SOURCES, Usage())
    await model.judge_answers("q", "a", [], Usage())
    assert len(primary.asked) == 1
    assert spare.asked[1:] == ["condense", "grade", "answer", "judge_grounded", "judge_answers"]
    assert model.state().detail == "spare"


@pytest.mark.parametrize("call", CALLS, ids=["condense", "web_query", "rewrite", "answer", "grade"])
async def test_a_call_repeated_by_the_spare_counts_once(
    call: Callable[[WithFallback, Usage], Awaitable[object]],
) -> None:
    model, primary, spare = pair(DOWN, grades=[UNAVAILABLE])
    usage = Usage()
    await call(model, usage)
    assert primary.given == spare.given
    assert usage.model_calls == 1
    assert (usage.input_tokens, usage.cost_usd) == (2, 1.0)
    await model.condense(TURNS, "q", usage)
    assert usage.model_calls == 2


async def test_a_draft_that_began_is_not_begun_again() -> None:
    model, _, spare = pair(DOWN, tokens=1)
    stream = model.answer(QUESTION, SOURCES, "", Usage())
    assert await anext(stream) == "primary0 "
    with pytest.raises(ModelUnavailable):
        await anext(stream)
    assert (model.warning, spare.asked) == ("", [])


@pytest.mark.parametrize("fault", [AnswerCut("refusal"), ModelUnusable("nothing"), RuntimeError("a bug")])
async def test_only_an_unavailable_model_is_left(fault: Exception) -> None:
    model, _, spare = pair(fault)
    with pytest.raises(type(fault)):
        await written(model)
    assert (model.warning, spare.asked) == ("", [])


async def test_a_judge_that_is_down_leaves_the_draft_unassessed() -> None:
    model, _, spare = pair()
    await written(model)
    assert (await model.judge_grounded("q", "a", SOURCES, Usage())).result == "error"
    assert (await model.judge_answers("q", "a", [], Usage())).result == "error"
    assert (model.warning, spare.asked) == ("", [])


@pytest.mark.parametrize(
    "grades",
    [[Grade("error", "cut: max_tokens")], [Grade("error", "unparsable: no JSON object")], [UNAVAILABLE, Grade("pass")]],
)
async def test_grades_that_are_errors_for_another_reason_stand(grades: list[Grade]) -> None:
    model, _, spare = pair(grades=grades)
    assert await model.grade("q", [passage()] * len(grades), Usage()) == grades
    assert (model.warning, spare.asked) == ("", [])


async def test_concurrent_grades_that_find_the_primary_down_are_each_graded_by_the_spare() -> None:
    model, primary, spare = pair(grades=[UNAVAILABLE])
    usage = Usage()
    grades = await asyncio.gather(*(model.grade("q", [passage()], usage) for _ in range(4)))
    assert grades == [[Grade("fail")]] * 4
    assert (len(primary.asked), len(spare.asked), usage.model_calls) == (4, 4, 4)


async def test_a_spare_that_is_down_too_says_so() -> None:
    model, _, spare = pair(DOWN)
    spare.fault = ModelUnavailable("the spare is down")
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="the spare is down"):
            await model.condense(TURNS, "q", Usage())
        with pytest.raises(ModelUnavailable, match="the spare is down"):
            await written(model)


@pytest.mark.parametrize("fault", [None, DOWN])
async def test_leaving_the_answer_closes_the_stream_underneath(fault: Exception | None) -> None:
    model, primary, spare = pair(fault)
    async with aclosing(model.answer(QUESTION, SOURCES, "", Usage())) as stream:
        await anext(stream)
    assert primary.closed
    assert spare.closed == (fault is not None)


async def no_wait(_: float) -> None:
    return None


async def test_claude_down_for_a_grade_hands_one_run_to_the_spare() -> None:
    async with running_messages_server() as server:
        claude = Claude.connect("k", server.url, answer_model="a", gate_model="g", patience=Patience(sleep=no_wait))
        server.script(fails(529), fails(529), fails(529), says(TEXT))
        run, next_run = (WithFallback(claude, Scripted("spare")) for _ in range(2))
        assert await run.grade(QUESTION, [passage()], Usage()) == [Grade("pass")]
        assert "".join(await written(next_run)) == TEXT
        assert (run.warning, next_run.warning) == (SWITCHED, "")
        await claude.aclose()


async def test_a_skills_words_reach_the_spare_as_they_reached_the_primary() -> None:
    run, primary, spare = pair(ModelUnavailable("down"), grades=[Grade("error", "unavailable: down")])
    await run.grade("q", [passage()], Usage(), "a hint")
    assert primary.given[-1][-1] == spare.given[-1][-1] == "a hint"
    run, primary, spare = pair(ModelUnavailable("down"))
    async with aclosing(run.answer(QUESTION, SOURCES, "", Usage(), "instructions")) as stream:
        assert [text async for text in stream]
    assert primary.given[-1][-1] == spare.given[-1][-1] == "instructions"
