"""The log as the service uses it: full disks, records held, runs lost with their process, reading back."""

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.audit.index import INDEX_FILE
from service.audit.log import AuditLog
from service.audit.reserve import RESERVE_FILE
from service.audit.underway import Underway
from service.audit.verify import verify
from service.audit.writer import Writer
from service.errors import AuditDamaged, AuditUnavailable, OperatorError
from tests.audit.logs import all_lines, audit_log, bodies, rewrite, written


def run(run_id: str, **more: Any) -> dict[str, Any]:
    return {"run_id": run_id, "client": "alice", "thread_key": "k", **more}


class FullDisk:
    """Refuses every write while it is full; giving the reserve back makes room for `after_reserve` writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reserve: Path, after_reserve: int = 10**6) -> None:
        self.full = True
        self._reserve = reserve
        self._room = after_reserve
        self._write, self._allocate = os.write, os.posix_fallocate
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "posix_fallocate", self.allocate)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.full and (self._reserve.exists() or self._room == 0):
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= self.full
        return self._write(descriptor, data)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._allocate(descriptor, offset, length)


async def until_ready(log: AuditLog) -> None:
    for _ in range(200):
        if log.state().ok:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the log did not recover")


async def test_records_are_written_in_another_thread_and_read_back(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", run("r1", question="why?"))
        await log.append("feedback", run("r1", thumbs="up"))
        await log.append("run", run("r2"))
        found = await log.run("r1", "alice")
        assert found is not None
        assert (found.run.seq, found.run.body["question"]) == (1, "why?")
        assert [item.body["thumbs"] for item in found.feedback] == ["up"]
        assert await log.run("r3", "alice") is None
        assert await log.run("r1", "bob") is None
        assert await log.runs_of("k") == 2
        log.check()
        assert log.state().ok
    assert verify(tmp_path).whole


async def test_a_run_of_a_thread_that_was_erased_is_not_read_back_and_a_later_one_is(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", run("before"))
        await log.append("erasure", {"client": "alice", "thread_key": "k"})
        await log.append("run", run("after"))
        assert await log.run("before", "alice") is None
        assert await log.run("after", "alice") is not None
    assert [body["run_id"] for body in bodies(tmp_path)] == ["before", "after"]


async def test_a_disk_with_too_little_room_refuses_before_a_run_begins(tmp_path: Path) -> None:
    async with audit_log(tmp_path, min_free_bytes=10**18) as log:
        with pytest.raises(AuditUnavailable, match="try again later") as refused:
            log.check()
        assert (refused.value.status, refused.value.retryable) == (503, True)
        assert not log.state().ok
        assert "AUDIT_MIN_FREE_MB" in log.state().detail


async def test_a_disk_that_fills_up_still_takes_the_runs_under_way_and_then_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", run("before"))
        disk = FullDisk(monkeypatch, tmp_path / RESERVE_FILE)
        await log.append("run", run("under way 1"))
        with pytest.raises(AuditUnavailable):
            log.check()
        await log.append("run", run("under way 2"))
        disk.full = False
        await until_ready(log)
        log.check()
        assert (tmp_path / RESERVE_FILE).exists()
        await log.append("run", run("after"))
    assert [body["run_id"] for body in bodies(tmp_path)] == ["before", "under way 1", "under way 2", "after"]
    assert verify(tmp_path).whole


async def test_a_record_that_cannot_be_written_at_all_is_held_and_written_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)
    async with audit_log(tmp_path) as log:
        disk = FullDisk(monkeypatch, tmp_path / RESERVE_FILE, after_reserve=0)
        with pytest.raises(AuditUnavailable):
            await log.append("run", run("held"))
        log.hold("run", run("held"))
        with pytest.raises(AuditUnavailable):
            log.check()
        await asyncio.sleep(0.1)
        disk.full = False
        await until_ready(log)
        log.check()
    assert [body["run_id"] for body in bodies(tmp_path)] == ["held"]
    assert verify(tmp_path).whole


async def test_a_record_that_can_never_be_written_goes_whole_to_the_log_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with audit_log(tmp_path) as log:
        FullDisk(monkeypatch, tmp_path / RESERVE_FILE, after_reserve=0)
        log.hold("run", run("r1", question="what was asked"))
    monkeypatch.undo()
    [lost] = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert '"question":"what was asked"' in lost.getMessage()


class SlowDisk:
    """Every fsync waits until `go_on`, as on a disk that hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.waiting = threading.Event()
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr("service.audit.log.WRITE_S", 0.05)
        monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)

    def fsync(self, descriptor: int) -> None:
        self.waiting.set()
        self.go_on.wait(5)
        self._fsync(descriptor)


async def test_a_write_that_was_given_up_as_too_slow_is_taken_back_and_what_was_told_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with audit_log(tmp_path) as log:
        disk = SlowDisk(monkeypatch)
        with pytest.raises(AuditUnavailable):
            await log.append("run", run("slow", told="answered"))
        log.hold("run", run("slow", told="an error"))
        assert disk.waiting.is_set()
        disk.go_on.set()
        await until_ready(log)
        await log.append("run", run("next"))
        assert await log.run("slow", "alice") is not None
    assert [(body["run_id"], body.get("told")) for body in bodies(tmp_path)] == [("slow", "an error"), ("next", None)]
    assert verify(tmp_path).whole


async def test_a_write_that_never_began_when_it_was_given_up_is_not_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with audit_log(tmp_path) as log:
        disk = SlowDisk(monkeypatch)
        both = [log.append("run", run("first")), log.append("run", run("queued behind it"))]
        assert [type(fault) for fault in await asyncio.gather(*both, return_exceptions=True)] == [AuditUnavailable] * 2
        assert not log.state().ok
        assert "disk" in log.state().detail
        disk.go_on.set()
        await until_ready(log)
    assert bodies(tmp_path) == []
    assert verify(tmp_path).whole


