"""Replicas of the service in one process: each with its own connections and locks, over one database."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from service.graph.state import Services
from service.ports import AnswerModel
from service.thread_store import open_postgres
from tests.running import House


@asynccontextmanager
async def replica(url: str, services: Services, model: AnswerModel) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        threads = await open_postgres(url, stack)
        house = House(
            services,
            model,
            checkpointer=threads.checkpointer,
            store=threads.listing,
            locks=threads.locks,
            stops=threads.stops,
        )
        stack.push_async_callback(house.runs.close)
        yield house


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made
