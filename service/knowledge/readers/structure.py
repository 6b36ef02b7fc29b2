"""From a page's rendered blocks to its structure: the path of headings and the number printed above each block."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from service.model import Block

Place = Literal["text", "heading", "cell", "term", "reference"]


@dataclass(frozen=True, slots=True, eq=False)
class Member(Block):
    """A block of a table row or of a term and its definition. It equals a `Block` of the same text.

    `row` tells a chunker which blocks belong together, `table` (0 for a term) which rows follow each other, `heading`
    which of them name the columns or the table (a caption).
    """

    row: int = 0
    table: int = 0
    heading: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(_fields(self))


def _fields(block: Block) -> tuple[object, ...]:
    return block.text, block.content, block.headings, block.section, block.anchor


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the markup a block begins. `level` is 1..6 in a heading, else 0.

    `element` tells the blocks of one heading (split by a `<br>`) from those of the next; `notes` are the ids of the
    elements around the block that a footnote mark may point to.
    """

    place: Place = "text"
    level: int = 0
    element: int = 0
    row: int = 0
    table: int = 0
    names_columns: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawBlock:
    """A block before its place in the structure is known.

    `number` is the text of an element marked as a number ("rule-no") that opens the block, else ""; `marks` are the
    ids of the footnotes that the block refers to.
    """

    text: str
    content: bool = True
    anchor: str = ""
    position: Position = Position()
    number: str = ""
    marks: tuple[str, ...] = ()


# The parts of a printed number. `_SP` includes the no-break space that usually follows a code.
_SP = r"[ \u00a0\t]"
_CODE = rf"(?!(?:GBP|EUR|USD|CHF|JPY|AED|SGD|HKD|AUD|CAD)\b)[A-Z]{{2,8}}(?:-[A-Z]{{1,4}})?{_SP}"
_PIECE = r"\d{1,4}[A-Z]{0,2}"
_WORD = r"(?:Part|Chapter|Section|Article|Art\.|Rule|Regulation|Schedule|Annex|Appendix|Clause|Paragraph)"
# A number opens its text when no word in small letters follows: "4.2 A firm" does, "3.5 per cent" does not.
_AFTER = rf"(?=[.:]?(?:{_SP}*$|{_SP}*(?:[\u2013\u2014-]{_SP}*)?(?:\((?:\w{{1,4}})\){_SP}*)?(?<={_SP}|\))[^a-z%€£$\s]))"
_CODED = re.compile(rf"{_CODE}{_PIECE}(?:\.{_PIECE})+{_AFTER}")
_CODED_CHAPTER = re.compile(rf"{_CODE}\d{{1,3}}[A-Z]?{_AFTER}")
_LONG = re.compile(rf"{_PIECE}(?:\.{_PIECE}){{2,}}{_AFTER}")
_SHORT = re.compile(rf"{_PIECE}\.{_PIECE}{_AFTER}")
_SIGN = re.compile(rf"§{_SP}?\d{{1,4}}[a-z]?\b")
_NAMED = re.compile(rf"{_WORD}{_SP}(?:\d{{1,4}}[A-Za-z]?(?:\.{_PIECE})*|[IVXLC]{{1,6}}|[A-Z])(?!\w)", re.IGNORECASE)
_BARE = re.compile(rf"\d{{1,3}}[A-Z]?(?=\.(?:{_SP}|$))")
_PLAIN = re.compile(r"\d{1,3}[A-Z]?")
_MARKED = re.compile(rf"(?:{_CODE})?{_PIECE}(?:\.{_PIECE})*$|§{_SP}?\d{{1,4}}[a-z]?$")
_FIGURE = re.compile(rf"\d{{1,2}}\.\d{{1,2}}\.(?:19|20)?\d\d(?!\d)|[\d.]+{_SP}+[A-Z]{{3}}\b(?!{_SP}[A-Z])")

