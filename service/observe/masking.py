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

from service.sensitive import ACCOUNT, CREDENTIALS, EMAIL, plain

LONGEST = 50_000
"""Characters of one text in a trace; the audit log has the whole."""
SHORT = 100
"""Characters of a text whose mask is remembered for long."""
LONGEST_ID = 200
"""Langfuse drops a session or user id that is longer."""

IBAN_LENGTHS = range(15, 35)  # ISO 13616: 15 (Norway) to 34
CARD_LENGTHS = range(12, 20)  # ISO/IEC 7812: up to 19 digits
_FIRST_DIGIT = r"(?<!\d)(?<!\d[.,])"  # of a number, not the fraction of one

_SECRETS = (
    r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)",
    CREDENTIALS,
    r"\b(?:sk|pk|rk|gh[a-z]?|glpat|hf|xox[a-z])[-_][\w-]{8,}",
    r"\b(?:api|key|token|secret)[-_](?=[\w-]{0,80}\d)[\w-]{8,}",
    r"\b(?:api[_ -]?key|access[_ -]?key|token|secret|password|passwd|pwd)\s*[:=]\s*[^\s,;]{4,}",
    r"(?:(?<=://)|(?<=//))[^\s/@:]{0,100}:[^\s/@]{1,200}(?=@)",  # the password in an address
)
_SECRETS_EXACT_CASE = (
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[\w-]{30,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",  # a JSON web token
    # Long, and of three kinds of characters: no word, and no checksum either, which is of lower-case letters.
    r"(?<![\w-])(?=[\w-]{0,199}[a-z])(?=[\w-]{0,199}[A-Z])(?=[\w-]{0,199}\d)[\w-]{32,200}(?![\w-])",
)

SECRETS = (
    *(re.compile(rule, re.IGNORECASE | re.DOTALL) for rule in _SECRETS),
    *map(re.compile, _SECRETS_EXACT_CASE),
)
EMAILS = re.compile(EMAIL.replace("@", "(?:@|%40)"), re.IGNORECASE)
ACCOUNTS = re.compile(rf"{ACCOUNT}|\b\d\d-\d\d-\d\d\b", re.IGNORECASE)
IBAN = re.compile(r"[A-Za-z]{2}\d{2}(?:[\s.\-_/]{0,2}[A-Za-z0-9]){11,30}", re.ASCII)
IBAN_STARTS = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=IBAN)|(?<=iban))[A-Za-z]{2}(?=\d\d)", re.ASCII)
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
        masked = replaced(SECRETS, "[secret]", masked)
        if "@" in masked or "%40" in masked:  # the rule is slow on the many texts without one
            masked = EMAILS.sub("[e-mail]", masked)
        masked = without_ibans(masked)
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


def replaced(rules: Iterable[re.Pattern[str]], mark: str, text: str) -> str:
    for rule in rules:
        text = rule.sub(mark, text)
    return text


def without_ibans(text: str) -> str:
    """Every IBAN is taken out by its checksum, whatever follows it."""
    kept, place = "", 0
    for found in IBAN_STARTS.finditer(text):
        end = iban_end(text, found.start()) if found.start() >= place else 0
        if end:
            kept += text[place : found.start()] + "[iban]"
            place = end
    return kept + text[place:]


def iban_end(text: str, start: int) -> int:
    """Where the longest IBAN that begins at `start` and ends with a word does, or 0."""
    found = IBAN.match(text, start)
    if not found:
        return 0
    places = [place for place in range(start, found.end()) if text[place].isalnum()]
    for length in reversed(IBAN_LENGTHS):
        end = places[length - 1] + 1 if len(places) >= length else 0
        if end and not text[end : end + 1].isalnum() and is_iban("".join(text[p] for p in places[:length])):
            return end
    return 0


def is_iban(compact: str) -> bool:
    """ISO 7064 MOD 97-10 over the rearranged characters, letters as 10 to 35."""
    rearranged = (compact[4:] + compact[:4]).upper()
    return int("".join(str(int(character, 36)) for character in rearranged)) % 97 == 1


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
