"""Files that appear whole or not at all, for their owner only, and names that outlast a crash."""

import os
from pathlib import Path
from uuid import uuid4


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one. It is for its owner only.

    Raises `OSError`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name[:16]}.{uuid4().hex}.tmp"
    try:
        with open(temporary, "xb", opener=private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def private(path: str, flags: int) -> int:
    """An opener that makes files for their owner only, whatever the umask."""
    return os.open(path, flags, 0o600)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
