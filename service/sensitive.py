"""What is private wherever text leaves this process: the operator's list, keys and other secrets, IBANs, e-mail
addresses, numbers said to be somebody's. Each road out (web, traces, log) adds the rules of its own.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from service.errors import OperatorError
from service.keys import KEY_PREFIX

MAX_FILE_BYTES = 1_000_000
REGEX = "re:"

# Every repetition is bounded: a text made for it must not keep the process busy.
NUMBER_WORD = r"(?:number\b|num\b\.?|no\b\.?|nr\b\.?|id\b|ref(?:erence)?\b\.?|#)"
CODE = r"(?=[\w/-]{0,40}\d{2})[\w/-]{4,}"

EMAIL = r"[\w.%+'-]{1,64}@[\w-]+(?:\.[\w-]+)*"
ACCOUNT = rf"\b(?:account|a/c|sort\s+code|iban|passport|licence)\s*{NUMBER_WORD}?\s*[:#]?\s*{CODE}"

# What opens a door, wherever it is written. Vendors begin their tokens with a word of their own, in lower case.
_TOKENS = rf"(?:{KEY_PREFIX[:-1]}|sk|pk|rk|gh[a-z]|github_pat|glpat|hf|xox[a-z])[-_]"
_SECRETS = (
    r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)",
    r"\b(?:bearer|basic)\s+[\w.~+/=-]{6,}",
    rf"\b(?-i:(?![A-Z_]+(?![\w-]))){_TOKENS}[\w-]{{8,}}",  # but not the name of a setting: HF_HUB_OFFLINE
    r"\b(?:api|key|token|secret)[-_](?=[\w-]{0,80}(?-i:\d|[a-z][A-Z]))[\w-]{8,}",
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

IBAN_LENGTHS = range(15, 35)  # ISO 13616: 15 (Norway) to 34
IBAN = re.compile(r"[A-Za-z]{2}\d{2}(?:[\s.\-_/]{0,2}[A-Za-z0-9]){11,30}", re.ASCII)
IBAN_STARTS = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=IBAN)|(?<=iban))[A-Za-z]{2}(?=\d\d)", re.ASCII)
IBAN_SHAPE = r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}\b"
"""Mistyped ones, too: for the roads on which rather too much is taken out than too little."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def plain(text: str) -> str:
    """What is written in look-alike digits or parted by invisible characters must not slip through."""
    folded = unicodedata.normalize("NFKC", text)
    hidden = [c for c in set(folded) if not c.isspace() and unicodedata.category(c) in _HIDDEN]
    return folded.translate(dict.fromkeys(map(ord, hidden))) if hidden else folded


def replaced(rules: Iterable[re.Pattern[str]], mark: str, text: str) -> str:
    for rule in rules:
        text = rule.sub(mark, text)
    return text


def without_secrets(mark: str, text: str) -> str:
    return replaced(SECRETS, mark, text)


def without_ibans(mark: str, text: str) -> str:
    """Every IBAN is taken out by its checksum, in any case and however it is grouped, whatever follows it."""
    kept, place = "", 0
    for found in IBAN_STARTS.finditer(text):
        end = iban_end(text, found.start()) if found.start() >= place else 0
        if end:
            kept += text[place : found.start()] + mark
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


def load_list(path: Path) -> tuple[list[re.Pattern[str]], str]:
    """Read the operator's file: one literal text a line, or a pattern after `re:`; `#` begins a comment line.

    A literal is matched as whole words, in any case and with any white space or hyphen between its words.

    Returns the patterns and the file's SHA-256. Raises `OperatorError` that names the line.
    """
    data = _read(path)
    return patterns_of(_lines(data, path.name), path.name), hashlib.sha256(data).hexdigest()


def load_names(file: str) -> list[re.Pattern[str]]:
    """The patterns of WEB_MASK_FILE; none where it is not set. Raises `OperatorError` that names the line."""
    return load_list(Path(file))[0] if file else []


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise OperatorError(f"WEB_MASK_FILE: {path.name} cannot be read ({error.strerror}).") from None
    if len(data) > MAX_FILE_BYTES:
        raise OperatorError(f"WEB_MASK_FILE: {path.name} is longer than {MAX_FILE_BYTES} bytes.")
    return data


def _lines(data: bytes, name: str) -> list[str]:
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise OperatorError(f"WEB_MASK_FILE: {name} is not UTF-8 text.") from None


def patterns_of(lines: Sequence[str], name: str) -> list[re.Pattern[str]]:
    """The patterns of an operator's file; the literals are one pattern. Raises `OperatorError`."""
    patterns: list[re.Pattern[str]] = []
    literals: list[str] = []
    for number, line in enumerate(lines, 1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if said.startswith(REGEX):
            patterns.append(_compiled(said.removeprefix(REGEX).strip(), f"{name}, line {number}"))
        else:
            literals.append(_literal(said, f"{name}, line {number}"))
    if literals:
        longest_first = sorted(set(literals), key=len, reverse=True)
        patterns.insert(0, re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)", re.IGNORECASE))
    return patterns


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise OperatorError(f"WEB_MASK_FILE: {where} is no regular expression ({error}).") from None
    if compiled.search(""):
        raise OperatorError(f"WEB_MASK_FILE: {where} matches the empty text, so it would mask nothing or everything.")
    return compiled


def _literal(said: str, where: str) -> str:
    words = re.findall(r"[^\s-]+", plain(said))
    if not any(character.isalnum() for word in words for character in word):
        raise OperatorError(f"WEB_MASK_FILE: {where} holds no letter or digit.")
    return r"[\s-]*".join(map(re.escape, words))
