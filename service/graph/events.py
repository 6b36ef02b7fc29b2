"""What happens in a run, in the order in which it is told. `api/events.py` gives these their wire form."""

from dataclasses import dataclass, field
from typing import Literal

from service.model import Delivery, Gate, Result, StoredSource, Turn, WebStatus
from service.skills.skill import NO_SKILL, Skill


@dataclass(frozen=True, slots=True)
class Started:
    """First and once, before any slow work."""

    thread_id: str
    model: str
    reranker: str
    web_search: bool
    delivery: Delivery
    warnings: tuple[str, ...] = ()
    skill: Skill = NO_SKILL


@dataclass(frozen=True, slots=True)
class Stage:
    """A node began or ended. Counts and reason codes only, never a model's text."""

    node: str
    state: Literal["start", "end"]
    ms: float | None = None
    n_in: int | None = None
    n_out: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WebReport:
    query: str = ""
    status: WebStatus = "off"


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources that this run has not shown yet."""

    items: tuple[StoredSource, ...] = ()
    web: WebReport = field(default_factory=WebReport)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    text: str


@dataclass(frozen=True, slots=True)
class Reset:
    """The text since the last reset is withdrawn."""

    reason: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    gate: Gate
    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    thread_id: str
    turn: Turn
    sources: tuple[StoredSource, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """`status` is the HTTP status where the reader asked for JSON instead of a stream."""

    code: str
    message: str
    retryable: bool
    status: int = 500


Event = Started | Stage | Sources | Token | Reset | GateVerdict | Done | Failed
Terminal = Done | Failed


@dataclass(frozen=True, slots=True)
class Told:
    """An event with its place in the run: `seq` counts from 1, `attempt` is 1 + rewrites + regens."""

    seq: int
    attempt: int
    event: Event
