"""One design, one case: what was shown, what it cost, and what left for the web."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from langgraph.errors import GraphRecursionError

from evals.designs.clock import Clock
from evals.designs.desk import FENCE, Desk, Graph, State
from evals.designs.gatehouse import Product, ask
from evals.designs.lineup import Entry
from evals.designs.port import DONT_KNOW, DesignModel
from evals.designs.scripted import standalone
from evals.designs.shelf import Shelf
from evals.designs.truth import states_the_answer, unsupported
from evals.designs.web import LoopbackWeb, Visit
from evals.golden_set import Case
from service.errors import GatehouseError

SHOWN = ("answered", "partial")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is answered, partial (shown with a warning), refused, stopped (by the fence) or failed.

    `searches` are those of this run, `unasked` those of them that the person had not asked for. `seconds` is modelled
    for the scripted model, else measured.
    """

    case_id: str
    kind: str
    expected: str
    status: str
    right: bool
    unsupported: bool
    calls: int
    searches: int
    unasked: int
    queries: tuple[str, ...]
    path: str
    context_chars: int
    cost_usd: float
    seconds: float
    answer: str

    @property
    def wrong(self) -> bool:
        """Shown as an answer, without a warning, and not right."""
        return self.status == "answered" and not self.right

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all designs share."""

    shelf: Shelf
    web: LoopbackWeb
    product: Product


async def outcome_of(entry: Entry, case: Case, bench: Bench, model: DesignModel, clock: Clock | None) -> Outcome:
    """Run one design on one case. `clock` is the scripted model's; None measures."""
    visit = Visit(bench.web, clock or Clock())
    began = time.perf_counter()
    run = of_gatehouse if entry.build is None else of_graph
    found = await run(entry, case, bench, model, visit)
    seconds = clock.now if clock else time.perf_counter() - began
    searches = len(visit.queries)
    return Outcome(
        case_id=case.id,
        kind=case.kind,
        expected=case.status,
        status=found["status"],
        right=case.is_right(found["status"], states_the_answer(found["answer"], case)),
        unsupported=found["status"] in SHOWN and unsupported(found["answer"], found["evidence"], case.question),
        calls=found["calls"],
        searches=searches,
        unasked=0 if case.web_search else searches,
        queries=tuple(visit.queries),
        path=path_of(found["way"], searches, found["status"]),
        context_chars=found["context_chars"],
        cost_usd=round(found["cost_usd"], 6),
        seconds=round(seconds, 3),
        answer=found["answer"],
    )


def path_of(way: str, searches: int, status: str) -> str:
    """The way through the design, in words: `store`, `store, then web`, `web`, `direct`, each with how it ended."""
    place = way or "store"
    if place not in ("web", "direct"):
        place = "store, then web" if searches else "store"
    return f"{place}: stopped" if status == "stopped" else place


async def of_graph(entry: Entry, case: Case, bench: Bench, model: DesignModel, visit: Visit) -> Mapping[str, Any]:
    assert entry.build is not None
    desk = Desk(bench.shelf, model, visit, entry.quirks)
    state: State = {"question": standalone(case)}
    status = "stopped"
    try:
        # `values` streams the whole state after each step, so that what was there when the fence fell is known.
        steps = compiled(entry.build).astream(state, {"recursion_limit": FENCE}, context=desk, stream_mode="values")
        async for values in steps:
            state = as_state(values)
        status = "refused" if state["draft"] == DONT_KNOW else state.get("status", "answered")
    except GraphRecursionError:
        pass
    except GatehouseError:
        status = "failed"  # the model or the store was away: counted, and the others go on
    return {
        "status": status,
        "answer": state.get("draft", ""),
        "evidence": desk.evidence,
        "way": state.get("way", ""),
        "calls": desk.usage.model_calls,
        "cost_usd": desk.usage.cost_usd,
        "context_chars": desk.context_chars,
    }


@cache
def compiled(build: Callable[[], Graph]) -> Graph:
    return build()


def as_state(values: Mapping[str, Any]) -> State:
    state: State = values  # type: ignore[assignment]  # LangGraph types a stream's values as a plain dict
    return state


async def of_gatehouse(entry: Entry, case: Case, bench: Bench, model: DesignModel, visit: Visit) -> Mapping[str, Any]:
    ended = await ask(bench.product, case, model, visit, entry.delivery)
    turn = ended.turn
    return {
        "status": turn["status"] if turn else "failed",
        "answer": turn["answer"] if turn else "",
        "evidence": ended.evidence,
        "way": "store",
        "calls": int(turn["usage"]["model_calls"]) if turn else 0,
        "cost_usd": turn["usage"]["cost_usd"] if turn else 0.0,
        "context_chars": sum(map(len, ended.evidence)),
    }
