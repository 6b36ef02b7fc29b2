"""Verifying a log while the service writes to it: what is half written is no fault, what is torn for good is."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.audit.lock import LOCK_FILE, locked
from service.audit.segments import segments
from service.audit.verify import Report, verify
from service.audit.writer import Writer, write_all
from service.audit_commands import report_lines
from tests.audit.logs import audit_log, written

LARGE = 10_000_000
BODY = {"run_id": "late", "client": "alice", "thread_key": "k"}


class SlowDisk:
    """Takes half of the next line, and the rest when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.half, self.free = threading.Event(), threading.Event()
        monkeypatch.setattr("service.audit.writer.write_all", self.write_all)

    def write_all(self, descriptor: int, data: bytes) -> None:
        write_all(descriptor, data[: len(data) // 2])
        self.half.set()
        self.free.wait(20)
        write_all(descriptor, data[len(data) // 2 :])


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def verified_while_written(folder: Path, disk: SlowDisk, pool: ThreadPoolExecutor) -> Report:
    """Verify from the middle of a line on; the rest of it is written while that goes on."""
    writing = pool.submit(Writer(folder, LARGE).append, "run", BODY)
    assert disk.half.wait(20)
    verifying = pool.submit(verify, folder)
    time.sleep(0.3)
    disk.free.set()
    writing.result(20)
    return verifying.result(20)


def test_a_line_that_is_being_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    report = verified_while_written(written(tmp_path), SlowDisk(monkeypatch), pool)
    assert report.whole, report.faults
    assert (report.records, report.unfinished) == (11, "")


def test_the_first_record_of_a_log_may_be_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: ThreadPoolExecutor
) -> None:
    Writer(tmp_path, LARGE).settle()
    report = verified_while_written(tmp_path, SlowDisk(monkeypatch), pool)
    assert report.whole, report.faults
    assert report.records == 1


def test_a_disk_that_hangs_in_the_middle_of_a_line_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.audit.verify.WAIT_S", 0.1)
    tear(written(tmp_path))
    with locked(tmp_path):
        report = verify(tmp_path)
    assert (report.whole, report.records) == (True, 10)
    assert any("line 11 has no end yet: it is being written" in line for line in report_lines(report, tmp_path))


async def test_a_line_torn_after_the_head_is_a_note_while_a_process_is_there_to_mend_it(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", BODY)
        tear(tmp_path)
        report = verify(tmp_path)
        assert (report.whole, report.records) == (True, 1)
        assert "The next record that is written mends it" in report.unfinished
        await log.append("run", BODY)
        assert (verify(tmp_path).repairs, verify(tmp_path).unfinished) == ([2], "")
    tear(tmp_path)
    assert [fault.what for fault in verify(tmp_path).faults] == ["torn"]


async def test_a_line_torn_before_the_head_is_a_fault_whoever_is_alive(tmp_path: Path) -> None:
    async with audit_log(tmp_path) as log:
        await log.append("run", BODY)
        await log.append("run", BODY)
        file = tmp_path / segments(tmp_path)[0]
        file.write_bytes(file.read_bytes()[:-20])
        assert [fault.what for fault in verify(tmp_path).faults] == ["torn", "cut off"]


def test_a_copy_of_a_log_is_verified_without_a_trace(tmp_path: Path) -> None:
    tear(written(tmp_path))
    (tmp_path / LOCK_FILE).unlink()
    before = sorted(os.listdir(tmp_path))
    assert [fault.what for fault in verify(tmp_path).faults] == ["torn"]
    assert sorted(os.listdir(tmp_path)) == before


def tear(folder: Path) -> None:
    """Leave the half of a record after the last one, as a kill does."""
    with (folder / segments(folder)[-1]).open("ab") as file:
        file.write(b'{"seq":99,"at":"2031')
