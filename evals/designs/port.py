"""What the designs ask of a model beyond the product's own port. Evals only: the product never routes by a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from service.model import Grade, Passage, Source
from service.ports import AnswerModel
from service.usage import Usage

Ability = Literal["route", "direct", "bullets"]
"""What a model may lack. Grading, writing and judging every model can."""

EVERY_ABILITY: frozenset[Ability] = frozenset({"route", "direct", "bullets"})

DONT_KNOW = "I don't know."
"""What a design shows where its writer found nothing to say."""


class CannotAsk(Exception):
    """A design asked for what the model cannot do: the design cannot run on it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A part of the store as a router's topic list names it. `folder` is the first part of its addresses."""

    folder: str
    words: str


@dataclass(frozen=True, slots=True)
class Fork:
    """What a router may choose. `doubt` is the way for a question that fits no topic."""

    topics: tuple[Topic, ...]
    ways: tuple[str, ...]
    doubt: str


class DesignModel(AnswerModel, Protocol):
    """The product's port and six calls more. `can` names what this model is able to do of `Ability`."""

    @property
    def can(self) -> frozenset[Ability]: ...

    def at(self, temperature: float) -> Self:
        """This model at a temperature; unchanged where it takes none."""
        ...

    async def route(self, question: str, fork: Fork, usage: Usage) -> str:
        """Return the way as the model wrote it, which may be none of `fork.ways`."""
        ...

    async def direct(self, question: str, usage: Usage) -> str:
        """Answer from what the model knows, without any source."""
        ...

    async def bullets(self, question: str, passage: Passage, usage: Usage) -> str:
        """Rewrite a passage as bullets of what bears on the question."""
        ...

    async def score(self, question: str, passage: Passage, usage: Usage) -> float:
        """How relevant the passage is, 0..1; 0 where no number can be had."""
        ...

    async def grade_set(self, question: str, passages: Sequence[Passage], usage: Usage) -> Grade:
        """One grade for all passages together: do they bear on the question?"""
        ...

    async def hallucinated(self, answer: str, sources: Sequence[Source], usage: Usage) -> str:
        """Return `yes` or `no` with the polarity as published: `yes` means hallucinated. "" is no usable verdict."""
        ...
