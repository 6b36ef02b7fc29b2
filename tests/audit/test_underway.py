"""Runs under way when processes start together, and records held while the log recovers."""

import asyncio
import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from service.audit.index import Index
from service.audit.underway import Underway
from service.errors import AuditUnavailable
from tests.audit.logs import audit_log, bodies


def run(run_id: str) -> dict[str, Any]:
    return {"run_id": run_id, "client": "alice", "thread_key": "k"}


def died(folder: Path, *run_ids: str) -> None:
    """Leave the notes of a process that was killed in the midst of these runs."""
    dead = Underway(folder)
    dead.open()
    for run_id in run_ids:
        dead.put(run_id, run(run_id))
    os.close(dead._owned)


@pytest.mark.parametrize(("module", "call"), [(os, "open"), (fcntl, "flock")])
def test_a_process_that_is_just_starting_is_not_taken_for_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, call: str
) -> None:
    one, two = Underway(tmp_path), Underway(tmp_path)
    seen: list[Path] = []

    def after_the_other_has_looked(*arguments: Any) -> Any:
        monkeypatch.undo()
        seen.extend(folder for folder, _ in two.left_behind())
        return getattr(module, call)(*arguments)

    monkeypatch.setattr(module, call, after_the_other_has_looked)
    one.open()
    assert seen == []
    assert list(two.left_behind()) == []
    one.put("r1", run("r1"))
    one.close()
    assert [notes for _, notes in two.left_behind()] == [[run("r1")]]


def test_a_folder_whose_process_died_in_making_it_goes_after_a_day(tmp_path: Path) -> None:
    old, young = tmp_path / "underway" / ".old", tmp_path / "underway" / ".young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    assert list(Underway(tmp_path).left_behind()) == []
    assert (old.exists(), young.exists()) == (False, True)


async def test_two_processes_that_start_together_write_a_lost_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(tmp_path, "r1")
    both_have_asked = threading.Barrier(2)
    has_run = Index.has_run

    def asked(index: Index, run_id: str) -> bool:
        known = has_run(index, run_id)
        with suppress(threading.BrokenBarrierError):
            both_have_asked.wait(0.3)
        return known

    monkeypatch.setattr(Index, "has_run", asked)
    one, two = audit_log(tmp_path), audit_log(tmp_path)
    logs = await asyncio.gather(one.__aenter__(), two.__aenter__())
    assert all(log.state().ok for log in logs)
    for context in (one, two):
        await context.__aexit__(None, None, None)
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1"]


async def test_a_record_that_is_held_as_a_recovery_ends_refuses_runs_and_is_written_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)
    ending, go_on = threading.Event(), threading.Event()
    async with audit_log(tmp_path) as log:
        make = log._reserve.make

        def slow() -> None:
            ending.set()
            go_on.wait(5)
            make()

        monkeypatch.setattr(log._reserve, "make", slow)
        log.hold("run", run("first"))
        assert await asyncio.to_thread(ending.wait, 5)
        log.hold("run", run("second"))
        go_on.set()
        log._thread.submit(int).result(5)  # the recovery has ended, and the loop has not heard of it
        assert not log.state().ok
        with pytest.raises(AuditUnavailable):
            log.check()
        for _ in range(200):
            if len(bodies(tmp_path)) == 2:
                break
            await asyncio.sleep(0.01)
        assert [body["run_id"] for body in bodies(tmp_path)] == ["first", "second"]


async def test_a_held_record_is_trouble_whatever_the_last_recovery_said(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        log.hold("run", run("r1"))
        log._trouble = ""  # what a recovery does that found nothing held an instant before
        assert "waiting" in log.state().detail
        with pytest.raises(AuditUnavailable):
            log.check()
