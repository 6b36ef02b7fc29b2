"""Audit logs for tests: written by the real writer, and read or spoilt by hand."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.audit.chain import encode, read_link
from service.audit.head import Head, write_head
from service.audit.log import AuditLog
from service.audit.segments import segments
from service.audit.writer import Writer

NO_FLOOR = 1


def written(folder: Path, count: int = 10, segment_bytes: int = 10_000_000) -> Path:
    """A log of `count` small records, from run r1 to run r<count>."""
    writer = Writer(folder, segment_bytes)
    writer.settle()
    for number in range(1, count + 1):
        writer.append("run", {"run_id": f"r{number}", "client": "alice", "thread_key": "k", "text": "word " * 9})
    return folder


@asynccontextmanager
async def audit_log(folder: Path, **options: Any) -> AsyncIterator[AuditLog]:
    log = await AuditLog.open(folder, **{"segment_bytes": 10_000_000, "min_free_bytes": NO_FLOOR, **options})
    try:
        yield log
    finally:
        await log.close()


def all_lines(folder: Path) -> list[bytes]:
    """Every line of the log, over its files."""
    return [line for name in segments(folder) for line in (folder / name).read_bytes().splitlines(keepends=True)]


def bodies(folder: Path, kind: str = "run") -> list[dict[str, Any]]:
    """The bodies of every record of a kind, in the order of the log."""
    return [record["body"] for record in map(json.loads, all_lines(folder)) if record["kind"] == kind]


def rewrite(folder: Path, lines: list[bytes]) -> None:
    """Put these lines in place of the log's only file."""
    [name] = segments(folder)
    (folder / name).write_bytes(b"".join(lines))


def forged(line: bytes, **changes: Any) -> bytes:
    """A line with another body and a hash of its own that fits it."""
    record = json.loads(line)
    return encode(record["seq"], record["at"], record["kind"], record["prev"], record["body"] | changes)[0]


def written_anew(folder: Path, text: str) -> None:
    """What someone with the folder and this code can do: the whole chain again with other words, head included."""
    lines, prev = [], "0" * 64
    for line in all_lines(folder):
        record = json.loads(line)
        new, prev = encode(record["seq"], record["at"], record["kind"], prev, record["body"] | {"text": text})
        lines.append(new)
    rewrite(folder, lines)
    last = read_link(lines[-1])
    assert last is not None
    write_head(folder, Head(last.seq, last.stated, segments(folder)[0], sum(map(len, lines))))
