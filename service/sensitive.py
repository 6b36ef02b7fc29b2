"""What is private wherever text leaves this process: the operator's list, e-mail addresses, keys, numbers said to be
somebody's. Each adapter adds the rules of its own road out.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from service.errors import OperatorError

MAX_FILE_BYTES = 1_000_000
REGEX = "re:"

# Every repetition is bounded: a text made for it must not keep the process busy.
NUMBER_WORD = r"(?:number\b|num\b\.?|no\b\.?|nr\b\.?|id\b|ref(?:erence)?\b\.?|#)"
CODE = r"(?=[\w/-]{0,40}\d{2})[\w/-]{4,}"

EMAIL = r"[\w.%+'-]{1,64}@[\w-]+(?:\.[\w-]+)*"
CREDENTIALS = r"\b(?:bearer|basic)\s+[\w.~+/=-]{6,}"
ACCOUNT = rf"\b(?:account|a/c|sort\s+code|iban|passport|licence)\s*{NUMBER_WORD}?\s*[:#]?\s*{CODE}"

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def plain(text: str) -> str:
    """What is written in look-alike digits or parted by invisible characters must not slip through."""
    folded = unicodedata.normalize("NFKC", text)
    hidden = [c for c in set(folded) if not c.isspace() and unicodedata.category(c) in _HIDDEN]
    return folded.translate(dict.fromkeys(map(ord, hidden))) if hidden else folded


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
