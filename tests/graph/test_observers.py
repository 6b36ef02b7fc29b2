"""Whoever watches runs is told of each once, at its end, and cannot disturb it."""

import asyncio
import time
from pathlib import Path

import pytest

from service.graph.events import Told
from service.graph.run import Request
from service.record import RunRecord
from service.threads import ThreadRef
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House


class Watching:
    def __init__(self) -> None:
        self.seen: list[RunRecord] = []

    def ended(self, record: RunRecord) -> None:
        self.seen.append(record)


class Broken:
    def ended(self, record: RunRecord) -> None:
        raise RuntimeError(f"no room for {record['run_id']}")


async def test_an_observer_is_told_of_each_run_once_with_the_steps_it_took(tmp_path: Path) -> None:
    watching = Watching()
    home = House(services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[watching])
    [*_, done] = await home.ask()
    [record] = watching.seen
    assert (record["run_id"], record["ending"]["outcome"]) == (done["run_id"], done["status"])
    nodes = [step["node"] for step in record["steps"]]
    assert nodes[:2] == ["contextualize", "retrieve_vector"]
    assert nodes[-1] == "finalize"
    assert all(step["ms"] is not None for step in record["steps"])


async def test_an_observer_that_breaks_changes_no_run_and_hides_it_from_no_other(tmp_path: Path) -> None:
    watching = Watching()
    home = House(
        services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[Broken(), watching]
    )
    [*_, done] = await home.ask()
    assert done["status"] == "answered"
    assert [record["run_id"] for record in watching.seen] == [done["run_id"]]


class Slow:
    """An observer that breaks its promise, and waits."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def ended(self, record: RunRecord) -> None:
        time.sleep(0.05)
        self._told.append(f"observer of {record['run_id']}")


async def test_D08_U22_no_reader_waits_for_an_observer(tmp_path: Path) -> None:
    """Whatever traces do, the last event has been handed over and the thread is free before any observer is told."""
    told: list[str] = []
    home = House(services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[Slow(told)])
    ref = ThreadRef("alice", "t1")
    run = home.runs.start(Request(ref, "How long must record 1 be kept?"))
    write = run.transcript._write

    def noted(event: Told) -> None:
        told.append(f"{type(event.event).__name__} busy={home.runs.busy(ref)}")
        write(event)

    run.transcript._write = noted
    await run.ended()
    assert told[-2:] == ["Done busy=False", f"observer of {run.run_id}"]


async def test_D07_twenty_runs_at_once_five_left_early_are_told_each_as_its_own(tmp_path: Path) -> None:
    watching = Watching()
    home = House(
        services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(delay_s=0.05), observers=[watching]
    )
    refs = [ThreadRef(f"client-{n}", f"t{n}") for n in range(20)]
    runs = [home.runs.start(Request(ref, f"Question {n} of record 1?")) for n, ref in enumerate(refs)]
    await asyncio.sleep(0.02)
    for run in runs[:5]:
        run.stop("reader_left")
    await asyncio.gather(*(run.ended() for run in runs))
    told = {record["run_id"]: record for record in watching.seen}
    assert len(watching.seen) == len(told) == 20
    for n, run in enumerate(runs):
        record = told[run.run_id]
        assert (record["client"], record["thread_id"]) == (f"client-{n}", f"t{n}")
        assert record["question"] == f"Question {n} of record 1?"
        assert record["ending"]["outcome"] == ("cancelled" if n < 5 else "answered")
        nodes = [step["node"] for step in record["steps"]]
        assert len(nodes) == len(set(nodes))


async def test_D09_U23_what_an_observer_throws_is_a_line_in_the_log_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = House(services(tmp_path, knowledge=FixedKnowledge([passage(1)])), ScriptedModel(), observers=[Broken()])
    frames = await home.ask()
    await asyncio.sleep(0)
    assert frames[-1]["status"] == "answered"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"run not observed run_id={frames[-1]['run_id']} by=Broken"
    ]
    assert "no room" not in str(frames)
