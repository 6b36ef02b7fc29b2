"""Every fork of the graph, as pure functions of the state, and the bounds that follow from them.

Each router that may begin another pass reads the counters first (invariant 4). LangGraph draws an edge for each
literal of a return type.
"""

from typing import Literal

from service.graph.state import Limits, State
from service.model import Delivery


def after_grading(state: State, limits: Limits) -> Literal["assemble_sources", "rewrite_query", "give_up"]:
    rewrites_left = limits.max_rewrites - state["rewrites"]
    if state["kept"]:
        return "assemble_sources"
    return "rewrite_query" if rewrites_left > 0 else "give_up"


def after_generate(state: State) -> Literal["reflect", "give_up"]:
    return "give_up" if state["abstained"] else "reflect"


def after_reflect(
    state: State, limits: Limits, delivery: Delivery
) -> Literal["finalize", "prepare_regen", "rewrite_query", "give_up"]:
    """Not grounded loops first, a judge's error never loops, off topic loops last; then the caps' rule decides.

    Neither does a draft that was cut short: its gates are skipped.
    """
    regens_left = limits.max_regen - state["regens"]
    rewrites_left = limits.max_rewrites - state["rewrites"]
    grounded, answers = state["grounded"].result, state["answers"].result
    if grounded == "pass" and answers == "pass":
        return "finalize"
    if grounded == "fail" and regens_left > 0:
        return "prepare_regen"
    if grounded == "pass" and answers == "fail" and rewrites_left > 0:
        return "rewrite_query"
    return "give_up" if refuses_when_exhausted(state, limits, delivery) else "finalize"


def refuses_when_exhausted(state: State, limits: Limits, delivery: Delivery) -> bool:
    """A draft that did not pass is refused when a marker does not resolve, or the operator or the reader says so."""
    return bool(state["unresolved"]) or delivery == "verified" or limits.on_ungrounded == "refuse"


def max_model_calls(limits: Limits, web_search: bool = False) -> int:
    """Upper bound on the logical model calls of one run.

    One condense; per retrieval pass the grades (one call per passage, or one in batch mode), and with the web one call
    for its query and the grades of its strips; per rewrite one call; per draft one answer and two judgements.
    """
    passes = 1 + limits.max_rewrites
    strips = limits.web_strips if web_search else 0
    grades = 1 if limits.grade_mode == "batch" else limits.top_n + strips
    per_pass = grades + (1 if web_search else 0)
    drafts = 1 + limits.max_rewrites + limits.max_regen
    return 1 + passes * per_pass + limits.max_rewrites + drafts * 3


def recursion_limit(limits: Limits) -> int:
    """The longest way through the graph in supersteps, and one more in which LangGraph sees that nothing is left.

    It is LangGraph's last fence, and never relied on.

    contextualize; per pass retrieve, {rerank, web}, grade, assemble, generate, reflect; per rewrite rewrite_query; per
    regeneration prepare_regen, generate, reflect; give_up; finalize.
    """
    passes = 1 + limits.max_rewrites
    return 1 + passes * 6 + limits.max_rewrites + limits.max_regen * 3 + 2 + 1
