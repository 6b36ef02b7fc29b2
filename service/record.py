"""What the audit log holds, as primitives: one record for each run, and what was said or erased afterwards.

Records are written once and read for years: a key is added, never renamed, and never given another meaning.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from service.model import CitationStatus, Delivery, Gate, Kind, Label, OnUngrounded, Result, StoredSource, WebStatus

RecordKind = Literal["run", "feedback", "score", "erasure", "repair"]
Outcome = Literal["answered", "partial", "refused", "cancelled", "deadline", "error"]
StoppedBy = Literal["", "person", "reader_left", "deadline", "shutdown"]
Thumbs = Literal["up", "down"]


class SkillRecord(TypedDict):
    name: str
    sha256: str


class FilterRecord(TypedDict):
    """What the run might read. None is everything, an empty list is nothing; `web` False forbade the web altogether."""

    sources: list[str] | None
    kinds: list[str] | None
    web: bool
    domains: list[str] | None


class CapsRecord(TypedDict):
    """The limits that held for this run: the operator's, or a skill's where they are stricter."""

    top_n: int
    max_rewrites: int
    max_regen: int
    on_ungrounded: OnUngrounded


class CandidateRecord(TypedDict):
    """A passage that came back: `found` is the search's fused score, `reranked` the reranker's (None: not asked)."""

    passage_id: str
    sha256: str
    title: str
    section: str
    kind: Kind
    found: float
    reranked: float | None


class GradeRecord(TypedDict):
    """Gate 1 on a passage, with the judge's own words."""

    passage_id: str
    sha256: str
    title: str
    section: str
    label: Label
    score: float
    result: Result
    words: str


class WebRecord(TypedDict):
    """`asked` is what the run wanted to know, `query` the exact text that left, "" where none did.

    `unfinished`: stopped before the answer was known.
    """

    asked: str
    query: str
    status: WebStatus | Literal["unfinished"]
    warning: str
    strips: list[CandidateRecord]


class PassRecord(TypedDict):
    """One retrieval with what was judged of it. `kept` are the passage_ids that survived the grading."""

    attempt: int
    query: str
    candidates: list[CandidateRecord]
    web: WebRecord | None
    grades: list[GradeRecord]
    kept: list[str]


class ForkRecord(TypedDict):
    """Which way the run went after a step, the step's reason code, and how much of the caps was used by then."""

    attempt: int
    after: str
    to: str
    reason: str
    rewrites: int
    regens: int


class DraftRecord(TypedDict):
    """A draft as the writer ended it. `cut` is the stop reason where the model stopped early, else ""."""

    attempt: int
    text: str
    unresolved: list[str]
    abstained: bool
    cut: str


class VerdictRecord(TypedDict):
    attempt: int
    gate: Gate
    result: Result
    reason: str
    words: str


class CitationRecord(TypedDict):
    n: int
    quote: str
    support: float
    status: CitationStatus


class StepRecord(TypedDict):
    """A node as it ran: when it began, how long it took (None: the run ended before it), and what its stage told."""

    node: str
    attempt: int
    began_at: str
    ms: float | None
    n_in: int | None
    n_out: int | None
    reason: str


class CallRecord(TypedDict):
    """A request to a model that was answered, in whole or in part. `stop_reason` is "" where it was left early."""

    name: str
    model: str
    prompt_sha256: str
    began_at: str
    ms: float
    input_tokens: int
    output_tokens: int
    cost_usd: float
    stop_reason: str


class EndingRecord(TypedDict):
    """How the run ended. `code` and `message` are those of the `error` event, "" where there was an answer."""

    outcome: Outcome
    code: str
    message: str
    stopped_by: StoppedBy


class InstallationRecord(TypedDict):
    """What answered: the version, the weights by checksum, and the settings that shape a run."""

    version: str
    embedder: str
    reranker: str
    reranker_sha256: str
    scorer: str
    scorer_sha256: str
    settings: dict[str, Any]


class RunRecord(TypedDict):
    """Everything from which a reader who was not there can rebuild the answer.

    Times are ISO 8601, UTC. `complete` is False where `answer` is only what had been shown when the run ended.
    `sources` are those shown, with the thread's numbers; `registered_before` is how many the thread had before.
    `sent_to_web` is every text that left for a search engine, in order. `delivery` is the one that held. `warnings`
    are what the reader was told on the way, `warning` is the answer's own.
    """

    run_id: str
    client: str
    thread_id: str
    thread_key: str
    asked_at: str
    ended_at: str
    ending: EndingRecord
    question: str
    standalone: str
    web_search: bool
    delivery: Delivery
    skill: SkillRecord | None
    filter: FilterRecord
    caps: CapsRecord
    sent_to_web: list[str]
    passes: list[PassRecord]
    forks: list[ForkRecord]
    registered_before: int
    sources: list[StoredSource]
    drafts: list[DraftRecord]
    answer: str
    complete: bool
    warning: str
    warnings: list[str]
    citations: list[CitationRecord]
    verdicts: list[VerdictRecord]
    model: str
    installation: InstallationRecord
    prompts: dict[str, str]
    usage: dict[str, Any]
    timings: dict[str, float]
    steps: list[StepRecord]
    calls: list[CallRecord]


class FeedbackRecord(TypedDict):
    run_id: str
    client: str
    thread_id: str
    thread_key: str
    thumbs: Thumbs
    comment: str


class ScoreItem(TypedDict):
    """One score, 0..1, higher is better. `detail` is what was counted, `words` are the judge's."""

    name: str
    value: float
    detail: str
    words: str


class MissingScore(TypedDict):
    """A score that could not be had. `code`: timeout, unavailable, unusable, nothing_cited or broken."""

    name: str
    code: str


class ScoreRecord(TypedDict):
    """What a judge made of a run's answer, after its reader had it. `masked`: the judge read it without private parts.

    `judge` names the model, the library with its version, and the SHA-256 of our own prompt.
    """

    run_id: str
    client: str
    thread_id: str
    thread_key: str
    judge: dict[str, str]
    masked: bool
    scores: list[ScoreItem]
    missing: list[MissingScore]
    usage: dict[str, Any]
    ms: float


class ErasureRecord(TypedDict):
    """A conversation was erased on its client's word. The records of its runs stay."""

    client: str
    thread_id: str
    thread_key: str
    skill: str
    runs_kept: int


class RepairRecord(TypedDict):
    """The log was mended. `file` holds the bytes that were taken out of it, whose SHA-256 is `sha256`."""

    what: str
    segment: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it stands in the log: its place in the chain and its body. `at` is when it was written."""

    seq: int
    at: str
    kind: RecordKind
    hash: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's record, and the feedback and the scores that came after it, oldest first."""

    run: StoredRecord
    feedback: list[StoredRecord] = field(default_factory=list)
    scores: list[StoredRecord] = field(default_factory=list)
