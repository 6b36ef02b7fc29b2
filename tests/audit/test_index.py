"""The index when its database cannot be used for the moment: it is kept, and not trusted to know every run."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from service.audit.index import INDEX_FILE, Index
from service.audit.underway import Underway
from service.audit.writer import Writer
from tests.audit.logs import audit_log, bodies, written


def run(run_id: str) -> dict[str, Any]:
    return {"run_id": run_id, "client": "alice", "thread_key": "k"}


class BusyIndex:
    """Fails to catch up, as where another process holds the database, the next `times` times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._catch_up = Index.catch_up
        monkeypatch.setattr(Index, "catch_up", lambda index: self.catch_up(index))

    def catch_up(self, index: Index) -> None:
        if self.times:
            self.times -= 1
            raise sqlite3.OperationalError("database is locked")
        self._catch_up(index)


@pytest.mark.parametrize("said", ["database or disk is full", "database is locked"])
def test_an_index_that_cannot_be_written_now_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    index = Index(written(tmp_path))
    index.catch_up()
    before = (tmp_path / INDEX_FILE).stat().st_ino
    tries: list[object] = []

    def refused(*_: object) -> None:
        tries.append(None)
        raise sqlite3.OperationalError(said)

    monkeypatch.setattr("service.audit.index.add", refused)
    with pytest.raises(sqlite3.OperationalError, match=said):
        index.catch_up()
    assert len(tries) == 1
    assert (tmp_path / INDEX_FILE).stat().st_ino == before
    assert index.has_run("r10")


async def test_a_run_that_the_index_had_missed_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyIndex(monkeypatch)
    async with audit_log(tmp_path) as log:
        busy.times = 1
        await log.append("run", run("slow"))
        assert busy.times == 0
        log.hold("run", run("slow"))
    assert [body["run_id"] for body in bodies(tmp_path)] == ["slow"]


async def test_a_held_run_waits_while_the_index_cannot_say_whether_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyIndex(monkeypatch)
    async with audit_log(tmp_path) as log:
        busy.times = 1
        log.hold("run", run("r1"))
        await log._in_thread(log._recover)
        assert log.state().detail == "database is locked"
        assert bodies(tmp_path) == []
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1"]


async def test_a_lost_run_that_the_index_had_missed_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Underway(tmp_path)
    dead.open()
    dead.put("r1", run("r1"))
    os.close(dead._owned)
    Writer(tmp_path, 10_000_000).append("run", run("r1"))  # killed before the note was taken away
    BusyIndex(monkeypatch).times = 1
    async with audit_log(tmp_path):
        pass
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1"]
