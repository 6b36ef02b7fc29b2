"""What outlives a run: a thread's turns and sources in the checkpointer, a client's list of threads in the store."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore, SearchItem

from service.errors import NotFound
from service.graph.build import Graph
from service.graph.locks import OneProcess, holding
from service.graph.shown import Shown
from service.graph.state import State, as_state
from service.model import ComponentState, StoredSource
from service.ports import ThreadLocks
from service.threads import ThreadRef, ThreadSummary, title_of

logger = logging.getLogger(__name__)

PAGE = 500
ROW_S = 5.0
READY_S = 5.0


class History:
    """Reads and writes threads. The store, the checkpointer and the locks are opened and closed by `wiring`."""

    def __init__(
        self,
        graph: Graph,
        checkpointer: BaseCheckpointSaver[Any],
        store: BaseStore,
        locks: ThreadLocks | None = None,
    ) -> None:
        self._graph = graph
        self._checkpointer = checkpointer
        self._store = store
        self.shown = Shown(store)
        self.locks: ThreadLocks = locks or OneProcess()
        self._listing = asyncio.Lock()

    @asynccontextmanager
    async def _changing(self, ref: ThreadRef) -> AsyncIterator[None]:
        """A row of the list is read, changed and written back: by one at a time, on one replica at a time."""
        async with self._listing, holding(self.locks, f"row {ref.key}", ROW_S):
            yield

    async def state(self, ref: ThreadRef) -> State:
        """Return the thread's turns and sources; empty lists where it is unknown."""
        snapshot = await self._graph.aget_state(config_of(ref))
        return as_state(snapshot.values)

    async def readiness(self) -> ComponentState:
        """Whether threads can be read."""
        try:
            async with asyncio.timeout(READY_S):
                await self._graph.aget_state(config_of(ThreadRef("", "readyz")))
                await self._store.aget(namespace(""), "readyz")
                await self.locks.taken("readyz")
        except Exception as error:  # each probe asks: a line says it, a traceback each time would bury the rest
            logger.error("threads cannot be read: %s %s", type(error).__name__, " ".join(str(error).split()))
            return ComponentState("threads", False, "cannot be read")
        return ComponentState("threads", True, "readable")

    async def keep_numbers(self, ref: ThreadRef, named: dict[int, StoredSource]) -> None:
        """Store the numbers an unfinished run has shown: a stop may come before their step is stored."""
        registry = (await self.state(ref))["registry"]
        missing = [named[n] for n in sorted(named) if n > len(registry)]
        if missing:
            update: State = {"registry": [*registry, *missing]}
            await self._graph.aupdate_state(config_of(ref), update, as_node="finalize")

    async def withdraw(self, ref: ThreadRef, run_id: str) -> None:
        """Take the run's turn back, if it is the last: an answer that was not given is no part of the conversation."""
        turns = (await self.state(ref))["turns"]
        if turns and turns[-1]["run_id"] == run_id:
            update: State = {"turns": turns[:-1]}
            await self._graph.aupdate_state(config_of(ref), update, as_node="finalize")
            await self.record(ref, turns[-1]["question"], turns[-1]["asked_at"], len(turns) - 1)

    async def record(self, ref: ThreadRef, question: str, at: str, turns: int) -> None:
        """Put the thread into its client's list, or move it up. A title once given stays."""
        async with self._changing(ref):
            known = await self._store.aget(namespace(ref.client), ref.key)
            old = known.value if known else {"title": title_of(question), "created_at": at}
            summary = ThreadSummary(ref.thread_id, ref.skill, old["title"], old["created_at"], at, turns)
            await self._store.aput(namespace(ref.client), ref.key, asdict(summary), index=False)

    async def threads(self, client: str) -> list[ThreadSummary]:
        """Return the client's threads, newest first; of two asked in one second, the one that was written later."""
        found: list[SearchItem] = []
        while True:
            items = await self._store.asearch(namespace(client), limit=PAGE, offset=len(found))
            found.extend(items)
            if len(items) < PAGE:
                found.sort(key=lambda item: (item.value["updated_at"], item.updated_at), reverse=True)
                return [ThreadSummary(**item.value) for item in found]

    async def summary(self, ref: ThreadRef) -> ThreadSummary:
        """Raises `NotFound`, in the same words for an unknown and for a foreign thread."""
        item = await self._store.aget(namespace(ref.client), ref.key)
        if item is None:
            raise NotFound("There is no such thread.")
        return ThreadSummary(**item.value)

    async def rename(self, ref: ThreadRef, title: str) -> ThreadSummary:
        async with self._changing(ref):
            renamed = replace(await self.summary(ref), title=title)
            await self._store.aput(namespace(ref.client), ref.key, asdict(renamed), index=False)
        return renamed

    async def known(self, ref: ThreadRef) -> None:
        """Raises `NotFound` where there is nothing to erase. A stopped first run leaves numbers, and is not listed."""
        if not (await self.state(ref))["registry"]:
            await self.summary(ref)

    async def erase(self, ref: ThreadRef) -> None:
        """Delete the conversation: what it has shown, every checkpoint of the thread, then its row in the list."""
        registry = (await self.state(ref))["registry"]
        async with self._changing(ref):
            await self.shown.forget(ref, registry)
            await self._checkpointer.adelete_thread(ref.key)
            await self._store.adelete(namespace(ref.client), ref.key)


def config_of(ref: ThreadRef) -> RunnableConfig:
    return {"configurable": {"thread_id": ref.key}}


def namespace(client: str) -> tuple[str, str]:
    """LangGraph's namespaces may not hold periods, and a client may be an IP address: hex is safe for any name."""
    return ("threads", client.encode().hex() or "0")
