"""What may be believed of a grader's or judge's text, by rule and without a second model call (invariant 6).

A server of the Messages API may ignore the schema it was given, so the text is read defensively: exactly one JSON
object, bare, in a code fence or between prose; `yes` and `no` as strings, in any case. Everything else is doubt, and
doubt is the result `error`, never `pass` and never `fail`. The words of an error begin with a code: `unavailable`,
`cut` or `unparsable`.
"""

import json
import unicodedata
from collections.abc import Sequence

from service.model import Grade, Judgement, Result

CUT = "cut"
UNPARSABLE = "unparsable"

MAX_TEXT = 100_000
"""Characters of a verdict that are looked at; a longer text is no verdict."""

MAX_WORDS = 500
MAX_LINE = 400

_YES_NO: dict[str, object] = {"type": "string", "enum": ["yes", "no"]}
_TEXT: dict[str, object] = {"type": "string"}


def _schema(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


GRADE_SCHEMA = _schema(relevant=_YES_NO, reason=_TEXT)
BATCH_SCHEMA = _schema(
    grades={"type": "array", "items": _schema(index={"type": "integer"}, relevant=_YES_NO, reason=_TEXT)}
)
GROUNDED_SCHEMA = _schema(supported=_YES_NO, problem=_TEXT)
ANSWERS_SCHEMA = _schema(answers=_YES_NO, problem=_TEXT)


class Doubt(Exception):
    """The text cannot be believed. `words` begin with a code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.words = f"{code}: {detail}"


def tidy(text: str, limit: int) -> str:
    """Return `text` on one line without control characters or lone surrogates, at most `limit` characters."""
    kept = "".join(" " if c.isspace() else c for c in text[: 4 * limit] if c.isspace() or not _unprintable(c))
    return " ".join(kept.split())[:limit]


def _unprintable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def one_line(text: str, otherwise: str) -> str:
    """Return a model's one-line text, or `otherwise` when it is empty or longer than 400 characters.

    A text that is too long is not cut: half a question asks something else.
    """
    line = tidy(text[: 4 * MAX_LINE], 4 * MAX_LINE)
    if len(line) > 1 and line[0] == line[-1] == '"':
        line = line[1:-1].strip()
    return line if line and len(line) <= MAX_LINE and len(text) <= 4 * MAX_LINE else otherwise


def one_object(text: str) -> dict[str, object]:
    """Return the one JSON object in `text`. Raises `Doubt` when there is none, a cut one, or more than one."""
    if len(text) > MAX_TEXT:
        raise Doubt(UNPARSABLE, "too long")
    start = text.find("{")
    if start < 0:
        raise Doubt(UNPARSABLE, "no JSON object")
    if text.lstrip().startswith("["):
        raise Doubt(UNPARSABLE, "a list, not an object")
    found: dict[str, object]  # what begins with a brace is an object or no JSON
    try:
        found, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        raise Doubt(UNPARSABLE, "not valid JSON") from None
    if "{" in text[end:]:
        raise Doubt(UNPARSABLE, "more than one object")
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("doubled key")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _yes(found: dict[str, object], key: str) -> bool:
    value = found.get(key)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("yes", "no"):
        raise Doubt(UNPARSABLE, f"{key} is neither yes nor no")
    return word == "yes"


def _words(found: dict[str, object], key: str) -> str:
    value = found.get(key, "")
    if not isinstance(value, str):
        raise Doubt(UNPARSABLE, f"{key} is not text")
    return tidy(value, MAX_WORDS)


def _result(found: dict[str, object], key: str) -> Result:
    return "pass" if _yes(found, key) else "fail"


def judgement_of(found: dict[str, object], key: str) -> Judgement:
    """Read `{key: yes|no, problem}`. Raises `Doubt`."""
    return Judgement(_result(found, key), _words(found, "problem"))


def grade_of(found: dict[str, object]) -> Grade:
    """Read `{relevant: yes|no, reason}`. Raises `Doubt`."""
    return Grade(_result(found, "relevant"), _words(found, "reason"))


def grades_of(found: dict[str, object], count: int) -> list[Grade]:
    """Read a batch: one grade for each of `count` passages, `error` where its index is missing or doubled.

    An entry that names no passage of the batch throws doubt on all the others (a model that counts from zero grades
    each passage by its neighbour), so that raises `Doubt`.
    """
    entries = found.get("grades")
    if not isinstance(entries, list):
        raise Doubt(UNPARSABLE, "grades is not a list")
    by_index: dict[int, list[Grade]] = {index: [] for index in range(1, count + 1)}
    for entry in entries:
        if not isinstance(entry, dict) or type(index := entry.get("index")) is not int or index not in by_index:
            raise Doubt(UNPARSABLE, "an entry names no passage")
        by_index[index].append(_grade_or_error(entry))
    return [_only(grades) for grades in by_index.values()]


def _grade_or_error(entry: dict[str, object]) -> Grade:
    try:
        return grade_of(entry)
    except Doubt as doubt:
        return Grade("error", doubt.words)


def _only(grades: Sequence[Grade]) -> Grade:
    if len(grades) == 1:
        return grades[0]
    return Grade("error", f"{UNPARSABLE}: {'graded more than once' if grades else 'not graded'}")
