"""What Quote can quote of a passage: units of its text, and rows of its tables below what heads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from service.llm.lexical import UNIT_MAX, units
from service.model import Passage, TableRow


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters `start:end` of a passage's text. `head`: where the caption and column headings of its table stand."""

    start: int
    end: int
    in_row: bool = False
    head: tuple[int, int] | None = None


def pieces(passage: Passage) -> list[Piece]:
    """Cut a passage into what can be quoted by itself, in order.

    A row of a table is quoted whole, since a figure says nothing without what it is a figure of; only one that is
    longer than `UNIT_MAX` is cut, as other text is. What heads a table, or leads in to one, is no piece.
    """
    found: list[Piece] = []
    at = 0
    for row in passage.rows:
        found += _without_lead_in(passage, list(_cut(passage, at, row.start)))
        if not row.heading:
            found += _of_row(passage, row)
        at = row.end
    return found + list(_cut(passage, at, len(passage.text)))


def _of_row(passage: Passage, row: TableRow) -> Iterator[Piece]:
    head = _head(passage.rows, row.table)
    if row.end - row.start <= UNIT_MAX:
        yield Piece(row.start, row.end, True, head)
        return
    for piece in _cut(passage, row.start, row.end):
        yield Piece(piece.start, piece.end, True, head)


def _cut(passage: Passage, start: int, end: int) -> Iterator[Piece]:
    return (Piece(start + first, start + last) for first, last in units(passage.text[start:end]))


def _without_lead_in(passage: Passage, before: list[Piece]) -> list[Piece]:
    leads_in = bool(before) and passage.text[: before[-1].end].endswith(":")
    return before[:-1] if leads_in else before


def _head(rows: Sequence[TableRow], table: int) -> tuple[int, int] | None:
    above = list(takewhile(lambda row: row.heading, (row for row in rows if row.table == table)))
    return (above[0].start, above[-1].end) if above else None
