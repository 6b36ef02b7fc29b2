"""The head: a small file that says where the log ends, so that a log whose last records were cut off is found out.

It is written after each record, in place, within the first 512 bytes of its file: a disk writes such a sector whole or
not at all. It can therefore be behind the log after a crash, never ahead of it.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from service.audit.chain import GENESIS
from service.errors import AuditDamaged

HEAD_FILE = "head"
HEAD_BYTES = 400


@dataclass(frozen=True, slots=True)
class Head:
    """The last record that is on disk: its number and hash, and the size of its file up to it."""

    seq: int
    hash: str
    segment: str
    size: int


EMPTY = Head(0, GENESIS, "", 0)


def read_head(folder: Path) -> Head | None:
    """The head, or None where there is none. Raises `AuditDamaged` for a file that is no head."""
    try:
        raw = (folder / HEAD_FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(raw)
        return Head(int(fields["seq"]), str(fields["hash"]), str(fields["segment"]), int(fields["size"]))
    except (ValueError, KeyError, TypeError):
        raise AuditDamaged(f"The head of the audit log, {folder / HEAD_FILE}, is damaged. {WAY_OUT}") from None


def write_head(folder: Path, head: Head) -> None:
    """Raises `OSError`."""
    raw = json.dumps(asdict(head)).encode().ljust(HEAD_BYTES - 1) + b"\n"
    descriptor = os.open(folder / HEAD_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, raw, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


WAY_OUT = (
    "Nothing is answered until this is settled: `gatehouse audit verify` says what is wrong. Restore the folder from a "
    "backup, or keep it as evidence elsewhere and move it away to begin a new log."
)
