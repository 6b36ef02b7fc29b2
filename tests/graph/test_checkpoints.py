"""What stands on disk of a thread: its turns, once, and nothing of a run that did not end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from service.graph.checkpoints import NewestCheckpoint
from service.graph.events import Failed
from service.graph.run import Request, Run
from service.postgres.checkpoints import PostgresCheckpoints
from service.threads import ThreadRef
from tests.api.stalling import PHASES, Stall, stalling
from tests.running import House


async def stop_in_the_stall(run: Run, stall: Stall) -> None:
    for _ in range(1000):
        if stall.reached:
            break
        await asyncio.sleep(0.01)
    # What runs beside the stalled step has ended by then: its writes are what LangGraph would store.
    await asyncio.sleep(0.05)
    run.stop()


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("threads.db*"))


@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_that_is_stopped_leaves_nothing_in_the_file(tmp_path: Path, phase: str) -> None:
    services, model, stall = stalling(tmp_path)
    file = tmp_path / "threads.db"
    async with NewestCheckpoint.from_conn_string(str(file)) as saver:
        await saver.setup()
        house = House(services, model, checkpointer=saver)
        await house.ask("How long must record 1 be kept?")
        run = house.runs.start(Request(ThreadRef("alice", "t1"), f"SECRET stall in {phase}"))
        stopping = asyncio.create_task(stop_in_the_stall(run, stall))
        told = [told async for told in run.events()]
        await stopping
        assert isinstance(told[-1].event, Failed)
        async with saver.conn.execute("SELECT count(*) FROM writes") as cursor:
            assert await cursor.fetchone() == (0,)
    assert b"SECRET" not in await asyncio.to_thread(on_disk, tmp_path)


@pytest.mark.parametrize("saver", [NewestCheckpoint, PostgresCheckpoints])
def test_neither_store_comes_to_keep_a_run_s_steps(saver: type[BaseCheckpointSaver[Any]]) -> None:
    """LangGraph's own method stands behind ours among the bases."""
    assert saver.aput_writes.__qualname__ == "WithoutSteps.aput_writes"


async def test_a_thread_of_many_turns_has_one_checkpoint(tmp_path: Path) -> None:
    services, model, _ = stalling(tmp_path)
    async with NewestCheckpoint.from_conn_string(str(tmp_path / "threads.db")) as saver:
        await saver.setup()
        house = House(services, model, checkpointer=saver)
        for _ in range(3):
            await house.ask()
        async with saver.conn.execute("SELECT count(*) FROM checkpoints") as cursor:
            assert await cursor.fetchone() == (1,)
        assert len((await house.history.state(ThreadRef("alice", "t1")))["turns"]) == 3


async def test_what_was_erased_cannot_be_read_from_the_disk(tmp_path: Path) -> None:
    services, model, _ = stalling(tmp_path)
    async with NewestCheckpoint.from_conn_string(str(tmp_path / "threads.db")) as saver:
        await saver.setup()
        house = House(services, model, checkpointer=saver)
        await house.ask("How long must QUUXZEBRA keep record 1?")
        assert b"QUUXZEBRA" in await asyncio.to_thread(on_disk, tmp_path)
        await house.history.erase(ThreadRef("alice", "t1"))
        assert b"QUUXZEBRA" not in await asyncio.to_thread(on_disk, tmp_path)
