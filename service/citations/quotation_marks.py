"""Quotation marks in a text: which pairs of them hold what."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

QUOTED_SENTENCE_WORDS = 3
"""Fewer words in quotation marks are a term ("client money"), which a writer may name without quoting a source."""

_CLOSERS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", '"': '"'}
_MARK = re.compile('[“”„«»‘’"]')
_PAIRED = "“”„«»"
"""Double marks whose opener looks unlike its closer."""
_NEVER_CLOSED = ""
_WALLS = {'"': "“„«»", "’": ["“", "„", "«", "»", '"', _NEVER_CLOSED]}
"""What a closer does not reach over, where it is open: `"` and ’ may be no quotation marks at all."""
_BEFORE_WORD = "([{<>|*_~—–=/"
_SINGLE_MAY_CLOSE = re.compile(r"‘|’(?![^\W_])")


@dataclass(frozen=True, slots=True)
class Quoted:
    """Characters `start:end` of a text, which stand between the mark `opener` and its closer, if it is `closed`."""

    start: int
    end: int
    opener: str
    closed: bool


def quotations(sentence: str) -> list[str]:
    """Return what stands in quotation marks: “…”, "…", «…», »…«, „…“ and ‘…’, the outermost of nested ones, in order.

    A ’ or ' between letters is an apostrophe. A double quotation mark that is never closed opens a quotation that runs
    to the end, or to the closer that ends the text: a quote must not escape the check by a missing mark, and what is
    quoted may itself hold one mark of a pair (“He said: “A firm must act.”).
    """
    found = [sentence[span.start : span.end] for span in _outermost(quoted_spans(sentence))]
    return [quote for quote in found if quote.strip()]


def is_term(quote: str) -> bool:
    """Does it name something rather than say something? A dash or an ellipsis is no word."""
    return sum(any(map(str.isalnum, word)) for word in quote.split()) < QUOTED_SENTENCE_WORDS


def quoted_spans(text: str) -> list[Quoted]:
    """Return all quotations of a paragraph or a sentence, nested ones too. Takes time in proportion to the text."""
    ends = {mark: _last_closer(text, mark) for mark in _CLOSERS}
    found = paired_marks(text)
    return [span if span.closed else _ended(span, ends[span.opener]) for span in found] + _whole(text, found)


def paired_marks(text: str) -> list[Quoted]:
    """Return what each double or single opener opens, to the end of the text where none closes it.

    “ and its like pair among themselves, whatever stands between: a `"` too many does not keep them open.
    """
    marks = [(found.start(), found[0]) for found in _MARK.finditer(text)]
    paired = _pairs(text, [(at, mark) for at, mark in marks if mark in _PAIRED], frozenset())
    return _pairs(text, marks, frozenset(span.start - 1 for span in paired if not span.closed))


def _last_closer(text: str, mark: str) -> int:
    """Return where the closer of `mark` stands that ends the text, but for what is no word; -1 where none does."""
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    return max(text.rfind(closer, end) for closer in _CLOSERS[mark])


def _ended(span: Quoted, closer: int) -> Quoted:
    return Quoted(span.start, closer, span.opener, False) if closer > span.start else span


def _whole(text: str, found: Iterable[Quoted]) -> list[Quoted]:
    """Return the quotation that is the whole text where a closer in it left its last mark nothing to close."""
    start, end = len(text) - len(text.lstrip()), len(text.rstrip()) - 1
    surplus = end > start and text[end] in _CLOSERS.get(text[start], "") and text[start] != "‘"
    if not surplus or any(span.end == end or (span.start == start + 1 and not span.closed) for span in found):
        return []
    return [Quoted(start + 1, end, text[start], True)]


def _pairs(text: str, marks: Iterable[tuple[int, str]], never_closed: frozenset[int]) -> list[Quoted]:
    found: list[Quoted] = []
    opened = _Opened()
    for at, mark in marks:
        start = opened.closed_by(mark) if _may_close(text, at, mark) else None
        if start is not None:
            found.append(Quoted(start + 1, at, text[start], True))
            opened.drop_from(start)
        elif at in never_closed:
            found.append(Quoted(at + 1, len(text), mark, False))
            opened.add(_NEVER_CLOSED, at)
        elif mark in _CLOSERS and _opens(text, at, mark):
            opened.add(mark, at)
    return found + [Quoted(at + 1, len(text), text[at], False) for at in opened.doubles()]


class _Opened:
    """Where marks are open, by kind, so that a closer finds its opener without a walk over all of them."""

    def __init__(self) -> None:
        self._places: dict[str, list[int]] = {mark: [] for mark in (*_CLOSERS, _NEVER_CLOSED)}

    def add(self, kind: str, at: int) -> None:
        self._places[kind].append(at)

    def closed_by(self, mark: str) -> int | None:
        """Return where the mark stands that `mark` closes, None where it closes none."""
        start = self._last(opener for opener, closers in _CLOSERS.items() if mark in closers)
        return start if start >= 0 and self._last(_WALLS.get(mark, ())) < start else None

    def _last(self, kinds: Iterable[str]) -> int:
        return max((self._places[kind][-1] for kind in kinds if self._places[kind]), default=-1)

    def drop_from(self, start: int) -> None:
        for places in self._places.values():
            while places and places[-1] >= start:
                places.pop()

    def doubles(self) -> list[int]:
        return [at for mark in _CLOSERS if mark != "‘" for at in self._places[mark]]


def _outermost(spans: Iterable[Quoted]) -> list[Quoted]:
    kept: list[Quoted] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _opens(text: str, at: int, mark: str) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if mark in ("“", "„", "«"):
        return True
    # `"`, `‘` and `»` also close, or stand for inches or an apostrophe: they open only at the start of a word.
    return not before.isalnum() and bool(after) and not after.isspace()


def _may_close(text: str, at: int, mark: str) -> bool:
    if mark == "’":
        return _closes_single(text, at)
    if mark not in ('"', "“", "«"):
        return True
    # These also open, and do so at the start of a word.
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return not before.isspace() and not (before in _BEFORE_WORD and after.isalnum())


def _closes_single(text: str, at: int) -> bool:
    """A ’ closes unless a letter follows, or it is a plural's (“the firms’ money”) and a later one may close."""
    if text[at + 1 : at + 2].isalnum():
        return False
    later = _SINGLE_MAY_CLOSE.search(text, at + 1) if text[at - 1 : at] == "s" else None
    return later is None or later[0] == "‘"
