"""Room set aside on the log's disk: when the disk is full, the runs under way still get their records in."""

import os
from pathlib import Path

RESERVE_FILE = "reserve"
RESERVE_BYTES = 4 * 1024 * 1024
"""A record is 10 to 40 kB, and at most MAX_RUNS (64) of them are under way."""


class Reserve:
    def __init__(self, folder: Path, size: int = RESERVE_BYTES) -> None:
        self._file = folder / RESERVE_FILE
        self._size = size

    def make(self) -> None:
        """Take the room, where it is not taken yet. Raises `OSError` when there is none."""
        if self._file.exists() and self._file.stat().st_size == self._size:
            return
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
        except OSError:
            self._file.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Give the room to the record that needs it; False where it was spent before."""
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        return True
