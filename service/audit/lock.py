"""The lock of the log's folder: processes that share a log take turns, one record at a time."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "lock"
WAIT_S = 5.0
LOOK_S = 0.01


@contextmanager
def locked(folder: Path, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the folder's lock. The kernel frees it when its owner dies. Blocks; raises `OSError` after `wait_s`."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, time.monotonic() + wait_s)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("another process holds the audit log's lock") from None
            time.sleep(LOOK_S)
        else:
            return
