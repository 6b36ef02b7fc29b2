"""What a run did, step by step, for its record: passes, grades, forks and drafts. Nothing of it reaches the wire.

Kept as it happens, so that a run that is stopped, or breaks, leaves the record of what it had done by then.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from service.model import Candidate, Grade, StoredSource
from service.ports import WebFindings
from service.record import (
    CandidateRecord,
    DraftRecord,
    ForkRecord,
    GradeRecord,
    PassRecord,
    WebRecord,
)

if TYPE_CHECKING:
    from service.graph.state import State  # which names the trail among a step's dependencies

To = TypeVar("To", bound=str)


class Trail:
    """Told by the nodes' wrapper of every step, by the routers of every fork."""

    def __init__(self) -> None:
        self.standalone = ""
        self.registered_before = 0
        self.passes: list[PassRecord] = []
        self.forks: list[ForkRecord] = []
        self.drafts: list[DraftRecord] = []
        self._reasons: dict[str, str] = {}

    def began(self, node: str, state: "State", attempt: int) -> None:
        """A step begins: what it is about to ask is noted first, since it may never come back."""
        if node == "contextualize":
            self.registered_before = len(state.get("registry", []))
        elif node == "retrieve_vector":
            self.passes.append(new_pass(attempt, state["query"]))
        elif node == "search_web" and state["web_search"] is True:
            self.passes[-1]["web"] = web_record(state["standalone"], None)

    def ended(self, node: str, update: "State", reason: str, attempt: int) -> None:
        self._reasons[node] = reason
        if node == "contextualize":
            self.standalone = update["standalone"]
        elif node == "retrieve_vector":
            self.passes[-1]["candidates"] = [candidate_record(c) for c in update["candidates"]]
        elif node == "search_web" and self.passes[-1]["web"] is not None:
            self.passes[-1]["web"] = web_record(self.passes[-1]["web"]["asked"], update["web"])
        elif node == "grade_documents":
            self.passes[-1]["kept"] = [c.passage.passage_id for c in update["kept"]]
        elif node == "generate":
            self.drafts.append(draft_record(update, attempt))

    def sent_to_web(self, query: str) -> None:
        """The exact text is noted before it leaves: what comes of it may never be known."""
        if self.passes and self.passes[-1]["web"] is not None:
            self.passes[-1]["web"]["query"] = query

    def reranked(self, scored: Sequence[Candidate]) -> None:
        """Every candidate's score, also of those that were not kept."""
        score_of = {(c.passage.passage_id, c.passage.sha256): c.score for c in scored}
        for candidate in self.passes[-1]["candidates"]:
            candidate["reranked"] = score_of.get((candidate["passage_id"], candidate["sha256"]))

    def graded(self, found: Sequence[Candidate], grades: Mapping[str, Grade]) -> None:
        """The grades of this pass, an `error` included. A passage graded in an earlier pass kept its grade."""
        self.passes[-1]["grades"] = [grade_record(c, grades[c.passage.passage_id]) for c in found]

    def forked(self, after: str, to: To, state: "State", attempt: int) -> To:
        """Note which way the run goes, and go it."""
        self.forks.append(
            {
                "attempt": attempt,
                "after": after,
                "to": to,
                "reason": self._reasons.get(after, ""),
                "rewrites": state["rewrites"],
                "regens": state["regens"],
            }
        )
        return to


def new_pass(attempt: int, query: str) -> PassRecord:
    return {"attempt": attempt, "query": query, "candidates": [], "web": None, "grades": [], "kept": []}


def candidate_record(candidate: Candidate) -> CandidateRecord:
    passage = candidate.passage
    return {
        "passage_id": passage.passage_id,
        "sha256": passage.sha256,
        "title": passage.title,
        "section": passage.section,
        "kind": passage.kind,
        "found": candidate.score,
        "reranked": None,
    }


def web_record(asked: str, findings: WebFindings | None) -> WebRecord:
    """`findings` is None before they are known."""
    if findings is None:
        return {"asked": asked, "query": "", "status": "unfinished", "warning": "", "strips": []}
    strips = [candidate_record(strip) for strip in findings.strips]
    for strip in strips:
        strip["reranked"] = strip["found"]
    return {
        "asked": asked,
        "query": findings.query,
        "status": findings.status,
        "warning": findings.warning,
        "strips": strips,
    }


def grade_record(candidate: Candidate, grade: Grade) -> GradeRecord:
    passage = candidate.passage
    return {
        "passage_id": passage.passage_id,
        "sha256": passage.sha256,
        "title": passage.title,
        "section": passage.section,
        "label": passage.label,
        "score": candidate.score,
        "result": grade.result,
        "words": grade.words,
    }


def draft_record(update: "State", attempt: int) -> DraftRecord:
    return {
        "attempt": attempt,
        "text": update["draft"],
        "unresolved": update["unresolved"],
        "abstained": update["abstained"],
        "cut": update["cut"],
    }


def by_number(named: Mapping[int, StoredSource]) -> list[StoredSource]:
    return [named[n] for n in sorted(named)]
