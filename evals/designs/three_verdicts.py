"""Design 4, corrective by three verdicts: the best score of what was retrieved decides what the answer is made from.

    retrieve 3, evaluate (3 calls) -> correct   (best over 0.7):  the best document as it is
                                   -> incorrect (best under 0.3): rewrite, search, refine the pages
                                   -> ambiguous (between):        both, each refined
    then generate

Refining is a model that rewrites a text as bullets of what bears on the question; the writer sees the bullets and not
the text. It runs once: nothing checks the answer.

Model calls: 4 where the best is good, 6 and a search where none is, 7 and a search between.

Quirks: the evidence is rewritten by a model before it is written from (`rewritten`; without it the best strips stand as
they are), so that an error in a bullet is a fact to everyone after it; of several documents that answer only the best
is read; pages are refined whole (`whole_pages`).
"""

from dataclasses import replace
from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State
from service.model import Candidate

K = 3
CORRECT, INCORRECT = 0.7, 0.3


def build() -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("retrieve", retrieve)
    graph.add_node("evaluate", evaluate)
    graph.add_node("refine_best", refine_best)
    graph.add_node("search", search)
    graph.add_node("generate", generate)

    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "evaluate")
    graph.add_conditional_edges("evaluate", after_evaluate)
    graph.add_edge("refine_best", "search")
    graph.add_edge("search", "generate")
    graph.add_edge("generate", END)
    return graph.compile()


async def retrieve(state: State, runtime: Runtime[Desk]) -> State:
    found = await runtime.context.shelf.by_rerank(state["question"], K)
    return {"found": found, "kept": [], "pages": []}


async def evaluate(state: State, runtime: Runtime[Desk]) -> State:
    """Score each document; keep the best, unless it is too bad to be of use."""
    desk = runtime.context
    scored = [
        Candidate(c.passage, await desk.model.score(state["question"], c.passage, desk.usage)) for c in state["found"]
    ]
    best = max(scored, key=lambda candidate: candidate.score, default=None)
    if best is None or best.score < INCORRECT:
        return {"best": 0.0}
    return {"best": best.score, "found": [best], "kept": [best]}


def after_evaluate(state: State) -> Literal["generate", "refine_best", "search"]:
    if state["best"] > CORRECT:
        return "generate"
    return "refine_best" if state["kept"] else "search"


async def refine_best(state: State, runtime: Runtime[Desk]) -> State:
    return {"kept": await refined(state["question"], state["kept"], runtime.context)}


async def search(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    query = await desk.model.web_query(state["question"], "", desk.usage)
    return {"pages": await desk.search_web(state["question"], query)}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    """Write from the refined evidence; what was found stands beside it, so that the difference can be told."""
    desk = runtime.context
    pages = await refined(state["question"], state["pages"], desk)
    originals = [*(state["found"] if state["kept"] else []), *state["pages"]]
    return {"draft": await desk.write(state["question"], [*state["kept"], *pages], originals=originals)}


async def refined(question: str, found: list[Candidate], desk: Desk) -> list[Candidate]:
    """All of it as one list of bullets, by one call; as it is where evidence is not to be rewritten."""
    if not found or not desk.quirks.rewritten:
        return found
    first = found[0]
    whole = replace(first.passage, text="\n".join(candidate.passage.text for candidate in found))
    bullets = await desk.model.bullets(question, whole, desk.usage)
    return [Candidate(replace(first.passage, text=bullets), first.score)]
