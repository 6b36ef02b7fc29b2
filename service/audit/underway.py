"""Notes of the runs under way, so that a process that is killed in mid-run still leaves a record of each.

A note is the record the run would have if nothing more were heard of it. It is taken away once the run's own record is
on disk; what a dead process has left is written into the log by the next one that opens it. Notes are not synced: they
survive the death of the process, and may not survive that of the machine.
"""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from service.audit.chain import dumped

OWNED = "owned"
"""A file in each process's folder that it holds a lock on while it lives: process numbers are used again."""
UNFINISHED = "."
"""Begins the name of a folder that is being made. It holds no notes yet."""
UNFINISHED_S = 86_400.0
"""Age at which such a folder is one whose process died in making it."""


class Underway:
    """This process's notes, in a folder of its own under the log's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "underway"
        self._mine = self.folder / secrets.token_hex(8)
        self._owned = -1

    def open(self) -> None:
        """Make the folder, locked before it has its name: unlocked it would pass for a dead process's.

        Raises `OSError`.
        """
        unfinished = self.folder / f"{UNFINISHED}{self._mine.name}"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        self._owned = os.open(unfinished / OWNED, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unfinished.rename(self._mine)

    def close(self) -> None:
        """Leave no folder behind; notes of runs that have no record yet stay for the next process."""
        if self._owned == -1:
            return
        (self._mine / OWNED).unlink(missing_ok=True)
        os.close(self._owned)
        with suppress(OSError):
            self._mine.rmdir()

    def put(self, run_id: str, body: Mapping[str, Any]) -> None:
        """Raises `OSError`."""
        note = self._mine / f"{run_id}.json"
        part = note.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(dumped(body), encoding="utf-8")
        part.rename(note)

    def drop(self, run_id: str) -> None:
        (self._mine / f"{run_id}.json").unlink(missing_ok=True)

    def left_behind(self) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
        """Yield each dead process's folder with its notes; the caller removes it once they are in the log."""
        for folder in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if folder.name.startswith(UNFINISHED):
                forget_if_old(folder)
            elif folder != self._mine and folder.is_dir() and not is_owned(folder):
                yield folder, [note for file in sorted(folder.glob("*.json")) if (note := read_note(file))]


def in_use(folder: Path) -> bool:
    """Does a process that is alive write to the log in `folder`? Not as far as can be seen where we may not look."""
    with suppress(OSError):
        return any(is_owned(one) for one in (folder / "underway").glob("*/"))
    return False


def is_owned(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / OWNED, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_note(file: Path) -> dict[str, Any] | None:
    """A note, or None for one that was lost with the machine."""
    try:
        note: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return note if isinstance(note.get("run_id"), str) else None
    except (OSError, ValueError, AttributeError):
        return None


def forget_if_old(unfinished: Path) -> None:
    with suppress(FileNotFoundError):  # it has its name by now
        if time.time() - unfinished.stat().st_mtime > UNFINISHED_S:
            forget(unfinished)


def forget(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
