"""A house whose runs stop for long at the step that their question names: "retrieval" in "stall in retrieval"."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from service.graph.state import Services
from service.model import Candidate, Grade, Judgement, Passage, Scope, Source
from service.usage import Usage
from tests.fakes import FixedKnowledge, FixedReranker, ScriptedModel, services

PHASES = ["retrieval", "rerank", "grading", "generation", "judging"]


@dataclass
class Stall:
    """`reached` and `left` are the questions of the runs that came to a stop, and of those that were set free."""

    reached: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    async def at(self, phase: str, question: str) -> None:
        if f"stall in {phase}" not in question:
            return
        self.reached.append(question)
        try:
            await asyncio.sleep(60)
        finally:
            self.left.append(question)


@dataclass
class StallingKnowledge(FixedKnowledge):
    stall: Stall = field(default_factory=Stall)

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        await self.stall.at("retrieval", query)
        return await super().search(query, limit=limit, scope=scope)


@dataclass
class StallingReranker(FixedReranker):
    stall: Stall = field(default_factory=Stall)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        await self.stall.at("rerank", query)
        return await super().scores(query, texts)


@dataclass
class StallingModel(ScriptedModel):
    stall: Stall = field(default_factory=Stall)

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        await self.stall.at("grading", question)
        return await super().grade(question, passages, usage, hint)

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        async with aclosing(super().answer(question, sources, feedback, usage, instructions)) as texts:
            async for text in texts:
                yield text
                await self.stall.at("generation", question)

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        await self.stall.at("judging", question)
        return await super().judge_answers(question, answer, sources, usage)


def stalling(folder: Path) -> tuple[Services, StallingModel, Stall]:
    stall = Stall()
    knowledge = StallingKnowledge(stall=stall)
    world = services(folder, knowledge=knowledge, reranker=StallingReranker(stall=stall))
    return world, StallingModel(stall=stall), stall
