"""The statements of an answer that carry citation markers, and what they put in quotation marks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.citations.markers import find_markers
from service.knowledge.sentences import sentences

_ROW = re.compile(r"[ \t]*\|")
_QUOTED = re.compile(r"[ \t]*>[ \t]?")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")

_CLOSERS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", '"': '"'}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of an answer: characters `start:end` of it, with its markers.

    `text` is what it says, without markers and Markdown line marks (`-`, `>`, `1.`), lines joined by a space;
    `numbers` are the sources it cites, in order, each once.
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


def statements(answer: str) -> list[Statement]:
    """Cut `answer` into statements: sentences, table rows, quoted blocks.

    A marker belongs to the sentence whose last word stands before it, also after the full stop ("... five years.
    [[1]]"); a line of markers alone belongs to the statement before. A quotation is never cut.
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
    if unit.whole:
        spans = [(len(text) - len(text.lstrip()), len(text.rstrip()))]
    else:
        spans = _uncut_quotations(text, sentences(text))
    return [_statement(unit, text, spans, index) for index in range(len(spans))]


def _statement(unit: _Unit, text: str, spans: list[tuple[int, int]], index: int) -> Statement:
    start, end = spans[index]
    following = spans[index + 1][0] + 1 if index + 1 < len(spans) else len(text) + 1
    own = [marker for marker in unit.markers if (marker[0] > start or index == 0) and marker[0] < following]
    offset_end = max([unit.offsets[end - 1] + 1, *(marker[1] for marker in own)])
    numbers = tuple(dict.fromkeys(marker[2] for marker in own))
    return Statement(unit.offsets[start], offset_end, text[start:end], numbers)


def _uncut_quotations(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sentences that one pair of quotation marks holds together."""
    closed = [(start, end) for start, end, is_closed in _quoted_spans(text) if is_closed]
    joined: list[tuple[int, int]] = []
    for span in spans:
        if joined and any(start < joined[-1][1] and span[0] < end for start, end in closed if start < span[0]):
            joined[-1] = (joined[-1][0], span[1])
        else:
            joined.append(span)
    return joined


def _units(answer: str) -> Iterator[_Unit]:
    unit: _Unit | None = None
    kind = ""
    position = 0
    for line in answer.splitlines(keepends=True):
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


def quotations(sentence: str) -> list[str]:
    """Return what stands in quotation marks: “…”, "…", «…», »…«, „…“ and ‘…’, the outermost of nested ones, in order.

    A ’ or ' between letters is an apostrophe. A double quotation mark that is never closed opens a quotation that runs
    to the end: a quote must not escape the check by a missing mark.
    """
    spans = _outermost(_quoted_spans(sentence))
    return [sentence[start:end] for start, end, _ in spans if sentence[start:end].strip()]


def _quoted_spans(text: str) -> list[tuple[int, int, bool]]:
    """Return (start, end, is closed) of all quotations, nested ones too, without their marks."""
    found: list[tuple[int, int, bool]] = []
    opened: list[tuple[str, int]] = []
    for at, char in enumerate(text):
        level = _closes(text, at, char, opened)
        if level is not None:
            found.append((opened[level][1] + 1, at, True))
            del opened[level:]
        elif char in _CLOSERS and _opens(text, at, char):
            opened.append((char, at))
    return found + [(at + 1, len(text), False) for char, at in opened if char != "‘"]


def _outermost(spans: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    kept: list[tuple[int, int, bool]] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _opens(text: str, at: int, char: str) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if char in ("“", "„", "«"):
        return True
    # `"`, `‘` and `»` also close, or stand for inches or an apostrophe: they open only at the start of a word.
    return not before.isalnum() and bool(after) and not after.isspace()


def _closes(text: str, at: int, char: str, opened: list[tuple[str, int]]) -> int | None:
    """Return which open quotation the mark closes, None where it closes none."""
    if char == "’" and not _closes_single(text, at):
        return None
    if char == '"' and text[at - 1 : at].isspace():
        return None
    for level in range(len(opened) - 1, -1, -1):
        if char in _CLOSERS[opened[level][0]]:
            return level
        if opened[level][0] != "‘":
            return None
    return None


def _closes_single(text: str, at: int) -> bool:
    """A ’ closes unless a letter follows, or it is a plural's (“the firms’ money”) and a later one may close."""
    if text[at + 1 : at + 2].isalnum():
        return False
    rest = text[at + 1 :].partition("‘")[0]
    return text[at - 1 : at] != "s" or not re.search(r"’(?!\w)", rest)
