"""Sentence spans of a text, for legal and financial English (other scripts are cut at their own full stops)."""

import re

_BREAKING_SPACE = re.compile(r"[\n\r\v\f\x85\u2028\u2029]+")
_END = re.compile(
    r"(?P<mark>[.!?…]+)(?:[\"'”’»)\]]|\[\d{1,3}\])*(?:(?<=[.!?…”’\")])\d{1,3})?(?=\s)|(?P<full>[。！？｡]+[」』”’）]*)"
)
_WORD_BEFORE = re.compile(r"[^\W_]+(?:\.[^\W_]+)*$")
_OPENERS = re.compile(r"\s*[\"'“‘«(\[]*")
_LETTERED = re.compile(r"\s*[(\[](?:[a-z]|[ivx]{1,4}|\d{1,2})[)\]]\s+[A-Z]")
_ENUMERATOR = re.compile(r"[(\[]?(?:\d+(?:\.\d+)*[A-Z]{0,2}|[A-Za-z]|[ivxIVX]{1,5})[)\]]?\.$")
_NUMBER_NEXT = re.compile(r"\s*[(\[]?(?:\d|[A-Z]{0,3}\d|[IVXLC]+\b|[A-Za-z][)\]]|[A-Z]\b)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# "Smith v. Jones": nobody ends a sentence with these.
_NEVER_LAST = _words("mr mrs ms messrs dr prof sir hon rev st v vs e.g i.e eg ie cf viz c.f q.v approx")
# "No. 5", "para. (a)": part of a reference where a number follows, the end of a sentence where none does.
_BEFORE_NUMBER = _words(
    "no nos art arts para paras par sec secs s ss sch reg regs r rr cl cls pt pts ch vol fig p pp n nn ex app abs c "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
# "Acme Ltd. Directors": the end of a sentence only before a word that usually opens one.
_MAYBE_LAST = _words("ltd inc co corp plc llp llc bros dept etc al ibid u.k u.s u.s.a e.u u.n a.m p.m ph.d")
_STARTERS = _words(
    "a an the this that these those it its he she they we you i if in on at as for from to by with where when while "
    "unless until under upon after before any all each every no none such there here however but and or nor not "
    "firms nothing see"
)
_NEXT_WORD = re.compile(r"[^\W\d_]+")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentence spans of `text`: half open, in code points, in order, without outer white space.

    A line break ends a sentence. Every character that is not white space lies in exactly one span.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for line in _BREAKING_SPACE.finditer(text):
        spans += _of_line(text, start, line.start())
        start = line.end()
    return spans + _of_line(text, start, len(text))


def _of_line(text: str, start: int, end: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for match in _END.finditer(text, start, end):
        if match["full"] or _ends_here(text, start, match, end):
            spans += _trimmed(text, start, match.end())
            start = match.end()
    return spans + _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> list[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [(start, end)] if start < end else []


def _ends_here(text: str, start: int, match: re.Match[str], line_end: int) -> bool:
    """Does the mark end the sentence that began at `start`? Decided by the word before and the word after."""
    after = _OPENERS.match(text, match.end(), line_end)
    following = text[after.end() : after.end() + 1] if after else ""
    lettered = _LETTERED.match(text, match.end(), line_end) is not None
    if following.islower() and not lettered:
        return False
    if match["mark"] != ".":
        return True
    if _is_enumerator(text, start, match.start()):
        return False
    return _full_stop_ends(text, match, line_end, after.end() if after else match.end())


def _is_enumerator(text: str, start: int, dot: int) -> bool:
    """Is all that stands before the full stop the number of the paragraph ("4.2.3.", "(a).")?"""
    opening = text[max(start, dot - 24) : dot + 1].lstrip()
    return _blank(text, start, dot - 24) and _ENUMERATOR.match(opening) is not None


def _blank(text: str, start: int, end: int) -> bool:
    return end <= start or not text[start : min(end, start + 200)].strip()


def _full_stop_ends(text: str, match: re.Match[str], line_end: int, next_start: int) -> bool:
    before = _WORD_BEFORE.search(text, max(0, match.start() - 24), match.start())
    if before is None:
        return True
    word = before[0].casefold()
    if word in _NEVER_LAST:
        return False
    if word in _BEFORE_NUMBER and _NUMBER_NEXT.match(text, match.end(), line_end):
        return False
    if word in _MAYBE_LAST or _is_initial(before[0]):
        following = _NEXT_WORD.match(text, next_start, line_end)
        return following is not None and following[0].casefold() in _STARTERS
    return True


def _is_initial(word: str) -> bool:
    """Is it "J" of "J. Smith", or "A.B" of "A.B. Smith"?"""
    return all(len(part) == 1 and part.isalpha() and part.isupper() for part in word.split("."))
