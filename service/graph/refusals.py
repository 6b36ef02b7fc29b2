"""Why a run shows no answer, and what its reader is told of it: only what is known (invariants 6 and 8).

A refusal says what the knowledge base lacks, or that the drafts did not pass. Where a model's fault kept the run from
knowing either, it ends in that fault: the answer may well be there, and asking again may find it.
"""

from collections.abc import Sequence

from service.errors import DependencyError, ModelUnavailable, ModelUnusable
from service.graph.nodes.judge import documents_verdict
from service.graph.state import State
from service.model import Grade, Verdict, is_down

LACKING = "The knowledge base does not hold enough to answer this reliably."
FAILED = "No answer that was written passed its checks, so none is shown."

LACKS = frozenset({"no_candidates", "nothing_relevant", "abstained"})
"""The reasons that speak of the knowledge base. All others that refuse speak of a draft."""

UNKNOWN = {
    "not_all_assessed": "Some of the passages could not be graded, and no other is relevant. Please try again.",
    "not_assessed": "The answer could not be checked, so it is not shown. Please try again.",
    "cut_short": "The answer was cut short before it was complete, so it is not shown. Please try again.",
}
"""The reasons that leave open whether there is an answer."""


def refusal_reason(state: State) -> str:
    """Which fork led here: nothing survived the grading, the writer abstained, or the draft may not be shown."""
    if not state["kept"]:
        return documents_verdict(list(state["grades"].values()), state["kept"]).reason
    if state["abstained"]:
        return "abstained"
    grounded, answers = state["grounded"], state["answers"]
    return grounded.reason if grounded.result != "pass" else answers.reason


def refusal_text(reason: str) -> str:
    return LACKING if reason in LACKS else FAILED


def fault_behind(state: State, reason: str) -> DependencyError | None:
    """The model's fault that the run ends in, or None where its reason is known and can be told."""
    if reason not in UNKNOWN:
        return None
    of_grades = reason == "not_all_assessed"
    said: Sequence[Grade | Verdict] = (
        list(state["grades"].values()) if of_grades else [state["grounded"], state["answers"]]
    )
    faults = [one for one in said if one.result == "error"]
    return (ModelUnavailable if is_down(faults) else ModelUnusable)(UNKNOWN[reason])
