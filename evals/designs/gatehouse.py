"""Design 7: Gatehouse itself, draft or verified, through the product's own runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from evals.designs.port import DesignModel
from evals.designs.web import AsStrips, Visit
from evals.golden_set import Case
from evals.runs import start_run
from service.audit.off import NoAudit
from service.graph.events import Failed, Terminal
from service.graph.state import Limits, Services
from service.knowledge.snapshots import Snapshots
from service.model import Delivery, StoredSource, Turn
from service.ports import KnowledgeBase, Reranker
from service.record import InstallationRecord


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
    web = AsStrips(visit, product.scorer, product.snapshots, product.limits.web_strips)
    services = Services(product.knowledge, product.reranker, product.scorer, web, product.snapshots, product.limits)
    run = await start_run(
        case,
        services,
        lambda: model,
        audit=NoAudit("an evaluation"),
        installation=product.installation,
        deadline_s=600,
        web_search=case.web_search,
        delivery=delivery,
    )
    terminal: Terminal = [told.event async for told in run.events()][-1]  # type: ignore[assignment]
    if isinstance(terminal, Failed):
        return Ended(None, ())
    return Ended(terminal.turn, await texts_of(terminal.sources, product.knowledge, web))


async def texts_of(sources: Sequence[StoredSource], knowledge: KnowledgeBase, web: AsStrips) -> tuple[str, ...]:
    found = [web.brought.get(s["passage_id"]) or await knowledge.get(s["passage_id"]) for s in sources]
    return tuple(passage.text for passage in found if passage is not None)