_IN_CELL = (_CODED, _LONG, _SIGN)  # "4.25" in a table is a figure
_IN_TEXT = (_CODED, _LONG, _SHORT, _SIGN, _BARE)
_IN_HEADING = (_CODED, _CODED_CHAPTER, _LONG, _SHORT, _SIGN, _NAMED, _BARE)
# Under "4.2" or "Article 12" a bare "3." numbers a sub-item; under "Part 2" or after "12." it is the next rule.
_HAS_ITEMS = re.compile(r".*\.\d|(?:Article|Art\.|Rule|Regulation|Section|Clause|§)|[A-Z]{2,8}[^A-Za-z]")


def printed_number(block: RawBlock) -> str:
    """Return the number that the page prints at the start of the block for the rule it opens, else ""."""
    place = block.position.place
    if block.number or place == "term":
        marked = (block.number or block.text).strip().rstrip(".:")
        figure = place == "cell" and not any(pattern.match(marked) for pattern in _IN_CELL)
        if _MARKED.match(marked) and not figure:
            return marked
    return _number_at_start(block.text, place)


def _number_at_start(text: str, place: Place) -> str:
    if place == "text" and (named := _NAMED.match(text)) and named.end() == len(text):
        return named[0]
    patterns = {"cell": _IN_CELL, "heading": _IN_HEADING, "reference": ()}.get(place, _IN_TEXT)
    for pattern in patterns:
        match = pattern.match(text)
        if match and not _FIGURE.match(text):
            return match[0]
    return ""


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    element: int
    text: str
    section: str


class _Outline:
    """The headings open at this point of the page, and the number that stands."""

    def __init__(self) -> None:
        self.open: list[_Heading] = []
        self.section = ""
        self._row = 0
        self._before_row: str | None = None  # the number that stands again after a numbered table row

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading.text for heading in self.open)

    def enter(self, block: RawBlock, text: str) -> None:
        """Open a heading. An unnumbered one keeps the number of the heading above it, not of the last paragraph."""
        at = block.position
        if self.open and self.open[-1].element == at.element:
            return
        while self.open and self.open[-1].level >= at.level:
            self.open.pop()
        above = self.open[-1].section if self.open else ""
        self.section = printed_number(block) or above
        self._row, self._before_row = at.row, None
        self.open.append(_Heading(at.level, at.element, text, self.section))

    def read(self, block: RawBlock) -> None:
        opens_row = self._enter_row(block.position.row)
        in_cell = block.position.place == "cell"
        if in_cell and not opens_row:
            return  # only a row's first cell can number it: a number in another one cites a rule
        number = printed_number(block)
        if number and not (_PLAIN.fullmatch(number) and _HAS_ITEMS.match(self.section)):
            self._before_row = self.section if in_cell else None
            self.section = number

    def _enter_row(self, row: int) -> bool:
        changed, self._row = row != self._row, row
        if changed and self._before_row is not None:
            self.section, self._before_row = self._before_row, None
        return changed


def structured(blocks: Sequence[RawBlock]) -> tuple[Block, ...]:
    """Give each content block its headings path, outermost first, and the printed number that governs it.

    A footnote has the path and number of the block that refers to it.
    """
    headings: dict[int, list[str]] = {}
    for block in blocks:
        if block.content and block.position.level:
            headings.setdefault(block.position.element, []).append(block.text)
    outline = _Outline()
    marked: dict[str, tuple[tuple[str, ...], str]] = {}
    placed = []
    for block in blocks:
        note = next((marked[name] for name in block.position.notes if name in marked), None)
        heading = " ".join(headings.get(block.position.element, ()))
        path, section = note or _read(block, outline, heading)
        placed.append(_placed(block, path, section))
        for name in block.marks if note is None and block.content else ():
            marked.setdefault(name, (path, section))
    return tuple(placed)


def _read(block: RawBlock, outline: _Outline, heading: str) -> tuple[tuple[str, ...], str]:
    if block.content and block.position.level:
        outline.enter(block, heading)
    elif block.content:
        outline.read(block)
    return outline.path, outline.section


def _placed(block: RawBlock, path: tuple[str, ...], section: str) -> Block:
    at = block.position
    if not block.content:
        return Block(block.text, content=False, anchor=block.anchor)
    if at.row:
        return Member(block.text, True, path, section, block.anchor, at.row, at.table, at.names_columns)
    return Block(block.text, True, path, section, block.anchor)
