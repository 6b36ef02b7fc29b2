"""Appends records to the log's files. Blocking: `AuditLog` calls it in a thread of its own.

The head on disk, not this process's memory, says where the log ends: each append is made under the folder's lock and
begins by reading it, so that processes sharing a folder interleave whole records. What stands after the head was left
by a writer that died between the record and the head, or in the middle of a record: the first is adopted, the second
is taken out, kept beside the log, and a `repair` record says so.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.audit.chain import encode, read_link
from service.audit.decision import Decision
from service.audit.head import EMPTY, WAY_OUT, Head, read_head, write_head
from service.audit.lock import locked
from service.audit.segments import Place, lines, segment_name, segments, size_of
from service.errors import AuditDamaged
from service.files import sync_folder
from service.record import RecordKind, RepairRecord

logger = logging.getLogger(__name__)


class GivenUp(Exception):
    """The record was given up before it was on disk. Nothing of it is in the log."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record that is on disk, and where."""

    seq: int
    hash: str
    place: Place


class Writer:
    """The writing end of the log in `folder`; a file is followed by the next once it holds `segment_bytes`."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes

    def settle(self) -> Head:
        """Find the end of the log and mend what a crash has left there. Raises `OSError` or `AuditDamaged`."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._folder):
            return self._settled()

    def append(self, kind: RecordKind, body: Mapping[str, Any], decision: Decision | None = None) -> Written:
        """Write one record and wait until it is on disk; `decision` then says whether it is still wanted.

        Raises `OSError` or `GivenUp` (nothing was written), or `AuditDamaged`.
        """
        with locked(self._folder):
            return self._write(self._settled(), kind, body, decision or Decision())

    def _settled(self) -> Head:
        head = self._head()
        size = size_of(self._folder, head.segment) if head.segment else 0
        if size < head.size:
            raise AuditDamaged(f"The audit log ends before record {head.seq}, which its head names. {WAY_OUT}")
        later = [name for name in segments(self._folder) if name > head.segment]
        if size == head.size and not later:
            return head
        return self._mended(head, later)

    def _head(self) -> Head:
        head = read_head(self._folder)
        if head is None and any(size_of(self._folder, name) for name in segments(self._folder)):
            return self._first_of_a_crash()
        return head or EMPTY

    def _first_of_a_crash(self) -> Head:
        """A log without a head is whole only where the very first record was being written."""
        names = segments(self._folder)
        if names == [segment_name(1)] and sum(1 for _ in lines(self._folder, names[0])) == 1:
            return EMPTY
        raise AuditDamaged(f"The head of the audit log is missing from {self._folder}. {WAY_OUT}")

    def _mended(self, head: Head, later: list[str]) -> Head:
        """Adopt the whole records after the head, take out what is none."""
        for segment in ([head.segment] if head.segment else []) + later:
            start = head.size if segment == head.segment else 0
            for place, line in lines(self._folder, segment, start):
                link = read_link(line)
                if link is None or not link.whole or (link.seq, link.prev) != (head.seq + 1, head.hash):
                    return self._cut_out(head, place)
                head = Head(link.seq, link.stated, segment, place.offset + place.length)
        write_head(self._folder, head)
        return head

    def _cut_out(self, head: Head, place: Place) -> Head:
        """Keep the torn bytes in a file of their own, shorten the log to its last whole record, and say so in it."""
        with (self._folder / place.segment).open("rb") as file:
            file.seek(place.offset)
            torn = file.read()
        kept = f"torn-{head.seq + 1:012}-{hashlib.sha256(torn).hexdigest()[:8]}.bin"
        write_durably(self._folder / kept, torn)
        shorten(self._folder / place.segment, place.offset)
        write_head(self._folder, head)
        repair: RepairRecord = {
            "what": "the log ended in bytes that are no record, as a power cut or a kill leaves them",
            "segment": place.segment,
            "file": kept,
            "bytes": len(torn),
            "sha256": hashlib.sha256(torn).hexdigest(),
        }
        logger.warning("audit log mended: %d bytes after record %d moved to %s", len(torn), head.seq, kept)
        written = self._write(head, "repair", repair, Decision())
        return Head(written.seq, written.hash, written.place.segment, written.place.offset + written.place.length)

    def _write(self, head: Head, kind: RecordKind, body: Mapping[str, Any], decision: Decision) -> Written:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line, digest = encode(head.seq + 1, at, kind, head.hash, body)
        segment = head.segment if head.segment and head.size < self._segment_bytes else segment_name(head.seq + 1)
        offset = head.size if segment == head.segment else 0
        append_durably(self._folder / segment, offset, line, decision)
        self._name(Head(head.seq + 1, digest, segment, offset + len(line)))
        return Written(head.seq + 1, digest, Place(segment, offset, len(line), 0))

    def _name(self, head: Head) -> None:
        """The record is on disk already: a head that cannot be written is behind, and the next append catches up."""
        try:
            write_head(self._folder, head)
        except OSError as error:
            logger.warning("head of the audit log not written: %s", error)


def append_durably(file: Path, offset: int, line: bytes, decision: Decision) -> None:
    """Write a line at the end, which is at `offset`; where that fails, nothing of it stays.

    Raises `OSError`, or `GivenUp` where `decision` went against it meanwhile.
    """
    if decision.given_up:
        raise GivenUp
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        write_all(descriptor, line)
        os.fsync(descriptor)
        if offset == 0:
            sync_folder(file.parent)
        if not decision.keep():
            raise GivenUp
    except (OSError, GivenUp):
        os.ftruncate(descriptor, offset)
        raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """A disk that fills up takes a part and says so only when asked for the rest."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write_durably(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(file.parent)


def shorten(file: Path, size: int) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
