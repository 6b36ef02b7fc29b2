"""Runs of the real graph in a test: in memory, or in SQLite where a restart is the point."""

from collections.abc import Callable, Sequence
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from service.api.present import Presenter
from service.audit.off import NoAudit
from service.graph.build import build_graph
from service.graph.history import History
from service.graph.run import Request
from service.graph.runs import Runs
from service.graph.state import Limits, Services
from service.links import Links
from service.model import Delivery
from service.ports import AnswerModel, AuditSink, RunObserver, RunStops, ThreadLocks
from service.record import InstallationRecord
from service.skills.skill import NO_SKILL, Skill
from service.threads import ThreadRef
from tests.wire import Frame

PUBLIC = "http://127.0.0.1:8000"


def presenter() -> Presenter:
    return Presenter(Links(lambda source: "/site/" if source == "rules" else "", PUBLIC))


def installation(limits: Limits) -> InstallationRecord:
    """What the records of these runs say of their settings, in the words of the real ones."""
    names = {"ON_UNGROUNDED", "RETRIEVE_K", "TOP_N", "GRADE_MODE", "MAX_REWRITES", "MAX_REGEN", "HANDOFF_TEXT"}
    chosen: dict[str, Any] = {name: getattr(limits, name.lower()) for name in names}
    return {
        "version": "test",
        "embedder": "fixed",
        "reranker": "fixed",
        "reranker_sha256": "",
        "scorer": "fixed",
        "scorer_sha256": "",
        "settings": chosen | {"supported_at": limits.supported_at},
    }


class House:
    """The graph with its threads, over given services and a model."""

    def __init__(
        self,
        services: Services,
        model: AnswerModel | Callable[[], AnswerModel],
        *,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        store: BaseStore | None = None,
        locks: ThreadLocks | None = None,
        stops: RunStops | None = None,
        deadline_s: float = 30,
        max_runs: int = 64,
        max_runs_per_client: int = 64,
        audit: AuditSink | None = None,
        observers: Sequence[RunObserver] = (),
    ) -> None:
        saver = checkpointer or InMemorySaver()
        graph = build_graph(saver)
        self.graph = graph
        self.services = services
        self.history = History(graph, saver, store or InMemoryStore(), locks)
        model_for_run = model if callable(model) else lambda: model
        self.audit = audit or NoAudit("a test of something else")
        self.runs = Runs(
            graph,
            self.history,
            services,
            model_for_run,
            audit=self.audit,
            installation=installation(services.limits),
            observers=observers,
            stops=stops,
            deadline_s=deadline_s,
            max_runs=max_runs,
            max_runs_per_client=max_runs_per_client,
        )
        self.presenter = presenter()

    async def ask(
        self,
        question: str = "How long must record 1 be kept?",
        *,
        thread: str = "t1",
        client: str = "alice",
        web_search: bool = False,
        delivery: Delivery = "draft",
        skill: Skill = NO_SKILL,
    ) -> list[Frame]:
        ref = ThreadRef(client, thread, skill.name)
        run = self.runs.start(Request(ref, question, web_search, delivery, skill))
        return [self.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
