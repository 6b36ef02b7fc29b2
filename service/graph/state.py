"""The state that the twelve nodes share, and the bundle of dependencies each of them is handed.

Only `turns` and `registry` outlive a run: they are primitives, and the checkpointer stores them. Everything else is
untracked: it belongs to one run and is never written to disk.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypedDict

from langgraph.channels import UntrackedValue

from service.graph.trail import Trail
from service.graph.transcript import Transcript
from service.knowledge.snapshots import Snapshots
from service.model import Candidate, Delivery, Grade, OnUngrounded, Scope, Source, StoredSource, Turn, Verdict
from service.ports import AnswerModel, KnowledgeBase, Reranker, WebFindings, WebSearch
from service.skills.skill import NO_SKILL, Gates, Skill
from service.usage import Usage

logger = logging.getLogger(__name__)


class State(TypedDict, total=False):
    # Stored with the thread
    turns: list[Turn]  # finalize
    registry: list[StoredSource]  # assemble_sources; n never changes meaning

    # The request (the input)
    question: Annotated[str, UntrackedValue]
    web_search: Annotated[bool, UntrackedValue]

    # contextualize
    standalone: Annotated[str, UntrackedValue]
    query: Annotated[str, UntrackedValue]  # and rewrite_query
    rewrites: Annotated[int, UntrackedValue]  # and rewrite_query
    regens: Annotated[int, UntrackedValue]  # and prepare_regen

    candidates: Annotated[list[Candidate], UntrackedValue]  # retrieve_vector
    ranked: Annotated[list[Candidate], UntrackedValue]  # rerank_vector
    web: Annotated[WebFindings, UntrackedValue]  # search_web
    grades: Annotated[dict[str, Grade], UntrackedValue]  # grade_documents, by passage_id, over all passes
    kept: Annotated[list[Candidate], UntrackedValue]  # grade_documents
    seen: Annotated[dict[str, Candidate], UntrackedValue]  # grade_documents: all that were graded, by passage_id
    sources: Annotated[list[Source], UntrackedValue]  # assemble_sources

    draft: Annotated[str, UntrackedValue]  # generate, give_up
    pieces: Annotated[list[str], UntrackedValue]  # generate: the draft as it may be streamed
    unresolved: Annotated[list[str], UntrackedValue]  # generate: markers that are no source of this run
    abstained: Annotated[bool, UntrackedValue]  # generate
    cut: Annotated[str, UntrackedValue]  # generate: the stop reason when the model stopped early, else ""
    grounded: Annotated[Verdict, UntrackedValue]  # reflect
    answers: Annotated[Verdict, UntrackedValue]  # reflect
    feedback: Annotated[str, UntrackedValue]  # prepare_regen; cleared by rewrite_query
    refused: Annotated[bool, UntrackedValue]  # give_up


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that shape a run. Counts are passages, calls or passes; `retrieve_k` >= `top_n` is not required."""

    retrieve_k: int = 40
    top_n: int = 6
    grade_mode: Literal["each", "batch"] = "each"
    grade_concurrency: int = 6
    web_strips: int = 4
    max_rewrites: int = 1
    max_regen: int = 1
    on_ungrounded: OnUngrounded = "warn"
    supported_at: float = 0.5
    handoff_text: str = ""

    def within(self, gates: Gates) -> "Limits":
        """These limits under a skill: it chooses `top_n`, and of two caps or rules the stricter holds."""
        return replace(
            self,
            top_n=gates.top_n or self.top_n,
            max_rewrites=stricter(self.max_rewrites, gates.max_rewrites),
            max_regen=stricter(self.max_regen, gates.max_regen),
            on_ungrounded="refuse" if "refuse" in (self.on_ungrounded, gates.on_ungrounded) else "warn",
        )


def stricter(operators: int, skills: int | None) -> int:
    return operators if skills is None else min(operators, skills)


@dataclass(frozen=True, slots=True)
class Services:
    """What is opened once and shared by all runs."""

    knowledge: KnowledgeBase
    reranker: Reranker
    support: Reranker
    web: WebSearch
    snapshots: Snapshots
    limits: Limits


@dataclass(slots=True)
class Deps:
    """All that a step may use: the shared services, and this run's own model, skill, usage, transcript and trail."""

    services: Services
    model: AnswerModel
    transcript: Transcript
    run_id: str
    asked_at: str
    delivery: Delivery = "draft"
    skill: Skill = NO_SKILL
    usage: Usage = field(default_factory=Usage)
    trail: Trail = field(default_factory=Trail)

    @property
    def limits(self) -> Limits:
        return self.services.limits.within(self.skill.gates)

    @property
    def scope(self) -> Scope:
        return self.skill.scope

    def sending_to_web(self, query: str) -> None:
        """Note the exact text before it leaves for the web, so that the record holds it however the run ends."""
        self.transcript.asked_web(query)
        self.trail.sent_to_web(query)

    def readable(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that the skill may read. What it may not is a fault of whoever brought it, and goes no further."""
        kept = [candidate for candidate in candidates if self.skill.may_read(candidate.passage)]
        if outside := len(candidates) - len(kept):
            logger.warning("out of scope run_id=%s skill=%s passages=%d", self.run_id, self.skill.name, outside)
        return kept


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step hands back: its update of the state, and what its `stage` event may say."""

    update: State
    n_in: int | None = None
    n_out: int | None = None
    reason: str = ""


def request_state(question: str, web_search: bool) -> State:
    return {"question": question, "web_search": web_search}


def as_state(values: Mapping[str, Any]) -> State:
    """Read a state from LangGraph's snapshot values, with the stored parts always there."""
    return {"turns": list(values.get("turns", [])), "registry": list(values.get("registry", []))}
