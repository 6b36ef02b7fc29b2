"""What a browser highlights for a text directive, written from the specification's own algorithm.

WICG "URL Fragment Text Directives", section "Navigating to a text fragment": "find a range from a text directive" and
"find a string in range". It shares no code with the service, and walks the page block by block as the steps say. A
page is a list of blocks as rendered. How words are bounded is the caller's choice, since browsers differ.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

Point = tuple[int, int]
"""(block, offset in the block)"""
Bounds = Callable[[str, int], bool]

_TOKEN = re.compile(r"\w(?:\w|(?<=\d)[.,;'’](?=\d)|(?<=[^\W\d])[.'’:](?=[^\W\d]))*")


def annex_29(text: str, at: int) -> bool:
    """Is `at` outside every word of Unicode Standard Annex 29?"""
    return not any(word.start() < at < word.end() for word in _TOKEN.finditer(text))


def unbounded(text: str, at: int) -> bool:
    """Every place will do, as in browsers that search inside words."""
    return 0 <= at <= len(text)


@dataclass(frozen=True)
class _Directive:
    start: str
    end: str | None = None
    prefix: str | None = None
    suffix: str | None = None


def find(directive: str, blocks: Sequence[str], bounds: Bounds = annex_29) -> tuple[Point, Point] | None:
    """Return the range that the directive highlights, None where the page stays dark or the directive is invalid."""
    parsed = _parse(directive)
    return _Search(blocks, bounds).find(parsed) if parsed else None


def _parse(directive: str) -> _Directive | None:
    if not directive.startswith("text=") or "&" in directive:
        return None
    tokens = directive[len("text=") :].split(",")
    prefix = tokens.pop(0)[:-1] if tokens[0].endswith("-") else None
    suffix = tokens.pop()[1:] if tokens and tokens[-1].startswith("-") else None
    terms = [prefix or "x", *tokens, suffix or "x"]
    if len(tokens) not in (1, 2) or any(not term or "-" in term for term in terms):
        return None
    decode = unquote
    return _Directive(
        decode(tokens[0]),
        decode(tokens[1]) if len(tokens) == 2 else None,
        decode(prefix) if prefix else None,
        decode(suffix) if suffix else None,
    )


def _base(text: str) -> tuple[str, list[int]]:
    """Return base characters without case, with the offset of the character that each comes from."""
    letters: list[str] = []
    offsets: list[int] = []
    for offset, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char).casefold():
            if unicodedata.category(part) not in ("Mn", "Cf"):
                letters.append(" " if part.isspace() else part)
                offsets.append(offset)
    return "".join(letters), [*offsets, len(text)]


class _Search:
    def __init__(self, blocks: Sequence[str], bounds: Bounds) -> None:
        self._blocks = blocks
        self._bounds = bounds

    def find(self, wanted: _Directive) -> tuple[Point, Point] | None:
        at: Point | None = (0, 0)
        while at is not None:
            begun, at = self._start(wanted, at)
            if begun is None:
                if at is None:
                    return None
                continue
            ended = self._end(wanted, begun)
            if ended == "nowhere":
                return None
            if isinstance(ended, tuple):
                return begun[0], ended
        return None

    def _start(self, wanted: _Directive, at: Point) -> tuple[tuple[Point, Point] | None, Point | None]:
        """Return a candidate for the start term and where to go on searching; (None, None) ends the search."""
        whole_end = wanted.end is not None or wanted.suffix is None
        if wanted.prefix is None:
            found = self._string(wanted.start, at, start_bounded=True, end_bounded=whole_end)
            return found, self._after(found[0]) if found else None
        before = self._string(wanted.prefix, at, start_bounded=True, end_bounded=False)
        touching = self._next_non_space(before[1]) if before else None
        if before is None or touching is None:
            return None, None
        found = self._string(wanted.start, touching, start_bounded=False, end_bounded=whole_end)
        if found is None:
            return None, None
        return (found if found[0] == touching else None), self._after(before[0])

    def _end(self, wanted: _Directive, begun: tuple[Point, Point]) -> Point | str:
        """Return the end of the range, "nowhere" when none can follow, "again" when another start is needed."""
        end: Point = begun[1]
        while True:
            if wanted.end is not None:
                found = self._string(wanted.end, end, start_bounded=True, end_bounded=wanted.suffix is None)
                if found is None:
                    return "nowhere"
                end = found[1]
            if wanted.suffix is None:
                return end
            touching = self._next_non_space(end)
            after = self._string(wanted.suffix, touching, start_bounded=False, end_bounded=True) if touching else None
            if after is None:
                return "nowhere"
            if after[0] == touching:
                return end
            if wanted.end is None:
                return "again"

    def _string(self, needle: str, at: Point, *, start_bounded: bool, end_bounded: bool) -> tuple[Point, Point] | None:
        """Find the first match from `at` on that lies in one block."""
        wanted = _base(needle)[0]
        for number in range(at[0], len(self._blocks)):
            block = self._blocks[number]
            letters, offsets = _base(block)
            place = letters.find(wanted)
            while place >= 0:
                start, end = offsets[place], offsets[place + len(wanted) - 1] + 1
                while end < len(block) and unicodedata.category(block[end]) == "Mn":
                    end += 1
                if (
                    (number, start) >= at
                    and (not start_bounded or self._bounds(block, start))
                    and (not end_bounded or self._bounds(block, end))
                ):
                    return (number, start), (number, end)
                place = letters.find(wanted, place + 1)
        return None

    def _after(self, point: Point) -> Point:
        return point[0], point[1] + 1

    def _next_non_space(self, point: Point) -> Point | None:
        offset = point[1]
        for number in range(point[0], len(self._blocks)):
            block = self._blocks[number]
            while offset < len(block):
                if not block[offset].isspace():
                    return number, offset
                offset += 1
            offset = 0
        return None
