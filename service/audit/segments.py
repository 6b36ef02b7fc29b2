"""The log's files: `audit-<seq of its first record>.jsonl`, in the order of their names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"audit-([0-9]{12})\.jsonl")


@dataclass(frozen=True, slots=True)
class Place:
    """A line's place: the name of its file, its first byte, its length in bytes and its number, counted from 1."""

    segment: str
    offset: int
    length: int
    line: int


def segment_name(first_seq: int) -> str:
    return f"audit-{first_seq:012}.jsonl"


def first_seq_of(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0


def segments(folder: Path) -> list[str]:
    """The names of the log's files, oldest first; none where there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name))


def lines(folder: Path, segment: str, offset: int = 0) -> Iterator[tuple[Place, bytes]]:
    """Yield each line from the byte `offset` on; the last may lack its newline. Lines are counted from there."""
    with (folder / segment).open("rb") as file:
        file.seek(offset)
        for number, line in enumerate(file, start=1):
            yield Place(segment, offset, len(line), number), line
            offset += len(line)


def size_of(folder: Path, segment: str) -> int:
    """Bytes in a file of the log; -1 where there is none."""
    try:
        return (folder / segment).stat().st_size
    except FileNotFoundError:
        return -1
