"""Design 7: Gatehouse itself, draft or verified, through the product's own runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from evals.designs.port import DesignModel
from evals.designs.web import AsStrips, Visit
from evals.golden_set import Case
from evals.seed import turns_of
from service.audit.off import NoAudit
from service.graph.build import build_graph
from service.graph.events import Failed, Terminal
from service.graph.history import History, config_of
from service.graph.run import Request
from service.graph.runs import Runs
from service.graph.state import Limits, Services
from service.knowledge.snapshots import Snapshots
from service.model import Delivery, StoredSource, Turn
from service.ports import KnowledgeBase, Reranker
from service.record import InstallationRecord
from service.threads import ThreadRef


@dataclass(frozen=True, slots=True)
class Product:
    """What the product's runs share."""

    knowledge: KnowledgeBase
    reranker: Reranker
    scorer: Reranker
    snapshots: Snapshots
    limits: Limits
    installation: InstallationRecord


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn that a run stored, and the texts of the sources that it showed. `turn` is None where it failed."""

    turn: Turn | None
    evidence: tuple[str, ...]


async def ask(product: Product, case: Case, model: DesignModel, visit: Visit, delivery: Delivery) -> Ended:
    """Ask one case on a thread of its own that holds its history, with its toggle."""
    saver = InMemorySaver()
    graph = build_graph(saver)
    ref = ThreadRef("evals", case.id)
    if case.history:
        await graph.aupdate_state(config_of(ref), {"turns": turns_of(case)}, as_node="finalize")
    web = AsStrips(visit, product.scorer, product.snapshots, product.limits.web_strips)
    services = Services(product.knowledge, product.reranker, product.scorer, web, product.snapshots, product.limits)
    runs = Runs(
        graph,
        History(graph, saver, InMemoryStore()),
        services,
        lambda: model,
        audit=NoAudit("an evaluation"),
        installation=product.installation,
        deadline_s=600,
        max_runs=1,
        max_runs_per_client=1,
    )
    run = runs.start(Request(ref, case.question, case.web_search, delivery))
    terminal: Terminal = [told.event async for told in run.events()][-1]  # type: ignore[assignment]
    if isinstance(terminal, Failed):
        return Ended(None, ())
    return Ended(terminal.turn, await texts_of(terminal.sources, product.knowledge, web))


async def texts_of(sources: Sequence[StoredSource], knowledge: KnowledgeBase, web: AsStrips) -> tuple[str, ...]:
    found = [web.brought.get(s["passage_id"]) or await knowledge.get(s["passage_id"]) for s in sources]
    return tuple(passage.text for passage in found if passage is not None)
