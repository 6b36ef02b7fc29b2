"""A run that ends while its turn is being stored: its stream, its record and its thread say the same."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from service.audit.log import AuditLog
from service.errors import AuditUnavailable, ThreadBusy
from service.graph.run import Request, Run
from service.record import RunRecord
from service.threads import ThreadRef
from tests.audit.logs import audit_log, bodies
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import eventually
from tests.wire import Frame

REF = ThreadRef("alice", "t1")


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    async with audit_log(tmp_path / "audit") as log:
        yield log


class SlowSaver(InMemorySaver):
    """Has begun to write a turn, and does not come to its end before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.free = asyncio.Event(), asyncio.Event()

    async def aput(self, *given: Any) -> Any:
        self.writing.set()
        await self.free.wait()
        return await super().aput(*given)


class SlowListing(InMemoryStore):
    """The turn is stored; the list of threads is not written before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.free = asyncio.Event(), asyncio.Event()

    async def aput(self, *given: Any, **more: Any) -> None:
        self.writing.set()
        await self.free.wait()
        await super().aput(*given, **more)


def begin(house: House) -> Run:
    return house.runs.start(Request(REF, "Why?"))


async def told(house: House, run: Run) -> Frame:
    """The last event that the reader gets."""
    return [house.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()][-1]


async def standing(house: House) -> list[str]:
    """The runs whose turns stand in the thread."""
    return [turn["run_id"] for turn in (await house.history.state(REF))["turns"]]


def endings(tmp_path: Path) -> list[tuple[str, str, str]]:
    found = [body["ending"] for body in bodies(tmp_path / "audit")]
    return [(ending["outcome"], ending["code"], ending["stopped_by"]) for ending in found]


async def test_a_turn_that_is_stored_after_the_service_has_cut_its_run_short_does_not_stand(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.graph.runs.ENDING_S", 0.1)
    saver = SlowSaver()
    house = House(services(tmp_path), ScriptedModel(), audit=audit, checkpointer=saver)
    run = begin(house)
    await saver.writing.wait()
    await house.runs.close()
    assert (await told(house, run))["code"] == "shutting_down"
    assert endings(tmp_path) == [("error", "shutting_down", "shutdown")]
    assert house.runs.busy(REF)  # what is still being written is nobody else's thread
    saver.free.set()
    await eventually(lambda: not house.runs.busy(REF), within_s=10)
    assert run.work is not None
    assert run.work.done()
    assert await standing(house) == []
    assert (await house.history.summary(REF)).turns == 0


async def test_a_turn_that_the_end_of_the_process_left_standing_is_not_shown_and_is_taken_back(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store lands its write as the process goes: there is nobody left to take the turn back."""
    monkeypatch.setattr("service.graph.runs.ENDING_S", 0.1)
    saver, world = SlowSaver(), services(tmp_path)
    gone = House(world, ScriptedModel(), audit=audit, checkpointer=saver)
    run = begin(gone)
    await saver.writing.wait()
    await gone.runs.close()
    for settling in gone.runs._settling:
        settling.cancel()
    saver.free.set()
    assert run.work is not None
    await asyncio.wait([run.work])
    assert await standing(gone) == [run.run_id]

    house = House(world, ScriptedModel(), audit=audit, checkpointer=saver)
    assert (await house.runs.thread(REF))["turns"] == []
    [*_, done] = await house.ask("And now?")
    assert await standing(house) == [done["run_id"]]
    assert [turn["run_id"] for turn in (await house.runs.thread(REF))["turns"]] == [done["run_id"]]


async def test_a_run_whose_turn_is_stored_already_is_answered_whatever_hangs_after_it(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.graph.runs.ENDING_S", 0.1)
    listing = SlowListing()
    house = House(services(tmp_path), ScriptedModel(), audit=audit, store=listing)
    run = begin(house)
    await listing.writing.wait()
    await house.runs.close()
    assert (await told(house, run))["status"] == "answered"
    assert endings(tmp_path) == [("answered", "", "")]
    listing.free.set()
    await eventually(lambda: not house.runs.busy(REF), within_s=10)
    assert await standing(house) == [run.run_id]


async def test_a_run_that_is_cut_short_in_the_very_moment_of_its_end_is_answered(
    tmp_path: Path, audit: AuditLog
) -> None:
    house = House(services(tmp_path), ScriptedModel(), audit=audit)
    run = begin(house)
    assert run.work is not None
    run.work.add_done_callback(lambda _: run.cut_short("shutdown"))
    assert (await told(house, run))["status"] == "answered"
    assert endings(tmp_path) == [("answered", "", "")]
    assert await standing(house) == [run.run_id]


@pytest.mark.parametrize("by", ["person", "reader_left", "deadline", "shutdown"])
async def test_a_stop_while_the_turn_is_being_stored_comes_too_late(tmp_path: Path, audit: AuditLog, by: Any) -> None:
    saver = SlowSaver()
    house = House(services(tmp_path), ScriptedModel(), audit=audit, checkpointer=saver)
    run = begin(house)
    await saver.writing.wait()
    run.stop(by)
    saver.free.set()
    assert (await told(house, run))["status"] == "answered"
    assert endings(tmp_path) == [("answered", "", "")]
    assert await standing(house) == [run.run_id]


async def test_a_store_that_hangs_past_the_deadline_keeps_its_thread_but_no_reader(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.graph.runs.STORING_S", 0.1)
    saver = SlowSaver()
    house = House(services(tmp_path), ScriptedModel(), audit=audit, checkpointer=saver, deadline_s=2)
    run = begin(house)
    await saver.writing.wait()
    async with asyncio.timeout(10):
        assert (await told(house, run))["code"] == "deadline_exceeded"
    assert endings(tmp_path) == [("deadline", "deadline_exceeded", "deadline")]
    with pytest.raises(ThreadBusy):
        begin(house)
    saver.free.set()
    await eventually(lambda: not house.runs.busy(REF), within_s=10)
    assert await standing(house) == []
    [*_, done] = await house.ask("Once more?")
    assert await standing(house) == [done["run_id"]]


class Kept:
    def __init__(self) -> None:
        self.records: list[RunRecord] = []

    def ended(self, record: RunRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize("code", ["lost", "audit_unavailable"])
async def test_a_process_that_died_between_a_turn_and_its_record_leaves_no_turn(
    tmp_path: Path, audit: AuditLog, code: str
) -> None:
    saver, world, kept = InMemorySaver(), services(tmp_path), Kept()
    died = House(world, ScriptedModel(), checkpointer=saver, observers=[kept])
    await died.ask()
    [record] = kept.records
    record["ending"] = {"outcome": "error", "code": code, "message": "", "stopped_by": ""}
    await audit.append("run", record)  # what the next process writes of it
    house = House(world, ScriptedModel(), audit=audit, checkpointer=saver)
    [*_, done] = await house.ask("And now?")
    assert await standing(house) == [done["run_id"]]


async def test_a_log_that_cannot_be_read_takes_no_turn_back(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(services(tmp_path), ScriptedModel(), audit=audit)
    [*_, first] = await house.ask()

    async def unreadable(*_: object) -> None:
        raise AuditUnavailable("damaged")

    monkeypatch.setattr(audit, "run", unreadable)
    [*_, second] = await house.ask("And record 2?")
    assert await standing(house) == [first["run_id"], second["run_id"]]
