"""The wire: one JSON object per frame, as POST /chat streams them. Published in the OpenAPI schema."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from service.model import CitationStatus, Delivery, Gate, Label, Result, Status, WebStatus, well_formed

ModelText = Annotated[str, BeforeValidator(well_formed)]
"""Text that a model wrote, which may hold anything that JSON escapes can name."""


class Frame(BaseModel):
    """What every frame carries. `seq` counts from 1 within the run; `attempt` is 1 + rewrites + regens."""

    v: Literal[1] = 1
    type: str
    run_id: str
    seq: int
    attempt: int


class SkillRef(BaseModel):
    name: str
    sha256: str


class RunFrame(Frame):
    """First and once, before any slow work."""

    type: Literal["run"] = "run"
    thread_id: str
    model: str
    reranker: str
    skill: SkillRef | None = None
    web_search: bool
    delivery: Delivery
    warnings: list[str] = []


class StageFrame(Frame):
    """A node began or ended: counts and reason codes, never a model's text."""

    type: Literal["stage"] = "stage"
    node: str
    state: Literal["start", "end"]
    ms: float | None = None
    n_in: int | None = None
    n_out: int | None = None
    reason: str = ""


class SourceItem(BaseModel):
    """A numbered source. `n` never changes meaning in a thread; `quote` is verbatim; `link` opens the page there."""

    n: int
    passage_id: str
    label: Label
    title: str
    url: str
    link: str
    quote: str
    section: str
    page: int | None
    fetched_at: str
    sha256: str
    score: float


class WebItem(BaseModel):
    query: ModelText
    status: WebStatus


class SourcesFrame(Frame):
    """Sources that this run had not shown before; always precedes the first token."""

    type: Literal["sources"] = "sources"
    items: list[SourceItem]
    web: WebItem
    warnings: list[str]


class TokenFrame(Frame):
    """A piece of the answer; a marker `[[n]]` is never split over two."""

    type: Literal["token"] = "token"
    text: ModelText


class ResetFrame(Frame):
    """The text since the last reset is withdrawn."""

    type: Literal["reset"] = "reset"
    reason: str


class VerdictItem(BaseModel):
    gate: Gate
    result: Result
    reason: str


class VerdictFrame(Frame, VerdictItem):
    type: Literal["verdict"] = "verdict"


class CitationItem(BaseModel):
    """`support` is 0..1; `verified` means that what the sentence quotes stands verbatim in source n.

    A term of one or two words in a sentence of the writer's own is no such quote: the support decides on the sentence.
    """

    n: int
    quote: str
    link: str
    support: float
    status: CitationStatus


class ConsultedItem(BaseModel):
    passage_id: str
    title: str
    label: Label
    grade: Result


class UsageItem(BaseModel):
    model_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class Answer(BaseModel):
    """A finished answer: what `done` carries, and what `GET /threads/{id}` gives again."""

    run_id: str
    status: Status
    answer: ModelText
    html: str
    warning: str
    citations: list[CitationItem]
    consulted: list[ConsultedItem]
    verdicts: list[VerdictItem]
    rewrites: int
    regens: int
    usage: UsageItem
    timings: dict[str, float]


class DoneFrame(Frame, Answer):
    """The answer with all that it needs to be read alone: its thread, and every source that the run has shown."""

    type: Literal["done"] = "done"
    thread_id: str
    sources: list[SourceItem]


class ErrorFrame(Frame):
    type: Literal["error"] = "error"
    code: str
    message: str
    retryable: bool


WireFrame = Annotated[
    RunFrame | StageFrame | SourcesFrame | TokenFrame | ResetFrame | VerdictFrame | DoneFrame | ErrorFrame,
    Field(discriminator="type"),
]
