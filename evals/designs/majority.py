"""Design 3, corrective by majority: generate only if more than half of what was retrieved is relevant, else the web.

    retrieve, grade (one call per passage) -> generate
                                           -> rewrite, search, generate

Up to `k` passages with a cosine of at least 0.35, graded one by one. Otherwise a rewrite, and up to six whole pages are
added, ungraded, beside what passed. It runs once: nothing checks the answer.

Model calls, with k = 5: 6, or 7 and a search. With k = 3: 4, or 5 and a search. With k = 1: 2, or 3 and a search.

Quirks: of five passages two relevant ones are outvoted by three that are not (`majority`: the diluted majority; without
it, one is enough), so that a larger k finds more and passes less; with k = 1 a single yes passes on thin evidence; a
question that no public page can answer, a client's, is sent to the web all the same (the wrong fix); pages are neither
graded (`ungraded_web`) nor cut (`whole_pages`: they flood the context).
"""

from collections.abc import Awaitable
from typing import Literal, Protocol

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State

K, FLOOR = 5, 0.35


class Node(Protocol):
    def __call__(self, state: State, *, runtime: Runtime[Desk]) -> Awaitable[State]: ...


def build(k: int = K) -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("retrieve", retrieving(k))
    graph.add_node("grade", grade)
    graph.add_node("rewrite", rewrite)
    graph.add_node("search", search)
    graph.add_node("generate", generate)

    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", after_grade)
    graph.add_edge("rewrite", "search")
    graph.add_edge("search", "generate")
    graph.add_edge("generate", END)
    return graph.compile()


def retrieving(k: int) -> Node:
    async def retrieve(state: State, *, runtime: Runtime[Desk]) -> State:
        return {"found": await runtime.context.shelf.by_cosine(state["question"], k, FLOOR), "pages": []}

    return retrieve


async def grade(state: State, runtime: Runtime[Desk]) -> State:
    return {"kept": await runtime.context.grade_each(state["question"], state["found"])}


def after_grade(state: State, runtime: Runtime[Desk]) -> Literal["generate", "rewrite"]:
    needed = len(state["found"]) // 2 + 1 if runtime.context.quirks.majority else 1
    return "generate" if len(state["kept"]) >= needed else "rewrite"


async def rewrite(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    return {"query": await desk.model.web_query(state["question"], "", desk.usage)}


async def search(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    pages = await desk.search_web(state["question"], state["query"])
    return {"pages": pages if desk.quirks.ungraded_web else await desk.grade_each(state["question"], pages)}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    return {"draft": await runtime.context.write(state["question"], [*state["kept"], *state["pages"]])}
