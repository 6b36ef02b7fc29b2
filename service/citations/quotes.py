"""Checks each citation of an answer against the passage it cites, without a model.

Comparison folds white space and nothing else: not case, not quotation marks, not dashes. Bullets at the start of a
quotation's lines are the answer's layout: they may stand in the passage, and need not. What may be a sign (`+`, `>`,
any mark before a figure) is none.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.citations.quotation_marks import is_term, quotations
from service.citations.statements import Statement, statements
from service.knowledge.sentences import sentences
from service.model import CitationStatus, Passage, Source, Span

_ELLIPSIS = re.compile(r"\[\s*(?:…|\.\s?\.\s?\.)\s*\]|…|\.{3}|\. \. \.")
_BULLETS = re.compile(r"(?:\A|(?<=\n))(?:[ \t]*[-*][ \t]++(?![$£€¥]?[ \t]*[.,]?\d))+")
_TERM = re.compile(r"\d+(?:[.,]\d+)*|\w+")
_COMMON_WORDS = (
    "a an and are as at be been but by can for from had has have if in into is it its may must no not of on or shall "
    "should such than that the their them then there these they this to was were what when where which who will with "
    "would any each every"
)
_COMMON = frozenset(_COMMON_WORDS.split())
_INSIDE_NUMBER = re.compile(r"\d[.,]?\Z")
_GOES_ON = re.compile(r"[.,]?\d")
_HYPHENS = "-\u2010\u2011"

Score = Callable[[str, str], float]
"""How well a sentence (second) supports a claim (first); higher is better."""


@dataclass(frozen=True, slots=True)
class CitationDraft:
    """One citation as checked. `status` None: it quotes nothing, or terms only, so a calibrated score has to decide.

    `quote` is verbatim text of the passage of source `n` and `spans` are its places in the page's blocks; `claim` is
    the statement that carries the marker, without markers.
    """

    n: int
    quote: str
    spans: tuple[Span, ...]
    status: CitationStatus | None
    claim: str


def check(answer: str, sources: Sequence[Source]) -> list[CitationDraft]:
    """Return one draft per statement and number cited on it, in the order of the answer.

    What a statement puts in quotation marks is judged as a whole: each quotation must stand verbatim in at least one of
    the sources that the statement cites. Where one stands in none of them, every citation of the statement is
    `unsupported`. Otherwise the citation of source n is `verified` when n holds at least one quotation that proves
    something, and `unsupported` when it holds none at all. A term proves nothing of what is said about it, so where n
    holds terms only, or terms are all that is quoted, the score decides. A number without a source is `unsupported` and
    has an empty quote.
    """
    passages = {source.n: source.passage for source in sources}
    drafts: list[CitationDraft] = []
    for statement in statements(answer):
        if statement.numbers:
            drafts += _check_statement(statement, passages)
    return drafts


def _check_statement(statement: Statement, passages: dict[int, Passage]) -> list[CitationDraft]:
    quoted = quotations(statement.text)
    proving = _proving(quoted, statement.text)
    found = {
        n: [find_verbatim(quote, passages[n].text) if n in passages else None for quote in quoted]
        for n in statement.numbers
    }
    whole = all(any(places[index] is not None for places in found.values()) for index in range(len(quoted)))
    drafts: list[CitationDraft] = []
    for n in statement.numbers:
        if n not in passages:
            drafts.append(CitationDraft(n, "", (), "unsupported", statement.text))
            continue
        standing = [place for index in proving if (place := found[n][index]) is not None]
        status: CitationStatus | None = None
        if not whole:
            status = "unsupported"
        elif standing:
            status = "verified"
        elif proving and not any(found[n]):
            status = "unsupported"
        drafts.append(_draft(n, passages[n], standing, status, statement.text))
    return drafts


def _proving(quoted: Sequence[str], text: str) -> list[int]:
    """Return which quotations of a statement prove it: its sentences, and a short one that is all of the statement.

    A row whose cells stand in one pair of marks claims nothing but itself.
    """
    if len(quoted) == 1 and sum(map(str.isalnum, text)) == sum(map(str.isalnum, quoted[0])):
        return [0]
    return [index for index, quote in enumerate(quoted) if not is_term(quote)]


def _draft(
    n: int, passage: Passage, standing: Sequence[tuple[int, int]], status: CitationStatus | None, claim: str
) -> CitationDraft:
    """Show the longest quotation that stands and proves something, else the sentence nearest to the claim."""
    place = max(standing, key=lambda span: span[1] - span[0], default=None) or best_sentence(claim, passage.text)
    return CitationDraft(n, passage.text[slice(*place)], page_spans(passage, *place), status, claim)


def stands_verbatim(quote: str, text: str) -> bool:
    """Does `quote` stand in `text`, white-space runs (no-break spaces included) taken as one space?

    It must begin and end at whole words and numbers: "5 days" does not stand in "15 days", nor "bank" in "non-bank".
    Round an ellipsis (`…`, `...`, `[...]`) each part must stand, in order.
    """
    return find_verbatim(quote, text) is not None


def find_verbatim(quote: str, text: str) -> tuple[int, int] | None:
    """Return where `quote` stands in `text` (from its first part to its last), None where it does not."""
    place = _find(quote, text)
    return _find(_BULLETS.sub("", quote), text) if place is None and "\n" in quote else place


def _find(quote: str, text: str) -> tuple[int, int] | None:
    whole = _find_part(quote, text, 0)
    if whole is not None:
        return whole
    parts = [part for part in _ELLIPSIS.split(quote) if part.strip()]
    places: list[tuple[int, int]] = []
    for part in parts:
        place = _find_part(part, text, places[-1][1] if places else 0)
        if place is None:
            return None
        places.append(place)
    return (places[0][0], places[-1][1]) if places else None


def _find_part(part: str, text: str, start: int) -> tuple[int, int] | None:
    words = part.split()
    if not words:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    found = pattern.search(text, start)
    while found:
        if _is_whole(text, found.start(), found.end()):
            return found.span()
        found = pattern.search(text, found.start() + 1)
    return None


def _is_whole(text: str, start: int, end: int) -> bool:
    """Are `text[start:end]` whole words and numbers?"""
    before, after = text[max(start - 2, 0) : start], text[end : end + 2]
    if text[start].isalnum() and (_ends_in_word(before) or (text[start].isdigit() and _INSIDE_NUMBER.search(before))):
        return False
    return not (
        text[end - 1].isalnum() and (_ends_in_word(after[::-1]) or (text[end - 1].isdigit() and _GOES_ON.match(after)))
    )


def _ends_in_word(two: str) -> bool:
    """Does the text that ends with `two` reach into the word that follows ("x", "non-")?"""
    return two[-1:].isalnum() or (len(two) == 2 and two[1] in _HYPHENS and two[0].isalnum())


def lexical_overlap(claim: str, sentence: str) -> float:
    """Return how many of the claim's words and numbers the sentence shares, 0..1, long sentences discounted."""
    claimed, said = _terms(claim), _terms(sentence)
    shared = claimed & said
    # A figure or a date says more about which rule is meant than any one word.
    weight = sum(2.0 if term[0].isdigit() else 1.0 for term in shared)
    return weight / (2.0 * (len(claimed) * len(said)) ** 0.5) if shared else 0.0


def _terms(text: str) -> frozenset[str]:
    found = (match[0].casefold() for match in _TERM.finditer(text))
    # A crude stem, enough to let "records" meet "record" and "keeping" meet "keep".
    return frozenset(re.sub(r"(?<=\w{3})(?:ing|ed|es|s)$", "", term) for term in found if term not in _COMMON)


def best_sentence(claim: str, passage_text: str, score: Score = lexical_overlap) -> tuple[int, int]:
    """Return the span of the sentence of `passage_text` that best supports `claim`; the first where several do.

    A passage without any text gives (0, 0).
    """
    spans = sentences(passage_text)
    return max(spans, key=lambda span: score(claim, passage_text[slice(*span)]), default=(0, 0))


def page_spans(passage: Passage, start: int, end: int) -> tuple[Span, ...]:
    """Return the places in the page's blocks of characters `start:end` of `passage.text`."""
    found: list[Span] = []
    offset = 0
    for span in passage.spans:
        low, high = max(start - offset, 0), min(end - offset, span.end - span.start)
        if low < high:
            found.append(Span(span.block, span.start + low, span.start + high))
        offset += span.end - span.start + 1  # the newline that joins two slices
    return tuple(found)
