"""What must not leave with a trace or a score.

Unlike a web query, a trace is read by people who look for a fault: a mark says what stood there, lines stay lines, and
a number is taken out where its checksum, its length or the words before it give it away.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from service.sensitive import ACCOUNT, EMAIL, plain, replaced, without_ibans, without_secrets

LONGEST = 50_000
"""Characters of one text in a trace; the audit log has the whole."""
SHORT = 100
"""Characters of a text whose mask is remembered for long."""
LONGEST_ID = 200
"""Langfuse drops a session or user id that is longer."""

CARD_LENGTHS = range(12, 20)  # ISO/IEC 7812: up to 19 digits
_FIRST_DIGIT = r"(?<!\d)(?<!\d[.,])"  # of a number, not the fraction of one

EMAILS = re.compile(EMAIL.replace("@", "(?:@|%40)"), re.IGNORECASE)
ACCOUNTS = re.compile(rf"{ACCOUNT}|\b\d\d-\d\d-\d\d\b", re.IGNORECASE)
CARDS = re.compile(rf"{_FIRST_DIGIT}\d(?:[\s\-_]{{0,2}}\d){{11,}}|{_FIRST_DIGIT}\d{{4}}(?:\.\d{{4}}){{3}}(?!\d)")
LONG_NUMBERS = re.compile(rf"(?<![A-Za-z]){_FIRST_DIGIT}\d{{8,}}(?![A-Za-z\d]|[.,]\d)")
_DOUBLED = str.maketrans("0123456789", "0246813579")  # twice the digit, its own digits added
_YEAR = re.compile(r"(?:19|20)\d\d")


class TraceMasks:
    """The built-in rules and the operator's list. `key` makes stand-ins that cannot be guessed from outside."""

    def __init__(self, names: Iterable[re.Pattern[str]] = (), key: bytes = b"") -> None:
        self._names = tuple(names)
        self._key = key
        # Codes, ids and titles are the same in many traces, a question stands in many spans of one: remembered, they
        # leave a fifth of the time (measured on runs of 40 candidates).
        self._known = lru_cache(maxsize=4096)(self._mask)
        self._recent = lru_cache(maxsize=32)(self._mask)

    def mask(self, text: str) -> str:
        """Return `text` with a mark in place of all that is private, cut at `LONGEST` characters."""
        return self._known(text) if len(text) <= SHORT else self._recent(text)

    def _mask(self, text: str) -> str:
        # The operator's first: a built-in rule must not cut a listed name in two.
        masked = replaced(self._names, "[name]", plain(text))
        masked = without_secrets("[secret]", masked)
        if "@" in masked or "%40" in masked:  # the rule is slow on the many texts without one
            masked = EMAILS.sub("[e-mail]", masked)
        masked = without_ibans("[iban]", masked)
        masked = ACCOUNTS.sub("[account]", masked)
        masked = CARDS.sub(without_cards, masked)
        masked = LONG_NUMBERS.sub("[number]", masked)
        return masked if len(masked) <= LONGEST else masked[:LONGEST] + " […]"

    def masked(self, value: Any) -> Any:
        """The same for every text in lists and dictionaries, keys included."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(str(key)): self.masked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.masked(item) for item in value]
        return value

    def identifier(self, name: str) -> str:
        """The name of a client or a thread, or a stand-in of its own where it is private: no two are mixed up."""
        if len(name) <= LONGEST_ID and self.mask(name) == name:
            return name
        return "masked-" + hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()[:24]


def without_cards(found: re.Match[str]) -> str:
    """Whole groups of digits that together are a card or account number by their check digit are taken out."""
    text = found[0]
    groups = list(re.finditer(r"\d+", text))
    kept, place = "", 0
    for start, end in card_spans([group[0] for group in groups]):
        kept += text[place : groups[start].start()] + "[number]"
        place = groups[end - 1].end()
    return kept + text[place:]


def card_spans(groups: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The half-open ranges of groups that pass Luhn's test, the longest first at each place."""
    start = 0
    while start < len(groups):
        end = card_end(groups, start)
        if end:
            yield start, end
        start = end or start + 1


def card_end(groups: Sequence[str], start: int) -> int:
    """Where the longest number that begins with this group ends, or 0."""
    digits, found = "", 0
    for end in range(start, len(groups)):
        digits += groups[end]
        if len(digits) >= CARD_LENGTHS.stop:
            break
        if len(digits) in CARD_LENGTHS and passes_luhn(digits) and not are_years(groups[start : end + 1]):
            found = end + 1
    return found


def are_years(groups: Sequence[str]) -> bool:
    return all(_YEAR.fullmatch(group) for group in groups)


def passes_luhn(digits: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    return sum(map(int, digits[-1::-2] + digits[-2::-2].translate(_DOUBLED))) % 10 == 0
