"""Where each record of a run or a thread stands: a table beside the log, made from it and never trusted over it.

It may be behind the log, or be deleted: what is missing is read from the log again.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from service.audit.chain import read_record
from service.audit.head import EMPTY, read_head
from service.audit.segments import Place, first_seq_of, lines, segments
from service.record import StoredRecord

logger = logging.getLogger(__name__)

INDEX_FILE = "index.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS place (
    seq INTEGER PRIMARY KEY, kind TEXT, run_id TEXT, client TEXT, thread TEXT,
    segment TEXT, offset INTEGER, length INTEGER
);
CREATE INDEX IF NOT EXISTS by_run ON place (run_id);
CREATE INDEX IF NOT EXISTS by_thread ON place (thread);
"""
BATCH = 1000


class Index:
    """The table of the log in `folder`. A connection per use: it is asked from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / INDEX_FILE

    def catch_up(self) -> None:
        """Read what the log holds after the last record in the table. Blocks; raises `OSError` or `sqlite3.Error`."""
        try:
            self._catch_up()
        except sqlite3.OperationalError:  # a full disk or a lock: the table itself is sound
            raise
        except sqlite3.DatabaseError as error:
            logger.warning("index of the audit log made anew: %s", error)
            for file in self._folder.glob(f"{INDEX_FILE}*"):
                file.unlink()
            self._catch_up()

    def _catch_up(self) -> None:
        with self._open() as table:
            last, segment, offset = self._last(table)
            head = read_head(self._folder) or EMPTY
            batch: list[tuple[object, ...]] = []
            for record, place in records(self._folder, segment, offset):
                if last < record.seq <= head.seq:  # after the head another process may be writing still
                    batch.append(row_of(record, place))
                if len(batch) == BATCH:
                    add(table, batch)
                    batch = []
            add(table, batch)

    def _last(self, table: sqlite3.Connection) -> tuple[int, str, int]:
        row = table.execute("SELECT seq, segment, offset + length FROM place ORDER BY seq DESC LIMIT 1").fetchone()
        return row if row else (0, "", 0)

    def run(self, run_id: str, client: str) -> StoredRecord | None:
        """The client's run; None where there is none, or its thread was erased afterwards."""
        with self._open() as table:
            found = self._read(table, "run_id = ? AND kind = 'run' AND client = ?", run_id, client)
            if not found:
                return None
            erased = "SELECT 1 FROM place WHERE thread = ? AND kind = 'erasure' AND seq > ? LIMIT 1"
            gone = table.execute(erased, (found[0].body.get("thread_key", ""), found[0].seq)).fetchone()
        return None if gone else found[0]

    def has_run(self, run_id: str) -> bool:
        with self._open() as table:
            known = "SELECT 1 FROM place WHERE run_id = ? AND kind = 'run' LIMIT 1"
            return table.execute(known, (run_id,)).fetchone() is not None

    def feedback(self, run_id: str) -> list[StoredRecord]:
        with self._open() as table:
            return self._read(table, "run_id = ? AND kind = 'feedback'", run_id)

    def scores(self, run_id: str) -> list[StoredRecord]:
        with self._open() as table:
            return self._read(table, "run_id = ? AND kind = 'score'", run_id)

    def runs_of(self, thread_key: str) -> int:
        with self._open() as table:
            count = table.execute("SELECT COUNT(*) FROM place WHERE thread = ? AND kind = 'run'", (thread_key,))
            return int(count.fetchone()[0])

    def _read(self, table: sqlite3.Connection, where: str, run_id: str, *more: str) -> list[StoredRecord]:
        rows = table.execute(f"SELECT segment, offset, length FROM place WHERE {where} ORDER BY seq", (run_id, *more))
        found = [read_at(self._folder, *row) for row in rows.fetchall()]
        return [record for record in found if record is not None and record.body.get("run_id") == run_id]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Not synced: the log is, and the table can be made from it again.
        self._file.touch(mode=0o600)  # SQLite would make it with the process's umask
        with closing(sqlite3.connect(self._file, timeout=5, isolation_level=None)) as table:
            table.execute("PRAGMA journal_mode=WAL")
            table.execute("PRAGMA synchronous=OFF")
            table.executescript(SCHEMA)
            yield table


def records(folder: Path, segment: str = "", offset: int = 0) -> Iterator[tuple[StoredRecord, Place]]:
    """Yield the whole records of the log from the given byte of the given file on."""
    for name in segments(folder):
        if name < segment:
            continue
        for place, line in lines(folder, name, offset if name == segment else 0):
            record = read_record(line)
            if record is not None:
                yield record, place


def row_of(record: StoredRecord, place: Place) -> tuple[object, ...]:
    body = record.body
    run_id, thread = body.get("run_id", ""), body.get("thread_key", "")
    client = body.get("client", "")
    return record.seq, record.kind, run_id, client, thread, place.segment, place.offset, place.length


def add(table: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
    if rows:
        table.execute("BEGIN")
        table.executemany("INSERT OR IGNORE INTO place VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        table.execute("COMMIT")


def read_at(folder: Path, segment: str, offset: int, length: int) -> StoredRecord | None:
    """The record at a place of the log; None where something else stands there now."""
    if not first_seq_of(segment):
        return None
    try:
        with (folder / segment).open("rb") as file:
            file.seek(offset)
            return read_record(file.read(length))
    except OSError:
        return None
