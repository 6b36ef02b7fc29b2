"""Text directives: the part of a link that scrolls a browser to a passage and highlights it.

The rules are those of the WICG specification "URL Fragment Text Directives" (section "Navigating to a text fragment"):
a term never crosses a block, must be bounded as a word, and the first match in the document wins. What some browser
folds is folded here (`page_text.fold`), so a directive means the same range in each of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from service.citations.locate import locate
from service.citations.page_text import PageText
from service.citations.terms import Context, atoms_of, clipped, contexts, heads, parts, prefixes, suffixes, tails
from service.model import Span

# Above this a passage is named by its two ends where it can be (the bound of Chromium's own "copy link to highlight").
_USUAL_EXACT_CHARS = 300
_MAX_EXACT_CHARS = 1000
_MAX_URL_CHARS = 2048
_DIRECTIVE_TYPES = ("text/html", "text/plain", "application/pdf")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A directive and what it highlights: from the start of `first` to the end of `last`."""

    directive: str
    first: Span
    last: Span


def directive(blocks: Sequence[str], passage: str) -> str:
    """Return the `text=...` directive that highlights `passage` on the page, "" where none is safe.

    `blocks` are all text blocks of the page in reading order, navigation included. Where the passage stands more than
    once, running text is taken before a line of its own, and a later place before an earlier one (menus and tables of
    contents come first); nothing is emitted unless the chosen place can be told from all others.
    """
    page = _page(tuple(blocks))
    targets = locate(page, passage)
    for target in sorted(reversed(targets), key=lambda target: not _in_running_text(page, target)):
        fragment = _fragment(page, target, certain=len(targets) == 1)
        if fragment is not None:
            return fragment.directive
    return ""


def directive_at(blocks: Sequence[str], spans: Sequence[Span]) -> str:
    """Return the directives that highlight `spans` of the page, joined by "&"; "" where none is safe.

    One directive highlights all from its first word to its last. So what stands apart, such as a rule and its footnote,
    has a directive each, and what lies between stays dark.
    """
    return "&".join(fragment.directive for fragment in fragments_at(blocks, spans))


def fragments_at(blocks: Sequence[str], spans: Sequence[Span]) -> list[Fragment]:
    """Return, in reading order, one directive with its range for each stretch of `spans` without a gap.

    A range is that of its stretch less broken words and loose punctuation at its ends; where that cannot be named
    safely it is the longest part that can, and a stretch without such a part is left out.
    """
    page = _page(tuple(blocks))
    named = (_fragment(page, stretch, certain=True) for stretch in _stretches(page, clipped(page, spans)))
    return [fragment for fragment in named if fragment is not None]


def _stretches(page: PageText, spans: Sequence[Span]) -> list[list[Span]]:
    """Part `spans` (in reading order) wherever text that is not theirs stands between two of them."""
    stretches: list[list[Span]] = []
    for span in spans:
        if stretches and not _stands_between(page, stretches[-1][-1], span):
            stretches[-1].append(span)
        else:
            stretches.append([span])
    return stretches


def _stands_between(page: PageText, before: Span, after: Span) -> bool:
    if before.block == after.block:
        between = [page.blocks[before.block][before.end : after.start]]
    else:
        whole = page.blocks[before.block + 1 : after.block]
        between = [page.blocks[before.block][before.end :], *whole, page.blocks[after.block][: after.start]]
    return any(map(str.isalnum, "".join(between)))


def link(url: str, directive: str, *, page: int | None = None, content_type: str | None = None) -> str:
    """Return `url` with the directive; `page` is the 1-based page of a PDF.

    An element id in the address stays (the browser falls back to it), an older directive goes. The directive is left
    out for content types in which browsers do not look for one and for addresses of extreme length.
    """
    address, _, element_id = url.partition("#")
    element_id = element_id.partition(":~:")[0]
    media_type = (content_type or ("application/pdf" if page else "text/html")).partition(";")[0].strip().lower()
    if page and page > 0 and media_type == "application/pdf":
        element_id = f"page={page}"
    target = f"{address}#{element_id}" if element_id else address
    if not directive or media_type not in _DIRECTIVE_TYPES or len(url) > _MAX_URL_CHARS:
        return target
    return f"{address}#{element_id}:~:{directive}"


@lru_cache(maxsize=8)
def _page(blocks: tuple[str, ...]) -> PageText:
    # The sources of one answer often share a page; folding it is most of the work.
    return PageText(blocks)


