"""The map: twelve nodes and every edge. `gatehouse graph` prints the drawing of what is compiled here."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from service.graph import routing
from service.graph.nodes import gather, judge, speak, understand
from service.graph.state import Deps, Outcome, State

logger = logging.getLogger(__name__)

To = TypeVar("To", bound=str)
Step = Callable[[State, Deps], Awaitable[Outcome]]


class Node(Protocol):
    """What LangGraph calls: it hands the runtime over by name."""

    def __call__(self, state: State, *, runtime: Runtime[Deps]) -> Awaitable[State]: ...


Graph = CompiledStateGraph[State, Deps, State, State]


def build_graph(checkpointer: BaseCheckpointSaver[Any] | None = None) -> Graph:
    graph = StateGraph(State, context_schema=Deps)
    graph.add_node("contextualize", told(understand.contextualize))
    graph.add_node("retrieve_vector", told(gather.retrieve_vector))
    graph.add_node("rerank_vector", told(gather.rerank_vector))
    graph.add_node("search_web", told(gather.search_web))
    graph.add_node("grade_documents", told(judge.grade_documents))
    graph.add_node("rewrite_query", told(understand.rewrite_query))
    graph.add_node("give_up", told(speak.give_up))
    graph.add_node("assemble_sources", told(gather.assemble_sources))
    graph.add_node("generate", told(speak.generate))
    graph.add_node("reflect", told(judge.reflect))
    graph.add_node("prepare_regen", told(speak.prepare_regen))
    graph.add_node("finalize", told(speak.finalize))

    graph.add_edge(START, "contextualize")
    graph.add_edge("contextualize", "retrieve_vector")
    graph.add_edge("retrieve_vector", "rerank_vector")
    graph.add_edge("retrieve_vector", "search_web")
    graph.add_edge("rerank_vector", "grade_documents")
    graph.add_edge("search_web", "grade_documents")
    graph.add_conditional_edges("grade_documents", after_grading)
    graph.add_edge("rewrite_query", "retrieve_vector")
    graph.add_edge("assemble_sources", "generate")
    graph.add_conditional_edges("generate", after_generate)
    graph.add_conditional_edges("reflect", after_reflect)
    graph.add_edge("prepare_regen", "generate")
    graph.add_edge("give_up", "finalize")
    graph.add_edge("finalize", END)
    return graph.compile(checkpointer=checkpointer)


def after_grading(state: State, runtime: Runtime[Deps]) -> Literal["assemble_sources", "rewrite_query", "give_up"]:
    deps = runtime.context
    return forked("grade_documents", routing.after_grading(state, deps.limits), state, deps)


def after_generate(state: State, runtime: Runtime[Deps]) -> Literal["reflect", "give_up"]:
    return forked("generate", routing.after_generate(state), state, runtime.context)


def after_reflect(
    state: State, runtime: Runtime[Deps]
) -> Literal["finalize", "prepare_regen", "rewrite_query", "give_up"]:
    deps = runtime.context
    return forked("reflect", routing.after_reflect(state, deps.limits, deps.delivery), state, deps)


def forked(after: str, to: To, state: State, deps: Deps) -> To:
    return deps.trail.forked(after, to, state, deps.transcript.attempt)


def told(step: Step) -> Node:
    """Wrap a step as a node that tells the transcript and the trail when it begins and ends, and logs its time."""
    name = step.__name__

    async def node(state: State, *, runtime: Runtime[Deps]) -> State:
        deps = runtime.context
        if "rewrites" in state:
            deps.transcript.attempt = 1 + state["rewrites"] + state["regens"]
        deps.trail.began(name, state, deps.transcript.attempt)
        deps.transcript.stage_began(name)
        began = time.perf_counter()
        reason = "unfinished"
        try:
            outcome = await step(state, deps)
            reason = outcome.reason
        finally:
            elapsed_ms = (time.perf_counter() - began) * 1000
            logger.info("node run_id=%s node=%s elapsed_ms=%.1f reason=%s", deps.run_id, name, elapsed_ms, reason)
        deps.trail.ended(name, outcome.update, reason, deps.transcript.attempt)
        deps.transcript.stage_ended(name, elapsed_ms, outcome.n_in, outcome.n_out, reason)
        return outcome.update

    node.__name__ = name
    return node


def mermaid() -> str:
    """The drawing of the compiled graph, as the README shows it."""
    return build_graph().get_graph().draw_mermaid(with_styles=False)
