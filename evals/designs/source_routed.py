"""Design 1, source-routed adaptive: a model routes each question to the store or to the web by a list of topics.

    route -> store: rewrite_for_store, retrieve, grade (5 calls), generate, check
    route -> web:   rewrite_for_web, search, generate, check

Up to 5 passages with a cosine of at least 0.35, graded one by one. Where half of them or fewer pass, the web is added:
up to six pages, beside what was kept. The check is asked whether the answer is hallucinated, so its "yes" is bad, and
the draft goes back to the writer with that as feedback.

Model calls: 9 on the store path, 10 and a search on the detour, 4 from the web, 2 more per regeneration.

Quirks: the topic list is older than the store (`stale_topics`); regeneration has no counter (`unbounded`; with one, it
ends after two in the best answer with a warning); the check's "yes" is easily read as praise (`misread`); exactly half
counts as failure; pages are not cut to what matters (`whole_pages`); and nobody asked for any of the searches.
"""

from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State
from evals.designs.port import Fork

K, FLOOR = 5, 0.35
MAX_REGENERATIONS = 2
FEEDBACK = "The draft states what its sources do not say."


def build() -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("route", route)
    graph.add_node("rewrite_for_store", rewrite_for_store)
    graph.add_node("retrieve", retrieve)
    graph.add_node("grade", grade)
    graph.add_node("rewrite_for_web", rewrite_for_web)
    graph.add_node("search", search)
    graph.add_node("generate", generate)
    graph.add_node("check", check)
    graph.add_node("warn", warn)

    graph.add_edge(START, "route")
    graph.add_conditional_edges("route", after_route)
    graph.add_edge("rewrite_for_store", "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", after_grade)
    graph.add_edge("rewrite_for_web", "search")
    graph.add_edge("search", "generate")
    graph.add_edge("generate", "check")
    graph.add_conditional_edges("check", after_check, {"generate": "generate", "warn": "warn", "end": END})
    graph.add_edge("warn", END)
    return graph.compile()


async def route(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    fork = Fork(desk.topics, ("store", "web"), doubt="web")
    way = await desk.model.route(state["question"], fork, desk.usage)
    return {"way": way, "kept": [], "found": [], "pages": [], "drafts": 0, "feedback": ""}


def after_route(state: State) -> Literal["rewrite_for_store", "rewrite_for_web"]:
    return "rewrite_for_web" if state["way"] == "web" else "rewrite_for_store"


async def rewrite_for_store(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    return {"query": await desk.model.rewrite(state["question"], state["question"], [], desk.usage)}


async def retrieve(state: State, runtime: Runtime[Desk]) -> State:
    return {"found": await runtime.context.shelf.by_cosine(state["query"], K, FLOOR)}


async def grade(state: State, runtime: Runtime[Desk]) -> State:
    return {"kept": await runtime.context.grade_each(state["question"], state["found"])}


def after_grade(state: State) -> Literal["generate", "rewrite_for_web"]:
    """More than half must pass: exactly half is a failure."""
    return "generate" if 2 * len(state["kept"]) > len(state["found"]) else "rewrite_for_web"


async def rewrite_for_web(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    return {"query": await desk.model.web_query(state["question"], "", desk.usage)}


async def search(state: State, runtime: Runtime[Desk]) -> State:
    return {"pages": await runtime.context.search_web(state["question"], state["query"])}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    draft = await runtime.context.write(state["question"], [*state["kept"], *state["pages"]], state["feedback"])
    return {"draft": draft, "drafts": state["drafts"] + 1}


async def check(state: State, runtime: Runtime[Desk]) -> State:
    said = await runtime.context.hallucinated(state["draft"], [*state["kept"], *state["pages"]])
    return {"bad": said, "feedback": FEEDBACK if said else ""}


def after_check(state: State, runtime: Runtime[Desk]) -> Literal["generate", "warn", "end"]:
    if not state["bad"]:
        return "end"
    used_up = state["drafts"] > MAX_REGENERATIONS and not runtime.context.quirks.unbounded
    return "warn" if used_up else "generate"


async def warn(state: State) -> State:  # noqa: ARG001 - a node's signature
    return {"status": "partial"}
