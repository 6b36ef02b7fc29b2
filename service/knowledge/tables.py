"""Tables that are cut into passages: what heads a table stands above its rows in each of them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from service.knowledge.readers.structure import Member
from service.model import Block, Span, TableRow

TableHeads = Mapping[int, Sequence[int]]
"""The blocks (indices, in order) that head a table: its caption and its column headings. By table."""


def table_heads(blocks: Sequence[Block]) -> dict[int, list[int]]:
    """Return what stands above the first row of each table that has rows."""
    heads: dict[int, list[int]] = {}
    with_rows = set()
    for index, block in enumerate(blocks):
        if isinstance(block, Member) and block.content and block.table:
            if not block.heading:
                with_rows.add(block.table)
            elif block.table not in with_rows:
                heads.setdefault(block.table, []).append(index)
    return {table: of for table, of in heads.items() if table in with_rows}


def headed(blocks: Sequence[Block], spans: Sequence[Span], heads: TableHeads) -> list[Span]:
    """Put what heads a table before the first of its rows in `spans`, which hold none of it."""
    found: list[Span] = []
    begun = set()
    for span in spans:
        table = _table_of(blocks[span.block])
        if table and table not in begun:
            begun.add(table)
            found += [Span(index, 0, len(blocks[index].text)) for index in heads.get(table, ())]
        found.append(span)
    return found


def table_rows(blocks: Sequence[Block], spans: Sequence[Span]) -> Iterator[TableRow]:
    """Yield the rows of tables in the text that `spans` make, each slice followed by a newline."""
    offset = 0
    for (table, _, heading), group in groupby(spans, key=lambda span: _row_of(blocks[span.block])):
        length = sum(span.end - span.start + 1 for span in group)
        if table:
            yield TableRow(offset, offset + length - 1, table, heading)
        offset += length


def _table_of(block: Block) -> int:
    return block.table if isinstance(block, Member) else 0


def _row_of(block: Block) -> tuple[int, int, bool]:
    return (block.table, block.row, block.heading) if isinstance(block, Member) and block.table else (0, 0, False)
