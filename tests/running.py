"""Runs of the real graph in a test: in memory, or in SQLite where a restart is the point."""

from collections.abc import Callable
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from service.api.present import Presenter
from service.graph.build import build_graph
from service.graph.history import History
from service.graph.run import Request, Runs
from service.graph.state import Services
from service.links import Links
from service.model import Delivery
from service.ports import AnswerModel, ThreadLocks
from service.threads import ThreadRef
from tests.wire import Frame

PUBLIC = "http://127.0.0.1:8000"


def presenter() -> Presenter:
    return Presenter(Links(lambda source: "/site/" if source == "rules" else "", PUBLIC))


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
        deadline_s: float = 30,
        max_runs: int = 64,
    ) -> None:
        saver = checkpointer or InMemorySaver()
        graph = build_graph(saver)
        self.services = services
        self.history = History(graph, saver, store or InMemoryStore(), locks)
        model_for_run = model if callable(model) else lambda: model
        self.runs = Runs(graph, self.history, services, model_for_run, deadline_s=deadline_s, max_runs=max_runs)
        self.presenter = presenter()

    async def ask(
        self,
        question: str = "How long must record 1 be kept?",
        *,
        thread: str = "t1",
        client: str = "alice",
        web_search: bool = False,
        delivery: Delivery = "draft",
    ) -> list[Frame]:
        run = self.runs.start(Request(ThreadRef(client, thread), question, web_search, delivery))
        return [self.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
