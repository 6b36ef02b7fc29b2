"""The audit log as the service uses it: written in a thread of its own, refusing runs that it could not record.

A record that cannot be written is held in memory and tried again; while one is held, or the disk has no room, `check`
refuses. What is still held when the process ends goes, whole, to the process's own log.
"""

import asyncio
import errno
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from service.audit.chain import dumped
from service.audit.decision import Decision
from service.audit.index import Index
from service.audit.lock import locked
from service.audit.reserve import Reserve
from service.audit.underway import Underway, forget
from service.audit.writer import Writer, Written
from service.errors import AuditDamaged, AuditUnavailable, OperatorError
from service.model import ComponentState
from service.record import RecordedRun, RecordKind

logger = logging.getLogger(__name__)

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
WRITE_S = 5.0
"""Longest wait for a record to be on disk. A disk that takes longer is treated as one that is away.

A stop of the service waits for it once: see `CLOSING_S` of the runs.
"""
CLOSE_S = 2.0
"""Longest wait, at the end of the process, for what is held. A record takes 1 to 50 ms on a disk that is well."""
TOO_SLOW = "the disk does not answer in time"
AGAIN_S = 2.0
WAITING = "a record is waiting to be written"
REFUSED = "The answer could not be recorded, so it is not given. Please try again in a moment."

T = TypeVar("T")


