"""Cuts a passage into terms that a text directive may carry, and finds the words round a term that single it out."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.citations.page_text import PageText, fold, is_boundary
from service.model import Span

_SHORT_TERM_WORDS, _SHORT_TERM_CHARS = 8, 100
_TERM_WORDS = (5, 8, 12, 20)
# Fewer than three words of context are often as common as the term itself.
_CONTEXT_WORDS = (3, 5, 8, 12)
_MAX_CONTEXT_CHARS = 400
_MAX_PARTS = 12

_WORD = re.compile(r"[^\s。、！？；，]+[。、！？；，]*")
_LOOSE_MARKS = re.compile(r"[-‐‑–—:~,;.…|/*•·‣]+")
_FINAL_MARKS = ".,;:!?。、！？；，"
# White space runs and stray characters, over which browsers disagree: no term holds one.
_GAP = re.compile(r"\s{2,}|[\x00-\x08\x0e-\x1f\x7f\ufffc\ufffd\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Context:
    """What stands immediately before and after a term, to tell it from its likes."""

    prefix: Span | None = None
    suffix: Span | None = None


def clipped(page: PageText, spans: Sequence[Span]) -> list[Span]:
    """Return `spans` in reading order, cut to the blocks there are, empty ones left out."""
    inside = sorted((span for span in spans if 0 <= span.block < len(page.blocks)), key=lambda s: (s.block, s.start))
    cut = [Span(span.block, max(span.start, 0), min(span.end, len(page.blocks[span.block]))) for span in inside]
    return [span for span in cut if span.start < span.end]


def atoms_of(page: PageText, target: Sequence[Span]) -> list[Span]:
    """Cut `target` into the longest pieces that are safe as one term each, trimmed to whole words."""
    return [atom for piece in _joined(page, target) for atom in _atoms(page, piece)]


def _joined(page: PageText, target: Sequence[Span]) -> list[Span]:
    """Make one piece of neighbours with nothing but white space between them."""
    pieces: list[Span] = []
    for piece in target:
        last = pieces[-1] if pieces else None
        if last and last.block == piece.block and not page.blocks[piece.block][last.end : piece.start].strip():
            pieces[-1] = Span(last.block, last.start, max(last.end, piece.end))
        else:
            pieces.append(piece)
    return pieces


def _atoms(page: PageText, piece: Span) -> list[Span]:
    raw = page.raw(piece)
    cuts = sorted([match.span() for match in _GAP.finditer(raw)] + _decomposed_words(raw))
    edges = [0, *(offset for cut in cuts for offset in cut), len(raw)]
    stretches = zip(edges[::2], edges[1::2], strict=True)
    atoms = (trimmed(page, Span(piece.block, piece.start + start, piece.start + end)) for start, end in stretches)
    return [atom for atom in atoms if atom is not None]


def _decomposed_words(raw: str) -> list[tuple[int, int]]:
    """Return the inner words spelt with combining marks that have a composed form: browsers differ on those."""
    if unicodedata.is_normalized("NFC", raw):
        return []
    words = [match.span() for match in _WORD.finditer(raw)][1:-1]
    return [word for word in words if not unicodedata.is_normalized("NFC", raw[slice(*word)])]


def trimmed(page: PageText, piece: Span) -> Span | None:
    """Take broken words and loose punctuation off both ends; None where no letter or digit is left."""
    text, start, end = page.blocks[piece.block], piece.start, piece.end
    while True:
        while start < end and (text[start].isspace() or not is_boundary(text, start)):
            start += 1
        while end > start and (text[end - 1].isspace() or not is_boundary(text, end)):
            end -= 1
        words = text[start:end].split()
        if words and _LOOSE_MARKS.fullmatch(words[0]):
            start += len(words[0])
        elif words and _LOOSE_MARKS.fullmatch(words[-1]):
            end -= len(words[-1])
        else:
            break
    return Span(piece.block, start, end) if any(map(str.isalnum, text[start:end])) else None


def parts(atoms: Sequence[Span]) -> Iterator[Sequence[Span]]:
    """Yield all atoms, then, longest first, what is left with up to three off either end, and single atoms."""
    if not atoms:
        return
    yield atoms
    count = len(atoms)
    shorter = [atoms[cut : count - other] for cut in range(4) for other in range(4) if 0 < cut + other < count - 1]
    singles = [[atom] for atom in atoms] if count > 1 else []
    longest = sorted([*shorter, *singles], key=lambda part: sum(atom.end - atom.start for atom in part), reverse=True)
    yield from longest[:_MAX_PARTS]


# The ends of a long passage


def heads(page: PageText, atom: Span) -> list[Span]:
    """Return opening terms of `atom`, to be tried in order: all of it where short, else its first words, growing."""
    if _is_short(page, atom):
        return [atom]
    words = _words(page, atom)
    cuts = [words[count - 1][1] for count in _TERM_WORDS if count < len(words)]
    terms = [trimmed(page, Span(atom.block, atom.start, cut)) for cut in cuts]
    return [term for term in terms if term is not None and term.start == atom.start]


def tails(page: PageText, atom: Span) -> list[Span]:
    """Return closing terms of `atom`, to be tried in order: all of it where short, else its last words, growing."""
    if _is_short(page, atom):
        return [atom]
    words = _words(page, atom)
    cuts = [words[-count][0] for count in _TERM_WORDS if count < len(words)]
    terms = [trimmed(page, Span(atom.block, cut, atom.end)) for cut in cuts]
    return [term for term in terms if term is not None and term.end == atom.end]


def _words(page: PageText, atom: Span) -> list[tuple[int, int]]:
    return [match.span() for match in _WORD.finditer(page.blocks[atom.block], atom.start, atom.end)]


def _is_short(page: PageText, atom: Span) -> bool:
    words = _words(page, atom)
    return len(words) <= _TERM_WORDS[0] or (
        len(words) <= _SHORT_TERM_WORDS and atom.end - atom.start <= _SHORT_TERM_CHARS
    )


# Context


def contexts(page: PageText, term: Span) -> Iterator[Context]:
    """Yield ways to single out `term`, the plainest first: none, words after it or before it, both.

    Words of the term's own block are preferred to those of a neighbour, and a line above (often a heading) to one
    below.
    """
    before, after = prefixes(page, term), suffixes(page, term)
    yield Context()
    one_sided = [Context(prefix=prefix) for prefix in before] + [Context(suffix=suffix) for suffix in after]
    yield from sorted(one_sided, key=lambda context: _rank(term, context))
    yield from (Context(prefix, suffix) for prefix, suffix in zip(before[-1:], after[-1:], strict=False))


def _rank(term: Span, context: Context) -> int:
    if context.suffix is not None:
        return 0 if context.suffix.block == term.block else 3
    return 1 if context.prefix is not None and context.prefix.block == term.block else 2


def prefixes(page: PageText, term: Span) -> list[Span]:
    """Return texts that touch the start of `term`, short to long: of its own block, else of the block before."""
    own = Span(term.block, max(term.start - _MAX_CONTEXT_CHARS, 0), term.start)
    if page.raw(own).strip():
        return _distinct(_prefix(page, own, count) for count in _CONTEXT_WORDS)
    other = _neighbour(page, term, -1)
    return [] if other is None else _unlike(page, term, _distinct(_prefix(page, other, n) for n in _CONTEXT_WORDS))


def suffixes(page: PageText, term: Span) -> list[Span]:
    """Return texts that touch the end of `term`, short to long: of its own block, else of the block after."""
    own = Span(term.block, term.end, min(term.end + _MAX_CONTEXT_CHARS, len(page.blocks[term.block])))
    if page.raw(own).strip():
        return _distinct(_suffix(page, own, count) for count in _CONTEXT_WORDS)
    other = _neighbour(page, term, 1)
    return [] if other is None else _unlike(page, term, _distinct(_suffix(page, other, n) for n in _CONTEXT_WORDS))


def _neighbour(page: PageText, term: Span, step: int) -> Span | None:
    number = term.block + step
    while 0 <= number < len(page.blocks) and not page.blocks[number].strip():
        number += step
    if not 0 <= number < len(page.blocks):
        return None
    length = len(page.blocks[number])
    start, end = (max(length - _MAX_CONTEXT_CHARS, 0), length) if step < 0 else (0, min(length, _MAX_CONTEXT_CHARS))
    return Span(number, start, end)


def _unlike(page: PageText, term: Span, found: list[Span]) -> list[Span]:
    """Leave out what holds the term itself: a line reached through its twin is lost when the twin goes."""
    needle = fold(page.raw(term)).strip()
    return [context for context in found if needle not in fold(page.raw(context))]


def _distinct(found: Iterator[Span | None]) -> list[Span]:
    return list(dict.fromkeys(span for span in found if span is not None))


def _prefix(page: PageText, area: Span, count: int) -> Span | None:
    raw = page.raw(area).rstrip()
    words = [match.start() for match in _WORD.finditer(raw)][-count:]
    gaps = [match.end() for match in _GAP.finditer(raw)][-1:]
    return _kept(page, area.block, area.start + max([0, *words[:1], *gaps]), area.start + len(raw), end_fixed=True)


def _suffix(page: PageText, area: Span, count: int) -> Span | None:
    raw = page.raw(area)
    skipped = len(raw) - len(raw.lstrip())
    words = [match.end() for match in _WORD.finditer(raw)][:count]
    gaps = [match.start() for match in _GAP.finditer(raw, skipped)][:1]
    end = min([len(raw), *words[-1:], *gaps])
    return _kept(page, area.block, area.start + skipped, area.start + end, end_fixed=False)


def _kept(page: PageText, block: int, start: int, end: int, *, end_fixed: bool) -> Span | None:
    """Trim the free end of a context; the end that touches the term must stay where it is."""
    term = trimmed(page, Span(block, start, end))
    if term is None:
        return None
    if end_fixed:
        return Span(block, term.start, end)
    closing = page.blocks[block][start : term.end].rstrip(_FINAL_MARKS)
    return Span(block, start, start + len(closing)) if any(map(str.isalnum, closing)) else None
