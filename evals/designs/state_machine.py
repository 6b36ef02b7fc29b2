"""Design 6, verified state machine: each step a state, each state a trace entry, each loop with its own small cap.

    route -> store: retrieve 5, grade the set (1 call; none where nothing was retrieved)
                    -> generate, verify
                    -> rewrite (twice at most), retrieve, ...
                    -> generate all the same, when the rewrites are used up
    route -> web:   search, generate, verify

The store is for internal documents only; in doubt the web. `verify` asks whether the answer is hallucinated ("I don't
know" is not), is skipped where there is no document, and has one retry. Each node has its temperature where the model
takes one.

Model calls: 4 at best, 3 from the web, 10 at most.

Quirks: one grade for five passages lets the four others through with the one that counts; a rewrite builds on the last
rewrite and drifts from the question (`drifting`); when the rewrites are used up it generates from what failed the
grade, and after the retry it shows what failed the check, both as an answer (`silent`; without it, with a warning);
"yes" is easily read as praise (`misread`); web pages are neither graded nor cut (`whole_pages`).
"""

from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from evals.designs.desk import Desk, Graph, State, numbered
from evals.designs.port import DONT_KNOW, Fork

K = 5
MAX_REWRITES = 2
MAX_RETRIES = 1
TEMPERATURES = {"route": 0.0, "grade": 0.0, "rewrite": 0.7, "generate": 0.3, "verify": 0.0}


def build() -> Graph:
    graph = StateGraph(State, context_schema=Desk)
    graph.add_node("route", route)
    graph.add_node("retrieve", retrieve)
    graph.add_node("grade", grade)
    graph.add_node("rewrite", rewrite)
    graph.add_node("search", search)
    graph.add_node("generate", generate)
    graph.add_node("verify", verify)

    graph.add_edge(START, "route")
    graph.add_conditional_edges("route", after_route)
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", after_grade)
    graph.add_edge("rewrite", "retrieve")
    graph.add_edge("search", "generate")
    graph.add_edge("generate", "verify")
    graph.add_conditional_edges("verify", after_verify, {"generate": "generate", "end": END})
    return graph.compile()


async def route(state: State, runtime: Runtime[Desk]) -> State:
    desk, question = runtime.context, state["question"]
    fork = Fork(desk.topics, ("store", "web"), doubt="web")
    way = await desk.model.at(TEMPERATURES["route"]).route(question, fork, desk.usage)
    return {"way": way, "query": question, "found": [], "rewrites": 0, "drafts": 0, "trace": [f"route: {way}"]}


def after_route(state: State) -> Literal["retrieve", "search"]:
    return "retrieve" if state["way"] == "store" else "search"


async def retrieve(state: State, runtime: Runtime[Desk]) -> State:
    found = await runtime.context.shelf.by_cosine(state["query"], K)
    return {"found": found, "trace": [f"retrieve: {len(found)}"]}


async def grade(state: State, runtime: Runtime[Desk]) -> State:
    """One grade for the set. Nothing retrieved is not relevant, without a call."""
    desk = runtime.context
    passages = [candidate.passage for candidate in state["found"]]
    if not passages:
        return {"useful": False, "trace": ["grade: nothing retrieved"]}
    said = await desk.model.at(TEMPERATURES["grade"]).grade_set(state["question"], passages, desk.usage)
    return {"useful": said.result == "pass", "trace": [f"grade: {said.result}"]}


def after_grade(state: State) -> Literal["generate", "rewrite"]:
    return "generate" if state["useful"] or state["rewrites"] >= MAX_REWRITES else "rewrite"


async def rewrite(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    about = state["query"] if desk.quirks.drifting else state["question"]
    seen = [candidate.passage for candidate in state["found"]]
    query = await desk.model.at(TEMPERATURES["rewrite"]).rewrite(about, about, seen, desk.usage)
    return {"query": query, "rewrites": state["rewrites"] + 1, "trace": [f"rewrite: {query}"]}


async def search(state: State, runtime: Runtime[Desk]) -> State:
    pages = await runtime.context.search_web(state["question"], state["question"])
    return {"found": pages, "useful": True, "trace": [f"search: {len(pages)}"]}


async def generate(state: State, runtime: Runtime[Desk]) -> State:
    desk = runtime.context
    forced = not state["useful"]
    draft = await desk.write(state["question"], state["found"], temperature=TEMPERATURES["generate"])
    update: State = {
        "draft": draft,
        "drafts": state["drafts"] + 1,
        "trace": [f"generate: {'forced' if forced else 'from what was graded'}"],
    }
    if forced and draft != DONT_KNOW and not desk.quirks.silent:
        update["status"] = "partial"
    return update


async def verify(state: State, runtime: Runtime[Desk]) -> State:
    """Ask for a hallucination, except where there is nothing to ask about."""
    desk = runtime.context
    if not state["found"] or state["draft"] == DONT_KNOW:
        return {"bad": False, "trace": ["verify: skipped"]}
    said = await desk.model.at(TEMPERATURES["verify"]).hallucinated(
        state["draft"], numbered(state["found"]), desk.usage
    )
    bad = desk.reads_as_bad(said)
    update: State = {"bad": bad, "trace": [f"verify: {said}"]}
    if bad and state["drafts"] > MAX_RETRIES and not desk.quirks.silent:
        update["status"] = "partial"
    return update


def after_verify(state: State) -> Literal["generate", "end"]:
    return "generate" if state["bad"] and state["drafts"] <= MAX_RETRIES else "end"
