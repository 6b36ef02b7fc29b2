"""Quote with what the designs ask beyond the product's port, as far as it can be done without language.

It cannot route by a topic list, answer from what it knows, or rewrite a passage: a design that needs one of these is
left out of its table, and the table says so.
"""

from collections.abc import Sequence
from typing import NoReturn, Self

from evals.designs.port import Ability, CannotAsk, Fork
from service.citations.grounding import missing_quotations
from service.llm.quote import Quote
from service.model import Grade, Passage, Source
from service.usage import Usage


class Quoting(Quote):
    """`DesignModel` that writes nothing."""

    can: frozenset[Ability] = frozenset()

    def at(self, temperature: float) -> Self:  # noqa: ARG002 - nothing is drawn, so nothing is warm
        return self

    async def route(self, question: str, fork: Fork, usage: Usage) -> NoReturn:  # noqa: ARG002 - the port's
        raise CannotAsk("Quote cannot route a question by a list of topics.")

    async def direct(self, question: str, usage: Usage) -> NoReturn:  # noqa: ARG002 - the port's
        raise CannotAsk("Quote knows nothing by itself.")

    async def bullets(self, question: str, passage: Passage, usage: Usage) -> NoReturn:  # noqa: ARG002 - the port's
        raise CannotAsk("Quote rewrites nothing.")

    async def score(self, question: str, passage: Passage, usage: Usage) -> float:  # noqa: ARG002 - no call to count
        return (await self.evidence(question, [passage.indexed_text]))[0]

    async def grade_set(self, question: str, passages: Sequence[Passage], usage: Usage) -> Grade:
        grades = await self.grade(question, passages, usage)
        return Grade("pass" if any(grade.result == "pass" for grade in grades) else "fail")

    async def hallucinated(self, answer: str, sources: Sequence[Source], usage: Usage) -> str:  # noqa: ARG002
        return "yes" if missing_quotations(answer, sources) else "no"
