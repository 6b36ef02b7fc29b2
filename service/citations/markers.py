"""Citation markers `[[n]]` in a stream of text, whatever the cuts between its pieces (invariants 5, 7 and 8).

A marker is `[[`, one to four ASCII digits without a leading zero, `]]`. Markers are found in the bytes of the text, not
in its Markdown: one inside a code fence counts too, since a stream cannot know yet that a fence will be closed.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from service.model import ABSTAIN

NUMBER = "[1-9][0-9]{0,3}"
MARKER = re.compile(rf"\[\[({NUMBER})\]\]")
_OPEN_MARKER = re.compile(rf"\[(?:\[(?:{NUMBER}\]?)?)?\Z")
_NUMERAL = re.compile(r"\[\[([0-9]+)\]\]")
_OPEN_NUMERAL = re.compile(r"\[(?:\[(?:[0-9]+\]?)?)?\Z")


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker `text[start:end]` that cites source `n`."""

    start: int
    end: int
    n: int


def find_markers(text: str) -> list[Marker]:
    """Return every marker of `text`, in order, known number or not."""
    return [Marker(found.start(), found.end(), int(found[1])) for found in MARKER.finditer(text)]


class MarkerFilter:
    """Passes a stream through so that no marker is split over two pieces, and records what it cites.

    `cited` holds the numbers among `numbers` in the order of their first marker; `unknown` the texts in double
    brackets that hold digits only and name no source (`[[99]]`, `[[0]]`, `[[007]]`, `[[12345]]`): a draft with one of
    them cites what does not exist. `[[x]]`, `[[-1]]`, `[2019]` are plain text. The pieces add up to the input exactly.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self.cited: list[int] = []
        self.unknown: list[str] = []
        self._numbers = frozenset(numbers)
        self._held = ""
        self._unread = ""

    def feed(self, text: str) -> list[str]:
        """Take the next piece of the stream; return what may be sent now, at most one piece.

        Held back is only an end that may still become a marker (`[`, `[[`, `[[1`, `[[12]`).
        """
        self._record(text)
        text = self._held + text
        still_open = _OPEN_MARKER.search(text)
        cut = still_open.start() if still_open else len(text)
        self._held = text[cut:]
        return [text[:cut]] if cut else []

    def flush(self) -> list[str]:
        """End the stream: return what was held back."""
        held, self._held = self._held, ""
        return [held] if held else []

    def _record(self, text: str) -> None:
        # Apart from what is held: `[[12345` is let go at once, yet `[[12345]]` must still be seen.
        text = self._unread + text
        for found in _NUMERAL.finditer(text):
            self._note(found)
        still_open = _OPEN_NUMERAL.search(text)
        self._unread = text[still_open.start() :] if still_open else ""

    def _note(self, found: re.Match[str]) -> None:
        marker = MARKER.fullmatch(found[0])
        if marker is None or int(marker[1]) not in self._numbers:
            self.unknown.append(found[0])
        elif int(marker[1]) not in self.cited:
            self.cited.append(int(marker[1]))


class AbstainGate:
    """Holds back the opening of a stream until it is certain whether it opens with `mark`.

    White space before the mark is allowed. Once the stream is known to abstain nothing of it is let through, what
    follows the mark included; once it is known not to, everything held is released unchanged.
    """

    def __init__(self, mark: str = ABSTAIN) -> None:
        self.abstained = False
        self._mark = mark
        self._held = ""
        self._decided = False

    def feed(self, text: str) -> str:
        """Take the next piece of the stream; return what may pass now, "" while undecided or abstained."""
        if self._decided:
            return "" if self.abstained else text
        self._held += text
        opening = self._held.lstrip()
        if self._mark.startswith(opening) and opening != self._mark:
            return ""
        self.abstained = opening.startswith(self._mark)
        return self._release()

    def flush(self) -> str:
        """End the stream: return what was held back, which was not the mark."""
        return self._release()

    def _release(self) -> str:
        self._decided = True
        held, self._held = self._held, ""
        return "" if self.abstained else held
