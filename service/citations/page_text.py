"""A page's blocks as a browser's text search reads them, with the way back to the page's own characters.

Browsers match text fragments without regard to case and accents, and differ in what else they fold (dashes, ligatures,
ß). `fold` takes all of these together, so text that is unique here is unique in each of them.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from service.model import Span

_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i", "ð": "d", "þ": "th"})
_QUOTES = str.maketrans("‘’‚‛′`´“”„‟″«»‹›", "'''''''\"\"\"\"\"\"\"''")
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−⁃﹣－", "-"))
_RUN_OF_SPACES = re.compile(" {2,}")
_NOT_PLAIN = re.compile("[^ !-_a-~]+")
_STRIDE = 1024


class _FoldTable(dict[int, str]):
    """Code point to folded text, filled as code points are met (for str.translate)."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_char(chr(code))
        return folded


def _fold_char(char: str) -> str:
    if char.isspace():
        return " "
    plain = unicodedata.normalize("NFKD", char.translate(_QUOTES)).casefold().translate(_LETTERS).translate(_DASHES)
    plain = "".join(part for part in plain if unicodedata.category(part) not in ("Mn", "Me", "Cc", "Cf"))
    return "".join(_hiragana(" " if part.isspace() else part) for part in plain)


def _hiragana(char: str) -> str:
    return chr(ord(char) - 0x60) if "\u30a1" <= char <= "\u30f6" else char


_TABLE = _FoldTable()


def fold(text: str) -> str:
    """Return `text` without case, accents, invisible characters and typographic variants, white space runs as one."""
    # Most of a page is ASCII, which lower() alone folds: five times faster than translating every character.
    folded = _NOT_PLAIN.sub(lambda run: run[0].translate(_TABLE), text).lower()
    return _RUN_OF_SPACES.sub(" ", folded) if "  " in folded else folded


@lru_cache(maxsize=4096)
def _in_word(char: str) -> bool:
    # Combining marks and format characters join what stands around them.
    return char.isalnum() or char == "_" or unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf")


_MIDDLE_OF_WORD = frozenset(".․．'’‘＇·‧:：﹕")
_MIDDLE_OF_NUMBER = frozenset(".․．'’‘＇,;，；﹐﹔٬")


def _joins(before: str, middle: str, after: str) -> bool:
    """Does `middle` hold the word together, as in "lender's", "e.g", "3.5" and "25,000"?"""
    if middle in _MIDDLE_OF_NUMBER and before.isdigit() and after.isdigit():
        return True
    return middle in _MIDDLE_OF_WORD and _in_word(before) and _in_word(after)


def is_boundary(text: str, at: int) -> bool:
    """Is `at` a word boundary of `text` under every browser's rule?

    Unicode Standard Annex 29, rules WB4 to WB13b, made stricter at two points: scripts without spaces are bounded at
    punctuation only (their words come from a dictionary that differs by browser), and invisible characters bound
    nothing.
    """
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if _in_word(after) and (_in_word(before) or unicodedata.category(after)[0] in "MC"):
        return False
    if at + 1 < len(text) and _joins(before, after, text[at + 1]):
        return False
    return not (at >= 2 and _joins(text[at - 2], before, after))


class PageText:
    """The blocks of one page, folded and joined by newlines, searchable as one string.

    `text` begins and ends with a newline and has no empty lines; positions in it are "folded positions". `running` is
    the same text with spaces for newlines.
    """

    def __init__(self, blocks: Sequence[str]) -> None:
        self.blocks = tuple(blocks)
        folded = [fold(block).strip() for block in self.blocks]
        self._lengths = [len(block) for block in folded]
        self._starts: list[int] = []
        self._marks: dict[int, list[int]] = {}
        position = 1
        for block in folded:
            self._starts.append(position)
            position += len(block) + 1 if block else 0
        self.text = "\n" + "".join(block + "\n" for block in folded if block)
        self.running = self.text.replace("\n", " ")

    def raw(self, piece: Span) -> str:
        """Return the page's own characters of `piece`."""
        return self.blocks[piece.block][piece.start : piece.end]

    def folded_at(self, block: int, offset: int) -> int:
        """Return the folded position of character `offset` of `block`."""
        marks = self._marks_of(block)
        mark = min(offset // _STRIDE, len(marks) - 1)
        length = _grown(marks[mark], self.blocks[block], mark * _STRIDE, offset)
        return self._starts[block] + min(length, self._lengths[block])

    def _marks_of(self, block: int) -> list[int]:
        """Return the folded lengths of the block's first 0, 1024, 2048... characters: a block may be a whole file."""
        if block not in self._marks:
            raw, marks = self.blocks[block], [0]
            for start in range(0, len(raw) - _STRIDE, _STRIDE):
                marks.append(_grown(marks[-1], raw, start, start + _STRIDE))
            self._marks[block] = marks
        return self._marks[block]

    def slices(self, start: int, end: int) -> list[Span]:
        """Return the raw pieces behind folded positions `start:end`, one for each block touched."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        pieces = []
        for block in range(first, len(self.blocks)):
            if self._starts[block] >= end:
                break
            if self._lengths[block]:
                pieces.append(self._slice(block, start - self._starts[block], end - self._starts[block]))
        return [piece for piece in pieces if piece.start < piece.end]

    def _slice(self, block: int, start: int, end: int) -> Span:
        """Turn offsets in the folded block into offsets in the raw block; a letter cut in half is taken whole."""
        return Span(block, self._raw_offset(block, max(start, 0)), self._raw_offset(block, end - 1) + 1)

    def _raw_offset(self, block: int, position: int) -> int:
        """Return the offset of the character that `position` of the folded block comes from."""
        raw, marks = self.blocks[block], self._marks_of(block)
        mark = bisect_right(marks, position) - 1
        length, space = marks[mark], _ends_in_space(raw, mark * _STRIDE)
        for offset in range(mark * _STRIDE, len(raw)):
            folded = fold(raw[offset])
            length += 0 if space and folded == " " else len(folded)
            if length > position:
                return offset
            space = folded == " " or (space and not folded)
        return len(raw) - 1


def _ends_in_space(raw: str, offset: int) -> bool:
    """Is a space at `offset` one too many: after another, or at the start of the block?"""
    while offset > 0:
        folded = fold(raw[offset - 1])
        if folded:
            return folded[-1] == " "
        offset -= 1
    return True


def _grown(length: int, raw: str, start: int, end: int) -> int:
    """Return the folded length of `raw[:end]` from that of `raw[:start]`."""
    folded = fold(raw[start:end])
    merged = folded[:1] == " " and _ends_in_space(raw, start)
    return length + len(folded) - merged