async def test_a_record_on_disk_counts_however_slow_what_follows_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.audit.log.WRITE_S", 0.05)
    go_on = threading.Event()
    async with audit_log(tmp_path) as log:
        monkeypatch.setattr(log._index, "catch_up", lambda: go_on.wait(5))
        await log.append("run", run("r1"))
        log.check()
        go_on.set()
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1"]


async def test_a_record_whose_head_could_not_be_written_is_not_written_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)

    def no_head(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with audit_log(tmp_path) as log:
        await log.append("run", run("before"))
        with monkeypatch.context() as broken:
            broken.setattr("service.audit.writer.write_head", no_head)
            await log.append("run", run("r1", told="answered"))
        log.hold("run", run("r1", told="an error"))
        await until_ready(log)
    assert [(body["run_id"], body.get("told")) for body in bodies(tmp_path)] == [("before", None), ("r1", "answered")]
    assert verify(tmp_path).whole


async def test_a_run_whose_process_died_before_the_head_was_written_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with audit_log(tmp_path) as log, audit_log(tmp_path) as other:
        dead = Underway(tmp_path)
        dead.open()
        dead.put("r1", run("r1", ending={"code": "lost"}))
        with monkeypatch.context() as broken:
            broken.setattr("service.audit.writer.write_head", lambda *_: None)
            Writer(tmp_path, 10_000_000).append("run", run("r1", ending={"code": ""}))
        os.close(dead._owned)
        await other.append("run", run("r2"))
        log._record_the_lost()
    assert [body["run_id"] for body in bodies(tmp_path)] == ["r1", "r2"]


async def test_a_caller_that_leaves_does_not_leave_half_a_record(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        for number in range(20):
            task = asyncio.create_task(log.append("run", run(f"r{number}")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
    assert verify(tmp_path).records == 20


async def test_a_run_that_died_with_its_process_gets_its_record_from_the_next(tmp_path: Path) -> None:
    dead = Underway(tmp_path)
    dead.open()
    dead.put("r1", run("r1", ending={"code": "lost"}))
    dead.put("r2", run("r2", ending={"code": "lost"}))
    os.close(dead._owned)  # what the kernel does for a process that is killed
    Writer(tmp_path, 10_000_000).append("run", run("r2", ending={"code": ""}))  # killed before the note was taken away
    async with audit_log(tmp_path):
        assert [body["run_id"] for body in bodies(tmp_path)] == ["r2", "r1"]
    async with audit_log(tmp_path):
        assert len(bodies(tmp_path)) == 2
    assert not any(entry.is_dir() for entry in (tmp_path / "underway").iterdir())


async def test_the_notes_of_a_process_that_lives_are_left_alone(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as first:
        await first.begin(run("r1"))
        async with audit_log(tmp_path):
            pass
        await first.append("run", run("r1", answer="mine"))
    assert [body.get("answer") for body in bodies(tmp_path)] == ["mine"]


async def test_two_services_on_one_log_read_each_others_runs(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as one, audit_log(tmp_path) as two:
        await asyncio.gather(
            *(log.append("run", run(f"{n}-{i}")) for n, log in enumerate((one, two)) for i in range(20))
        )
        for log in (one, two):
            assert await log.run("0-7", "alice") is not None
            assert await log.run("1-7", "alice") is not None
    assert verify(tmp_path).whole
    assert verify(tmp_path).records == 40


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(b"no database" * 500)])
async def test_an_index_that_is_gone_or_damaged_is_made_from_the_log_again(tmp_path: Path, spoil: Any) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", run("r1"))
    spoil(tmp_path / INDEX_FILE)
    async with audit_log(tmp_path) as log:
        assert await log.run("r1", "alice") is not None


async def test_a_record_that_was_changed_is_not_given_out(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", run("r1", answer="the words"))
        rewrite(tmp_path, [line.replace(b"the words", b"her words") for line in all_lines(tmp_path)])
        assert await log.run("r1", "alice") is None


async def test_a_service_does_not_start_on_a_damaged_log(tmp_path: Path) -> None:
    rewrite(written(tmp_path), all_lines(tmp_path)[:-1])
    with pytest.raises(AuditDamaged, match="Restore the folder"):
        await AuditLog.open(tmp_path, segment_bytes=10_000, min_free_bytes=1)


async def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="make the folder writable"):
        await AuditLog.open(tmp_path / "file" / "audit", segment_bytes=10_000, min_free_bytes=1)


async def test_a_record_that_is_held_when_the_trouble_is_over_still_refuses_runs(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        log._held.append(("run", {"run_id": "r9"}))
        log._trouble = ""
        with pytest.raises(AuditUnavailable):
            log.check()
        log._held.clear()
        log.check()


async def test_what_is_held_when_the_disk_is_away_at_the_end_is_told_whole_in_the_process_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a bug keeps it from being written."""
    async with audit_log(tmp_path) as log:
        await log.append("run", run("before"))
        log.hold("run", run("held 1"))
        log.hold("run", run("held 2", question="how long?"))
        for fault in (OSError(errno.EIO, "Input/output error"), TypeError("a bug")):
            monkeypatch.setattr(Writer, "settle", failing(fault))
            caplog.clear()
            await log.write_held()
            told = [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]
            assert [next(run_id for run_id in ("held 1", "held 2") if run_id in line) for line in told] == [
                "held 1",
                "held 2",
            ]
            assert "how long?" in told[1]
        monkeypatch.undo()
    assert [body["run_id"] for body in bodies(tmp_path)] == ["before", "held 1", "held 2"]


def failing(fault: Exception) -> Callable[[Writer], None]:
    def settle(_: Writer) -> None:
        raise fault

    return settle
