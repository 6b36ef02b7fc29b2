"""The statements of an answer that carry citation markers."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from service.citations.markers import find_markers
from service.citations.quotation_marks import paired_marks, quoted_spans
from service.knowledge.sentences import sentences

_ROW = re.compile(r"[ \t]*\|")
_QUOTED = re.compile(r"[ \t]*>[ \t]?")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of an answer: characters `start:end` of it, with its markers.

    `text` is what it says, without markers and Markdown line marks (`-`, `>`, `1.`), lines joined by a space. Inside a
    quotation line marks stay, and lines are joined by a line break: a `1.` there may be a word of the source. `numbers`
    are the sources it cites, in order, each once.
    """

    start: int
    end: int
    text: str
    numbers: tuple[int, ...]


@dataclass(slots=True)
class _Unit:
    """Lines that belong together, as kept characters with their offsets in the answer. `whole`: never cut further."""

    whole: bool
    chars: list[str]
    offsets: list[int]
    markers: list[tuple[int, int, int]]
    """(position among the kept characters, end in the answer, number)"""

    @property
    def text(self) -> str:
        return "".join(self.chars)


class _Held:
    """Stretches of a text that are held together: answers in the time of one bisection."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        in_order = sorted(spans)
        self._starts = [start for start, _ in in_order]
        self._ends = list(accumulate((end for _, end in in_order), max))

    def across(self, before: int, after: int) -> bool:
        """Does one stretch begin before `before` and end after `after`?"""
        index = bisect_left(self._starts, before)
        return index > 0 and self._ends[index - 1] > after


def statements(answer: str) -> list[Statement]:
    """Cut `answer` into statements: sentences, table rows, quoted blocks.

    A marker belongs to the sentence whose last word stands before it, also after the full stop ("... five years.
    [[1]]"); a line of markers alone belongs to the statement before. A quotation is never cut, whatever its lines look
    like; a mark that is never closed holds no further line.
    """
    found: list[Statement] = []
    for unit in _units(answer):
        if unit.text.strip():
            found += _of_unit(unit)
        elif found:
            found[-1] = _with_markers(found[-1], unit)
    return found


def _with_markers(statement: Statement, unit: _Unit) -> Statement:
    numbers = dict.fromkeys([*statement.numbers, *(n for _, _, n in unit.markers)])
    end = max([statement.end, *(end for _, end, _ in unit.markers)])
    return Statement(statement.start, end, statement.text, tuple(numbers))


def _of_unit(unit: _Unit) -> list[Statement]:
    text = unit.text
    if unit.whole or _is_one_quotation(unit, text):
        spans = [(len(text) - len(text.lstrip()), len(text.rstrip()))]
    else:
        spans = _uncut_quotations(text, sentences(text))
    return [_statement(unit, text, spans, index) for index in range(len(spans))]


def _is_one_quotation(unit: _Unit, text: str) -> bool:
    """Does it open with a quotation mark and end with its closer, and is cited there only?

    What is quoted may hold one mark of a pair: where no marker parts its sentences, the outer marks hold it together.
    """
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if not unit.markers or unit.markers[0][0] < end:
        return False
    outer = (start + 1, end - 1)
    return any((span.start, span.end) == outer and span.opener != "‘" for span in quoted_spans(text))


def _statement(unit: _Unit, text: str, spans: list[tuple[int, int]], index: int) -> Statement:
    start, end = spans[index]
    following = spans[index + 1][0] + 1 if index + 1 < len(spans) else len(text) + 1
    own = [marker for marker in unit.markers if (marker[0] > start or index == 0) and marker[0] < following]
    offset_end = max([unit.offsets[end - 1] + 1, *(marker[1] for marker in own)])
    numbers = tuple(dict.fromkeys(marker[2] for marker in own))
    return Statement(unit.offsets[start], offset_end, text[start:end], numbers)


def _uncut_quotations(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sentences that one pair of quotation marks holds together."""
    held = _Held((span.start, span.end) for span in quoted_spans(text) if span.closed)
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        # A line break is kept only where a quotation goes on.
        if joined and (held.across(joined[-1][1], start) or "\n" in text[joined[-1][1] : start]):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _units(answer: str) -> Iterator[_Unit]:
    unit: _Unit | None = None
    kind = ""
    position = 0
    held = _held_lines(answer)
    for line in answer.splitlines(keepends=True):
        if unit is not None and held.across(position, position):
            _add_quoted_line(unit, line, kind, position)
        else:
            line_kind, mark = _kind(line, kind)
            if unit is None or line_kind in ("row", "item", "heading") or line_kind != kind:
                if unit is not None:
                    yield unit
                unit = _Unit(line_kind in ("row", "quote"), [], [], [])
            kind = "text" if line_kind == "item" else line_kind
            _add_line(unit, line, mark, position)
        position += len(line)
    if unit is not None:
        yield unit


def _held_lines(answer: str) -> _Held:
    """Where in the answer a pair of double quotation marks holds lines together.

    A single one may be an apostrophe: too little to hold a list or two paragraphs together.
    """
    whole, position = _Unit(True, [], [], []), 0
    for line in answer.splitlines(keepends=True):
        _add_line(whole, line, 0, position)
        position += len(line)
    spans = [span for span in paired_marks(whole.text) if span.closed and span.opener != "‘"]
    return _Held((whole.offsets[span.start - 1], whole.offsets[span.end] + 1) for span in spans)


def _kind(line: str, previous: str) -> tuple[str, int]:
    """Return what the line is (row, quote, item, text, blank) and the length of its Markdown mark."""
    if not line.strip():
        return "blank", 0
    if _ROW.match(line):
        return "row", 0
    for name, pattern in (("quote", _QUOTED), ("item", _ITEM), ("heading", _HEADING)):
        mark = pattern.match(line)
        if mark:
            return name, mark.end()
    return ("quote" if previous == "quote" else "text"), len(line) - len(line.lstrip())


def _add_quoted_line(unit: _Unit, line: str, kind: str, position: int) -> None:
    """Add a line on which a quotation goes on: no mark is lost but the `>` of the block in which it stands."""
    block = _QUOTED.match(line) if kind == "quote" else None
    mark = block.end() if block else len(line) - len(line.lstrip())
    if not line[mark:].strip():
        return
    if unit.chars[-1:] == [" "]:
        unit.chars[-1] = "\n"
    _add_line(unit, line, mark, position)


def _add_line(unit: _Unit, line: str, mark: int, position: int) -> None:
    at = mark
    for marker in find_markers(line):
        _keep(unit, line, at, marker.start, position)
        if not line[marker.end : marker.end + 1].isalnum():
            _drop_trailing_space(unit)  # "five years [[1]]." says "five years."
        unit.markers.append((len(unit.chars), position + marker.end, marker.n))
        at = marker.end
    _keep(unit, line, at, len(line), position)


def _drop_trailing_space(unit: _Unit) -> None:
    while unit.chars and unit.chars[-1].isspace():
        unit.chars.pop()
        unit.offsets.pop()


def _keep(unit: _Unit, line: str, start: int, end: int, position: int) -> None:
    for at in range(start, end):
        unit.chars.append(" " if line[at] in "\r\n" else line[at])
        unit.offsets.append(position + at)
