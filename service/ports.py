"""What the graph needs from the outside world, as protocols.

Most have two implementations that ship: one over a library or a server, one that needs neither or does nothing.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from service.model import Candidate, ComponentState, Grade, Judgement, Passage, Scope, Source, Turn, WebStatus
from service.record import FeedbackRecord, RecordedRun, RecordKind, RunRecord
from service.usage import Usage


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
        """Return the snapshot sha256 of each document of `source`, keyed by address; "" for one to be written anew."""
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
    """The seven things a model is asked. `usage` is filled as calls are made, also when they fail.

    Only `condense`, `web_query`, `rewrite` and `answer` raise (`ModelUnavailable`, `ModelUnusable`). `grade` and the
    judges never raise for a model's fault: what cannot be had or believed is the result `error` (invariant 6).
    """

    @property
    def name(self) -> str: ...

    @property
    def warning(self) -> str:
        """What this run's reader has to know of who answers, or "". A fault that another run met is in `state`."""
        ...

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        """Return the question so that it stands alone, or unchanged where it already does."""
        ...

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        """Return a short query for a public search engine. `tried` is the query of an earlier pass, or ""."""
        ...

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        """Grade each passage's relevance with ONE model call; one `Grade` per passage, in order.

        `hint` is a skill's word on what matters for its questions: data, which cannot change what a grade is.
        """
        ...

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        """Return a keyword-richer query than `tried`; `seen` are passages that came back and did not do."""
        ...

    def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        """Stream an answer that cites `[[n]]`, or one that opens with `ABSTAIN`.

        `feedback` is the judge's reason against the last draft, "" on the first. `instructions` are a skill's: data on
        the form of the answer, which cannot change what may be cited. The stream that ends normally is a
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

    def state(self) -> ComponentState:
        """For whoever runs the service. It is shared by all runs, and so is its warning."""
        ...


class AnswerCut(Exception):
    """The model stopped early (max_tokens, refusal, context window): what was streamed is no complete answer."""

    def __init__(self, stop_reason: str) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason


@dataclass(frozen=True, slots=True)
class WebFindings:
    """What a web search brought back: the query that left, how it went, and graded-to-be verbatim strips.

    The pages of the strips stand in the snapshots already.
    """

    query: str
    status: WebStatus
    strips: tuple[Candidate, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True)
class WebAsk:
    """One search. `question` never leaves: it is what strips are ranked by, and what `write` is given, masked.

    `write` words the query, and is called only where one may leave; `sending` is told the exact text before it does.
    `domains` limits results and every fetch (None is everywhere, an empty set nowhere). `before` is what the pass
    before brought back: the same query is not sent twice.
    """

    question: str
    write: Callable[[str], Awaitable[str]]
    sending: Callable[[str], None]
    domains: frozenset[str] | None = None
    before: WebFindings | None = None


class WebSearch(Protocol):
    async def search(self, ask: WebAsk) -> WebFindings:
        """Search and fetch within the budget. Never raises for the web's faults: they are a status.

        What `write` raises passes through.
        """
        ...

    def state(self) -> ComponentState: ...


WINDOW_S = 60.0
"""The window that `RATE_LIMIT_PER_MINUTE` counts in."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one request left of its client's limit.

    `limit` and `remaining` are requests per window of 60 s; `reset_s` is how long until the oldest of them leaves the
    window (s): after that one more is allowed.
    """

    allowed: bool
    limit: int
    remaining: int
    reset_s: float


class RateLimiter(Protocol):
    """At most so many requests of one client in any 60 s (a sliding window, exact at its edges)."""

    async def take(self, client: str) -> Allowance:
        """Count one request of the client, or refuse it; what is refused is not counted. Never raises."""
        ...

    async def give_back(self, client: str) -> None:
        """Count one admitted request of the client no longer. Never raises."""
        ...

    def state(self) -> ComponentState: ...


class RunObserver(Protocol):
    """Watches runs from outside: metrics, traces, scores. Whatever becomes of it, the runs go on unchanged."""

    def ended(self, record: RunRecord) -> None:
        """Take note of a run that has ended, after its reader was told. Must not wait; what it raises is logged."""
        ...


@runtime_checkable
class FeedbackObserver(Protocol):
    """Watches what people say of answers. Whatever becomes of it, the feedback is kept in the audit log."""

    def feedback(self, record: FeedbackRecord) -> None:
        """Take note of a client's word on an answer, after it was recorded. Must not wait; what it raises is logged."""
        ...


@runtime_checkable
class Reporting(Protocol):
    """An observer that `/readyz` names."""

    def state(self) -> ComponentState: ...


class ScoreSink(Protocol):
    """Where a score of a run's answer is shown beside its trace."""

    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None:
        """Hand over one score of the run. Callable from any thread; must not wait, and never raises."""
        ...


class AuditSink(Protocol):
    """Where a run leaves its record: append-only, and on disk before `append` returns."""

    def check(self) -> None:
        """Raises `AuditUnavailable` where a record could not be written now. Asked before a run begins; no waiting."""
        ...

    async def begin(self, body: Mapping[str, Any]) -> None:
        """Note a run that begins: `body` becomes its record should the process die before the run ends.

        Raises `AuditUnavailable`.
        """
        ...

    async def append(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        """Write one record. Raises `AuditUnavailable` where it is not on disk; the caller may `hold` it then."""
        ...

    def hold(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        """Keep a record that could not be written, and write it as soon as it can be. `check` refuses until then."""
        ...

    async def run(self, run_id: str, client: str) -> RecordedRun | None:
        """Return the client's run, or None: unknown, foreign, and of a thread that was erased after it alike."""
        ...

    async def runs_of(self, thread_key: str) -> int:
        """Return how many runs of this thread the log holds."""
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


class RunStops(Protocol):
    """How a replica has a run stopped that another replica of the installation answers."""

    def obey(self, stop: Callable[[str, str], bool]) -> None:
        """Have `stop(run_id, client)` called for what others ask; it says whether the run is the client's and here."""
        ...

    async def ask(self, run_id: str, client: str) -> bool:
        """Whether another replica is stopping the client's run now; False for unknown, ended and foreign runs alike.

        Raises `ThreadsUnavailable` where that cannot be known, `Overloaded` where too many are being asked for.
        """
        ...
