"""Design 2, three-way adaptive: the store, the web, or a direct answer from the model's own knowledge.

    route -> store:  retrieve, grade (5 calls), generate, check_grounded, check_useful
    route -> web:    search, generate, check_grounded, check_useful
    route -> direct: answer_directly

An unknown route falls back to the store. The web is searched only where no passage survives the grading, and is added
where an answer is not useful. A draft that is not grounded is written again. Three generations in all.

Model calls: 9 on the store path, 4 from the web, 2 for a direct answer, 2 or 3 more per further generation.

Quirks: the topic list is older than the store (`stale_topics`); the question goes to the web as it was typed, names and
all; a direct answer rests on nothing and is not checked; after the third generation the draft is shown as an answer,
whatever the checks said (`silent`; without it, with a warning); pages are not cut (`whole_pages`).
"""

from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State
from evals.designs.port import Fork

K = 5
MAX_GENERATIONS = 3
WAYS = ("store", "web", "direct")

ROUTER_TEST_SET = (
    ("What own funds must a category B firm hold?", "store"),  # on a listed topic
    ("What did the papers say about the harbour strike this morning?", "web"),  # current events
    ("Hello, how are you?", "direct"),  # small talk
    ("Who was the first person to sail round the world alone?", "web"),  # general knowledge: in doubt, looked up
    ("asdf qwer", "store"),  # no question at all: whatever the model writes, an unknown route is the store
)
"""The published test of the router: a question of each of five kinds, and where it should go."""


def build() -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("route", route)
    graph.add_node("retrieve", retrieve)
    graph.add_node("grade", grade)
    graph.add_node("search", search)
    graph.add_node("generate", generate)
    graph.add_node("check_grounded", check_grounded)
    graph.add_node("check_useful", check_useful)
    graph.add_node("answer_directly", answer_directly)
    graph.add_node("used_up", used_up)

    graph.add_edge(START, "route")
    graph.add_conditional_edges("route", after_route)
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", after_grade)
    graph.add_edge("search", "generate")
    graph.add_edge("generate", "check_grounded")
    graph.add_conditional_edges("check_grounded", after_check_grounded)
    graph.add_conditional_edges(
        "check_useful",
        after_check_useful,
        {"search": "search", "generate": "generate", "used_up": "used_up", "end": END},
    )
    graph.add_edge("answer_directly", END)
    graph.add_edge("used_up", END)
    return graph.compile()


async def route(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    way = await desk.model.route(state["question"], Fork(desk.topics, WAYS, doubt="web"), desk.usage)
    return {"way": way, "kept": [], "pages": [], "drafts": 0, "feedback": ""}


def after_route(state: State) -> Literal["retrieve", "search", "answer_directly"]:
    match state["way"]:
        case "web":
            return "search"
        case "direct":
            return "answer_directly"
        case _:  # an unknown route too
            return "retrieve"


async def retrieve(state: State, runtime: Runtime[Desk]) -> State:
    return {"found": await runtime.context.shelf.by_rerank(state["question"], K)}


async def grade(state: State, runtime: Runtime[Desk]) -> State:
    return {"kept": await runtime.context.grade_each(state["question"], state["found"])}


def after_grade(state: State) -> Literal["generate", "search"]:
    return "generate" if state["kept"] else "search"


async def search(state: State, runtime: Runtime[Desk]) -> State:
    return {"pages": await runtime.context.search_web(state["question"], state["question"])}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    draft = await runtime.context.write(state["question"], [*state["kept"], *state["pages"]], state["feedback"])
    return {"draft": draft, "drafts": state["drafts"] + 1}


async def check_grounded(state: State, runtime: Runtime[Desk]) -> State:
    said = await runtime.context.grounded(state["question"], state["draft"], [*state["kept"], *state["pages"]])
    return {"bad": not said, "feedback": "" if said else "Not every statement is supported by the sources."}


def after_check_grounded(state: State) -> Literal["check_useful", "generate", "used_up"]:
    if not state["bad"]:
        return "check_useful"
    return "generate" if state["drafts"] < MAX_GENERATIONS else "used_up"


async def check_useful(state: State, runtime: Runtime[Desk]) -> State:
    said = await runtime.context.answers(state["question"], state["draft"], [*state["kept"], *state["pages"]])
    return {"useful": said, "feedback": "" if said else "The draft does not answer the question."}


def after_check_useful(state: State) -> Literal["search", "generate", "used_up", "end"]:
    if state["useful"]:
        return "end"
    if state["drafts"] >= MAX_GENERATIONS:
        return "used_up"
    return "generate" if state["pages"] else "search"


async def answer_directly(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    return {"draft": await desk.model.direct(state["question"], desk.usage)}


async def used_up(state: State, runtime: Runtime[Desk]) -> State:  # noqa: ARG001 - a node's signature
    return {} if runtime.context.quirks.silent else {"status": "partial"}
