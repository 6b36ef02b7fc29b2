"""What the graph needs from the outside world, as protocols. Each has two implementations that ship."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.model import (
    Candidate,
    ComponentState,
    Grade,
    Judgement,
    Passage,
    Scope,
    Source,
    Turn,
    Usage,
    WebStatus,
)


class KnowledgeBase(Protocol):
    """The curated passages, searched hybrid (dense and BM25, fused by reciprocal rank).

    Every method raises `KnowledgeBaseError` when the store does not answer.
    """

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        """Return at most `limit` candidates inside `scope`, best fused rank first."""
        ...

    async def get(self, passage_id: str) -> Passage | None:
        """Return the passage as it stands in the index now, or None."""
        ...

    async def documents(self, source: str) -> dict[str, str]:
        """Return the snapshot sha256 of each document of `source`, keyed by address."""
        ...

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        """Make `passages` the only ones of this document. A failure keeps the version that stood before."""
        ...

    async def remove(self, source: str, address: str) -> None:
        """Take a document out of the index (its snapshots stay)."""
        ...

    async def count(self) -> int:
        """Return the number of passages in the index."""
        ...

    async def state(self) -> ComponentState: ...


class Reranker(Protocol):
    """A cross-encoder's judgement of (query, text) pairs."""

    @property
    def name(self) -> str: ...

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text: sigmoid, 0..1, higher is better, in the order given."""
        ...

    def state(self) -> ComponentState: ...


class AnswerModel(Protocol):
    """The six things a model is asked. `usage` is filled as calls are made, also when they fail.

    Only `condense`, `rewrite` and `answer` raise (`ModelUnavailable`, `ModelUnusable`). `grade` and the judges never
    raise for a model's fault: what cannot be had or believed is the result `error` (invariant 6).
    """

    @property
    def name(self) -> str: ...

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        """Return the question so that it stands alone, or unchanged where it already does."""
        ...

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage) -> list[Grade]:
        """Grade each passage's relevance with ONE model call; one `Grade` per passage, in order."""
        ...

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        """Return a keyword-richer query than `tried`; `seen` are passages that came back and did not do."""
        ...

    def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage
    ) -> AsyncGenerator[str, None]:
        """Stream an answer that cites `[[n]]`, or one that opens with `ABSTAIN`.

        `feedback` is the judge's reason against the last draft, "" on the first. The stream that ends normally is a
        complete answer. Raises `AnswerCut` at its end when the model stopped for a reason that is no answer,
        `ModelUnavailable` when it never began or broke off.
        """
        ...

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        """Does every statement of the answer stand in the source it cites? `pass` is good."""
        ...

    async def judge_answers(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        """Does the answer address the question? `pass` is good. `sources` are what it may cite."""
        ...

    def state(self) -> ComponentState: ...


class AnswerCut(Exception):
    """The model stopped early (max_tokens, refusal, context window): what was streamed is no complete answer."""

    def __init__(self, stop_reason: str) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason


@dataclass(frozen=True, slots=True)
class WebFindings:
    """What a web search brought back: the query that left, how it went, and graded-to-be verbatim strips."""

    query: str
    status: WebStatus
    strips: tuple[Candidate, ...] = ()
    warning: str = ""


class WebSearch(Protocol):
    async def search(self, question: str) -> WebFindings:
        """Search and fetch within the budget. Never raises for the web's faults: they are a status."""
        ...

    def state(self) -> ComponentState: ...


class ThreadLocks(Protocol):
    """Locks by name that the replicas of one installation share; a thread's key is the name of its lock.

    `take`, `taken` and `confirm` raise `ThreadsUnavailable` when whoever keeps the locks does not answer.
    """

    async def take(self, name: str) -> bool:
        """Take the lock if no one has it, without waiting. A take that is cut short is to be released as well."""
        ...

    async def release(self, name: str) -> None:
        """Let go of the lock, if it is held. Never raises."""
        ...

    async def taken(self, name: str) -> bool:
        """Whether any replica has the lock."""
        ...

    async def confirm(self, name: str) -> None:
        """Raises `ThreadsUnavailable` where the lock that was taken is not ours any more."""
        ...