class AuditLog:
    """`AuditSink` on files. `min_free_bytes` is what must be free on their disk before a run may begin."""

    def __init__(self, folder: Path, *, segment_bytes: int, min_free_bytes: int) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._writer = Writer(folder, segment_bytes)
        self._index = Index(folder)
        self._reserve = Reserve(folder)
        self._underway = Underway(folder)
        self._held: deque[tuple[RecordKind, Mapping[str, Any]]] = deque()
        self._trouble = ""
        self._again: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")

    @classmethod
    async def open(cls, folder: Path, *, segment_bytes: int, min_free_bytes: int) -> Self:
        """Find the end of the log, mending what a crash has left. Raises `AuditDamaged` or `OperatorError`."""
        log = cls(folder, segment_bytes=segment_bytes, min_free_bytes=min_free_bytes)
        try:
            await log._in_thread(log._begin)
        except OSError as error:
            raise OperatorError(
                f"The audit log in {folder} cannot be written ({error.strerror or error}). Nothing is answered without "
                "it: make the folder writable."
            ) from None
        return log

    def _begin(self) -> None:
        self._writer.settle()
        self._note_places()
        self._underway.open()
        try:
            self._reserve.make()
            self._record_the_lost()
        except (OSError, sqlite3.Error) as error:
            self._fail(error)

    def _record_the_lost(self) -> None:
        """Give each run that died with its process its record. Processes that start together take turns."""
        with locked(self._underway.folder):
            for folder, notes in self._underway.left_behind():
                for body in notes:
                    if not self._is_recorded(body["run_id"]):
                        self._append("run", body)
                        logger.warning("run lost with its process run_id=%s", body["run_id"])
                forget(folder)

    def _is_recorded(self, run_id: str) -> bool:
        """Raises `OSError` or `sqlite3.Error` where that cannot be known: an index that is behind may not know it.

        Nor does a head that is behind, which the index does not read past.
        """
        self._writer.settle()
        self._index.catch_up()
        return self._index.has_run(run_id)

    def check(self) -> None:
        trouble = self._in_trouble() or self._no_room()
        if trouble:
            self._try_again_soon(0)
            logger.warning("run refused: audit: %s", trouble)
            raise AuditUnavailable(
                "Nothing can be recorded at the moment, so nothing is answered. Please try again later, and tell the "
                "operator: /readyz says why."
            )

    def _in_trouble(self) -> str:
        # Of its own accord a held record is trouble: the thread may clear `_trouble` while the loop holds one.
        return self._trouble or (WAITING if self._held else "")

    def _no_room(self) -> str:
        # One system call on a local folder; a file system that hangs would hang the writes as well.
        try:
            disk = os.statvfs(self._folder)
        except OSError as error:
            return f"the folder cannot be reached ({error.strerror})"
        free = disk.f_bavail * disk.f_frsize
        return "" if free >= self._min_free_bytes else f"{free // 1_000_000} MB free, AUDIT_MIN_FREE_MB asks for more"

    async def begin(self, body: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(WRITE_S):
                await self._in_thread(lambda: self._underway.put(body["run_id"], body))
        except OSError as error:
            self._fail(error)
            raise AuditUnavailable(REFUSED) from error

    async def append(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        decision = Decision()
        try:
            async with asyncio.timeout(WRITE_S):
                await self._in_thread(lambda: self._append(kind, body, decision))
        except (OSError, AuditDamaged) as error:
            if decision.give_up():
                self._fail(error)
                raise AuditUnavailable(REFUSED) from error
            logger.warning("record is on disk, what follows a record is slow or failed: %r", error)

    def hold(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        self._held.append((kind, body))
        self._trouble = self._trouble or WAITING
        self._try_again_soon(AGAIN_S)

    async def run(self, run_id: str, client: str) -> RecordedRun | None:
        return await asyncio.to_thread(self._run, run_id, client)

    def _run(self, run_id: str, client: str) -> RecordedRun | None:
        found = self._index.run(run_id, client)
        if found is None:  # another process on this log may have written it
            self._index.catch_up()
            found = self._index.run(run_id, client)
        if found is None:
            return None
        return RecordedRun(found, self._index.feedback(run_id), self._index.scores(run_id))

    async def runs_of(self, thread_key: str) -> int:
        return await asyncio.to_thread(self._index.runs_of, thread_key)

    def state(self) -> ComponentState:
        trouble = self._in_trouble() or self._no_room()
        if trouble:
            self._try_again_soon(0)
        return ComponentState("audit", not trouble, trouble or f"writing to {self._folder.name}/")

    async def write_held(self) -> None:
        """Write what is held, as far as it can be. What cannot goes to the process's log in full: it is not lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._in_thread(self._recover)
        for kind, body in list(self._held):  # a copy: where the time was up, the thread may go on taking from it
            logger.critical("audit record not written kind=%s body=%s", kind, dumped(body))

    async def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        await self.write_held()
        self._thread.shutdown(wait=False)
        self._underway.close()

    def _append(self, kind: RecordKind, body: Mapping[str, Any], decision: Decision | None = None) -> Written:
        """Write, with the reserved room where the disk is full, and note the place."""
        try:
            written = self._writer.append(kind, body, decision)
        except OSError as error:
            if error.errno not in NO_ROOM or not self._reserve.spend():
                raise
            self._trouble = f"the disk is full ({error.strerror})"
            written = self._writer.append(kind, body, decision)
        if kind == "run":
            self._underway.drop(body["run_id"])
        self._note_places()
        return written

    def _note_places(self) -> None:
        try:
            self._index.catch_up()
        except Exception:
            logger.exception("index of the audit log is behind")  # the next record, or the next reader, catches up

    def _recover(self) -> None:
        """Write what is held, in order, and take the reserved room again. In trouble still where that fails."""
        try:
            while self._held:
                kind, body = self._held[0]
                # One that was given up may stand there all the same, where the disk would not let it be taken back.
                if kind != "run" or not self._is_recorded(body["run_id"]):
                    self._append(kind, body)
                self._held.popleft()
            self._reserve.make()
        except (OSError, AuditDamaged, sqlite3.Error) as error:
            self._fail(error)
        except Exception as error:  # a bug: no one awaits this, and what is held must still be told of at the end
            logger.exception("audit log not recovered")
            self._fail(error)
        else:
            self._trouble = WAITING if self._held else ""

    def _fail(self, error: Exception) -> None:
        said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self._trouble = said or (TOO_SLOW if isinstance(error, TimeoutError) else type(error).__name__)
        logger.error("audit log cannot be written: %s", self._trouble)

    def _try_again_soon(self, delay_s: float) -> None:
        if self._again is None and self._in_trouble():
            self._again = asyncio.get_running_loop().call_later(delay_s, self._start_recovery)

    def _start_recovery(self) -> None:
        recovery = self._thread.submit(self._recover)
        loop = asyncio.get_running_loop()
        recovery.add_done_callback(lambda _: loop.call_soon_threadsafe(self._recovered))

    def _recovered(self) -> None:
        self._again = None
        if self._held:
            self._try_again_soon(AGAIN_S)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        # Shielded: a caller that leaves does not leave half a record.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