def _in_running_text(page: PageText, target: Sequence[Span]) -> bool:
    first, last = target[0], target[-1]
    around = page.blocks[first.block][: first.start] + page.blocks[last.block][last.end :]
    return any(map(str.isalnum, around))


def _fragment(page: PageText, target: Sequence[Span], *, certain: bool) -> Fragment | None:
    """Name the target, or its longest part that can be named.

    `certain` means that the place is known: then it will do that the first match is the right one, where it cannot be
    the only one.
    """
    for part in parts(atoms_of(page, target)):
        for unique in (True, False) if certain else (True,):
            fragment = (
                _exact(page, part, _USUAL_EXACT_CHARS, unique=unique)
                or _range(page, part, unique=unique)
                or _exact(page, part, _MAX_EXACT_CHARS, unique=unique)
            )
            if fragment is not None:
                return fragment
    return None


def _exact(page: PageText, atoms: Sequence[Span], max_chars: int, *, unique: bool) -> Fragment | None:
    atom = atoms[0]
    if len(atoms) > 1 or atom.end - atom.start > max_chars:
        return None
    for context in contexts(page, atom):
        if _hits(page, atom, context, unique=unique):
            return Fragment(_written(page, context, atom), atom, atom)
    return None


def _range(page: PageText, atoms: Sequence[Span], *, unique: bool) -> Fragment | None:
    first, last = atoms[0], atoms[-1]
    for start, before in _starts(page, first, unique=unique):
        for end, after in _ends(page, start, last):
            context = Context(before.prefix, after.suffix)
            return Fragment(_written(page, context, start, end), first, last)
    return None


def _starts(page: PageText, atom: Span, *, unique: bool) -> Iterator[tuple[Span, Context]]:
    """Yield opening terms that hit their place: alone first, then with a prefix."""
    terms = heads(page, atom)
    ways = [(term, Context()) for term in terms]
    ways += [(term, Context(prefix=prefix)) for term in terms for prefix in prefixes(page, term)]
    return (way for way in ways if _hits(page, *way, unique=unique))


def _ends(page: PageText, start: Span, atom: Span) -> Iterator[tuple[Span, Context]]:
    """Yield closing terms whose first match after `start` is their place: alone first, then with a suffix."""
    after = page.folded_at(start.block, start.end)
    terms = [term for term in tails(page, atom) if page.folded_at(term.block, term.start) >= after]
    ways = [(term, Context()) for term in terms]
    ways += [(term, Context(suffix=suffix)) for term in terms for suffix in suffixes(page, term)]
    return (way for way in ways if _is_first(page, *way, after=after))


def _is_first(page: PageText, term: Span, context: Context, *, after: int) -> bool:
    found = _pattern(page, term, context).search(page.text, after)
    return found is not None and found.start("term") == page.folded_at(term.block, term.start)


def _hits(page: PageText, term: Span, context: Context, *, unique: bool) -> bool:
    """Is the first match of `term` in its context the term's own place (and, for `unique`, the only match)?"""
    pattern = _pattern(page, term, context)
    found = pattern.search(page.text)
    if found is None or found.start("term") != page.folded_at(term.block, term.start):
        return False
    return not unique or pattern.search(page.text, found.start() + 1) is None


def _pattern(page: PageText, term: Span, context: Context) -> re.Pattern[str]:
    """Return the search a browser makes, without its word boundaries: it finds at least what any browser finds."""
    prefix = f"{_needle(page, context.prefix)}[ \n]*" if context.prefix else ""
    suffix = f"[ \n]*{_needle(page, context.suffix)}" if context.suffix else ""
    return re.compile(f"{prefix}(?P<term>{_needle(page, term)}){suffix}")


def _needle(page: PageText, span: Span) -> str:
    return re.escape(page.text[page.folded_at(span.block, span.start) : page.folded_at(span.block, span.end)].strip())


def _written(page: PageText, context: Context, *terms: Span) -> str:
    written = [_encoded(page.raw(term)) for term in terms]
    if context.prefix:
        written.insert(0, _encoded(page.raw(context.prefix)) + "-")
    if context.suffix:
        written.append("-" + _encoded(page.raw(context.suffix)))
    return "text=" + ",".join(written)


def _encoded(term: str) -> str:
    """Percent-encode the page's own characters; `-`, `,` and `&` are the directive's syntax."""
    return quote(_CONTROL.sub("", " ".join(term.split())), safe="").replace("-", "%2D")
