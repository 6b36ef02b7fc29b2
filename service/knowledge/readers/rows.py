"""The rows of a page's tables, as they are met: which belong together, and which name the columns."""

from collections.abc import Iterator

from selectolax.lexbor import LexborNode

MAX_SPAN = 65_534
"""The HTML standard's longest rowspan."""


class Rows:
    """Numbers the tables of a page from 1, and their rows (captions among them), terms and definitions from 1."""

    def __init__(self) -> None:
        self._tables = self._rows = self._term = 0
        self._spanned: dict[int, tuple[int, int]] = {}  # by table: the row whose first cell spans more, and how many
        self._begun: set[int] = set()  # tables of which a row that is no heading was met

    def table(self, tag: str, above: int) -> int:
        """Return the table that an element stands in; terms and definitions stand in none."""
        if tag == "table":
            self._tables += 1
        return {"table": self._tables, "dl": 0}.get(tag, above)

    def row(self, node: LexborNode, tag: str, table: int, above: int) -> int:
        """Return the row that an element stands in. A definition belongs to the last term."""
        match tag:
            case "tr":
                return self._of_table(node, table)
            case "dt" | "caption":
                self._rows += 1
                self._term = self._rows if tag == "dt" else self._term
                return self._rows
            case "dd":
                return self._term
        return above

    def _of_table(self, node: LexborNode, table: int) -> int:
        """Number a row. A row whose first cell stands further up has that cell's number."""
        row, left = self._spanned.pop(table, (0, 0))
        if not left:
            self._rows += 1
            row, left = self._rows, _rows_spanned(next(_cells(node), None))
        if left > 1:
            self._spanned[table] = row, left - 1
        return row

    def names_columns(self, node: LexborNode, tag: str, table: int, above: bool) -> bool:
        """Does it head a table: a caption, a row of `thead`, a row of nothing but `th` above all others?"""
        if tag in ("caption", "table"):
            return tag == "caption"
        if tag != "tr":
            return above
        if node.parent is not None and node.parent.tag == "thead":
            return True
        cells = list(_cells(node))
        if table in self._begun or not all(_names_a_column(cell) for cell in cells):
            self._begun.add(table)
            return False
        return bool(cells)


def _cells(row: LexborNode) -> Iterator[LexborNode]:
    return (child for child in row.iter() if child.tag in ("td", "th"))


def _names_a_column(cell: LexborNode) -> bool:
    return cell.tag == "th" and (cell.attributes.get("scope") or "").lower() not in ("row", "rowgroup")


def _rows_spanned(cell: LexborNode | None) -> int:
    said = (cell.attributes.get("rowspan") or "") if cell is not None else ""
    return min(int(said), MAX_SPAN) if said.isdecimal() and said.isascii() and len(said) < 6 else 1
