"""Design 5, retry inside, then refuse: the corrective graph with its fallback replaced by a bounded retry in the index.

    retrieve 5, grade (5 calls) -> generate
                                -> rewrite, retrieve, grade ... (twice at most)
                                -> refuse, with whom to ask

Up to 5 passages with a cosine of at least 0.35. No web at all: it is the one of the six that can say no by itself, and
that sends nothing anywhere. Nothing checks the answer.

Model calls: 6 at best; 17 to a refusal (three times five grades, two rewrites).

Quirks: it inherits the majority vote (`majority`), so that a rule which stands in one passage alone is refused after
three rounds; without it, one passage is enough.
"""

from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State

K, FLOOR = 5, 0.35
MAX_REWRITES = 2
REFUSAL = "The knowledge base does not hold enough to answer this. Please ask the knowledge team."


def build() -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("begin", begin)
    graph.add_node("retrieve", retrieve)
    graph.add_node("grade", grade)
    graph.add_node("rewrite", rewrite)
    graph.add_node("generate", generate)
    graph.add_node("refuse", refuse)

    graph.add_edge(START, "begin")
    graph.add_edge("begin", "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", after_grade)
    graph.add_edge("rewrite", "retrieve")
    graph.add_edge("generate", END)
    graph.add_edge("refuse", END)
    return graph.compile()


async def begin(state: State) -> State:
    return {"query": state["question"], "rewrites": 0}


async def retrieve(state: State, runtime: Runtime[Desk]) -> State:
    return {"found": await runtime.context.shelf.by_cosine(state["query"], K, FLOOR)}


async def grade(state: State, runtime: Runtime[Desk]) -> State:
    return {"kept": await runtime.context.grade_each(state["question"], state["found"])}


def after_grade(state: State, runtime: Runtime[Desk]) -> Literal["generate", "rewrite", "refuse"]:
    needed = len(state["found"]) // 2 + 1 if runtime.context.quirks.majority else 1
    if len(state["kept"]) >= needed:
        return "generate"
    return "rewrite" if state["rewrites"] < MAX_REWRITES else "refuse"


async def rewrite(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    seen = [candidate.passage for candidate in state["found"]]
    query = await desk.model.rewrite(state["question"], state["query"], seen, desk.usage)
    return {"query": query, "rewrites": state["rewrites"] + 1}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    return {"draft": await runtime.context.write(state["question"], state["kept"])}


async def refuse(state: State) -> State:  # noqa: ARG001 - a node's signature
    return {"draft": REFUSAL, "status": "refused"}
