"""Where a passage from the index stands on the page, though it may be cut, joined, straightened or have gaps."""

import re
from collections.abc import Iterator

from service.citations.page_text import PageText, fold, is_boundary
from service.model import Span

_WORD = re.compile(r"\w+")
_ELLIPSIS_AT_EDGE = re.compile(r"^[\s.\-]+|[\s.\-]+$")

_MAX_TARGETS = 8
# Looking for a passage that is not on the page costs a scan per word, up to 1 ms each on 500 KB.
_MAX_SCANS = 60
_MAX_GAP_CHARS = 400
_MIN_COVERAGE = 0.5

Stretch = tuple[int, int]
"""Folded positions `start:end` of the page."""


def locate(page: PageText, passage: str) -> list[list[Span]]:
    """Return the places where `passage` stands, each as pieces inside one block, in reading order.

    Only white space and invisible characters are folded while that finds it; then case, accents, quotes, dashes and
    compatibility forms; then words may be missing on either side (footnote marks, adverts, drawn list numbers). Less
    than half of the passage is not the passage: nothing is returned.
    """
    folded = fold(passage).strip()
    if not _WORD.search(folded):
        return []
    whole = _bounded(page, _occurrences(page.running, folded))
    if not whole:
        whole = _bounded(page, _occurrences(page.running, _ELLIPSIS_AT_EDGE.sub("", folded)))
    if whole:
        targets = [page.slices(start, end) for start, end in whole]
        exact = [target for target in targets if _plain(" ".join(map(page.raw, target))) == _plain(passage)]
        return exact or targets
    aligned = [piece for stretch in _aligned(page.running, folded) for piece in page.slices(*stretch)]
    return [aligned] if aligned else []


def _occurrences(text: str, needle: str) -> list[Stretch]:
    found: list[Stretch] = []
    at = text.find(needle)
    while at >= 0 and len(found) < 4 * _MAX_TARGETS:
        found.append((at, at + len(needle)))
        at = text.find(needle, at + 1)
    return found


def _bounded(page: PageText, stretches: list[Stretch]) -> list[Stretch]:
    """Keep the occurrences that are whole words, where there are any."""
    whole = [s for s in stretches if is_boundary(page.running, s[0]) and is_boundary(page.running, s[1])]
    return (whole or stretches)[-_MAX_TARGETS:]


def _plain(text: str) -> str:
    return " ".join("".join(char for char in text if char.isspace() or char.isprintable()).split())


def _aligned(text: str, passage: str) -> list[Stretch]:
    """Return the runs of the passage's words that stand on the page, in order and near each other."""
    runs = [run for run in _runs(text, passage) if len(_WORD.findall(passage, *run)) > 1]
    if not runs:
        return []
    anchor = max(range(len(runs)), key=lambda index: runs[index][1] - runs[index][0])
    placings = [
        _place(text, passage, runs, anchor, at)
        for at, _ in _occurrences(text, passage[slice(*runs[anchor])])[:_MAX_TARGETS]
    ]
    best = max(placings, key=_cover)
    return best if _cover(best) >= _MIN_COVERAGE * len(passage) else []


def _cover(stretches: list[Stretch]) -> int:
    return sum(end - start for start, end in stretches)


def _runs(text: str, passage: str) -> Iterator[Stretch]:
    """Cut the passage, from left to right, into the longest runs of words that stand somewhere in `text`."""
    words = [match.span() for match in _WORD.finditer(passage)]
    scans = first = 0
    while first < len(words) and scans < _MAX_SCANS:
        good, bad = first - 1, len(words)
        step = 1
        while bad - good > 1 and scans < _MAX_SCANS:
            middle = min(good + step, bad - 1)
            scans += 1
            if passage[words[first][0] : words[middle][1]] in text:
                good, step = middle, step * 2
            else:
                bad, step = middle, max((middle - good) // 2, 1)
        if good >= first:
            yield words[first][0], words[good][1]
        first = max(good, first) + 1


def _place(text: str, passage: str, runs: list[Stretch], anchor: int, at: int) -> list[Stretch]:
    """Put the runs round the anchor's occurrence at `at`; a run that does not stand near its neighbour is left out."""
    placed = [_with_punctuation(text, passage, runs[anchor], at)]
    for run in runs[anchor + 1 :]:
        end = placed[-1][1]
        found = text.find(passage[slice(*run)], end, end + _MAX_GAP_CHARS + run[1] - run[0])
        if found >= 0:
            placed.append(_with_punctuation(text, passage, run, found))
    for run in reversed(runs[:anchor]):
        start = placed[0][0]
        found = text.rfind(passage[slice(*run)], max(start - _MAX_GAP_CHARS - (run[1] - run[0]), 0), start)
        if found >= 0:
            placed.insert(0, _with_punctuation(text, passage, run, found))
    return placed


def _with_punctuation(text: str, passage: str, run: Stretch, at: int) -> Stretch:
    """Widen the run to the punctuation that passage and page share at its ends."""
    start, end = at, at + run[1] - run[0]
    before, after = run
    while before > 0 and start > 0 and _same_mark(passage[before - 1], text[start - 1]):
        before, start = before - 1, start - 1
    while after < len(passage) and end < len(text) and _same_mark(passage[after], text[end]):
        after, end = after + 1, end + 1
    return start, end


def _same_mark(one: str, other: str) -> bool:
    return one == other and not one.isalnum() and not one.isspace()
