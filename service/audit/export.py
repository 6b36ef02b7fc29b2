"""Picks records out of the log by client, time and thread. The lines leave byte for byte, so each keeps its hash."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from service.audit.chain import read_record
from service.audit.segments import lines, segments
from service.record import StoredRecord


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to pick; None takes all. `since` and `until` bound the time of writing: from the first up to the second."""

    client: str | None = None
    thread: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, record: StoredRecord) -> bool:
        body, at = record.body, datetime.fromisoformat(record.at)
        return (
            (self.client is None or body.get("client") == self.client)
            and (self.thread is None or body.get("thread_id") == self.thread)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


@dataclass(slots=True)
class Damaged:
    """How many lines were passed over, since they do not hold what their hash says."""

    lines: int = 0


def export(folder: Path, wanted: Wanted, damaged: Damaged) -> Iterator[bytes]:
    """Yield the wanted lines, in the order of the log. Blocks."""
    for name in segments(folder):
        for _, line in lines(folder, name):
            record = read_record(line)
            if record is None:
                damaged.lines += 1
            elif wanted.takes(record):
                yield line


def find_run(folder: Path, run_id: str) -> list[StoredRecord]:
    """The records that name this run (its own, feedback, scores) and the erasure of its thread, oldest first."""
    mark = f'"run_id":"{run_id}"'.encode()
    found: list[StoredRecord] = []
    thread_key = ""
    for name in segments(folder):
        for _, line in lines(folder, name):
            if mark not in line and not (thread_key and b'"kind":"erasure"' in line):
                continue
            record = read_record(line)
            if record is None:
                continue
            if record.body.get("run_id") == run_id:
                found.append(record)
                thread_key = thread_key or record.body["thread_key"]
            elif record.kind == "erasure" and record.body["thread_key"] == thread_key:
                found.append(record)
    return found
