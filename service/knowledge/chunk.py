"""Cut a page into passages along its structure: numbered rules first, then blocks, sentences, words."""

import json
import re
from base64 import b32encode
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, pairwise

from service.knowledge.readers.structure import Member
from service.knowledge.sentences import sentences
from service.knowledge.tables import TableHeads, headed, table_heads, table_rows
from service.model import Block, Kind, Page, Passage, Span

MERGE_TOKENS = 120  # unnumbered paragraphs under one heading are gathered up to here: about two of usual length
CONTEXT_SHARE = 4  # the context line takes at most a quarter of the budget
HEADS_SHARE = 4  # what heads a table, as much again
MAX_CHARACTERS = 16  # per token: a word-piece tokenizer counts one token for a "word" of any length
CAPTION_WORDS = 12  # a block of so few words without an end mark is a caption of what follows
SEPARATOR = " > "

CountTokens = Callable[[str], int]
_Atom = list[Span]
_CONTINUES = re.compile(r"[:;,—–]\s*$|[;,]\s*(?:and|or|and/or)\s*$")
_ENDED = re.compile(r"[.!?;,…)\]\"'”’]\s*$")
_CONTINUED = re.compile(r"\(|[a-z]")


def chunk_page(
    page: Page,
    *,
    source: str,
    kind: Kind,
    address: str,
    sha256: str,
    fetched_at: str,
    count_tokens: CountTokens,
    max_tokens: int,
) -> list[Passage]:
    """Return the passages of the page's content, in reading order.

    No `indexed_text` counts more than `max_tokens` by `count_tokens`. Headings are context, not text, unless the page
    holds nothing else. What heads a table (caption, column headings) stands above its rows in every passage, unless
    it is longer than a quarter of the budget. Raises `ValueError` for a `max_tokens` too small for any text.
    """
    parts: Counter[str] = Counter()
    passages = []
    heads = _short_heads(page, count_tokens, max_tokens // HEADS_SHARE)
    for unit in _units(page, {index for of in heads.values() for index in of}):
        first = page.blocks[unit[0]]
        context = context_line(page.title, first.headings, first.section, count_tokens, max_tokens // CONTEXT_SHARE)
        for spans in _Cutter(page, context, bool(first.section), count_tokens, max_tokens, heads).cut(unit):
            place = json.dumps([source, address, first.section, first.headings])
            parts[place] += 1
            passages.append(
                Passage(
                    passage_id=_identifier(place, parts[place]),
                    sha256=sha256,
                    source=source,
                    kind=kind,
                    title=page.title,
                    address=address,
                    section=first.section,
                    headings=first.headings,
                    context=context,
                    text=_text(page, spans),
                    spans=tuple(spans),
                    fetched_at=fetched_at,
                    rows=tuple(table_rows(page.blocks, spans)),
                )
            )
    return passages


def _identifier(place: str, part: int) -> str:
    digest = blake2b(f"{place}\n{part}".encode(), digest_size=10).digest()
    return b32encode(digest).decode("ascii").lower()


def _short_heads(page: Page, count_tokens: CountTokens, max_tokens: int) -> dict[int, list[int]]:
    heads = table_heads(page.blocks)
    texts = {table: "\n".join(page.blocks[index].text for index in of) for table, of in heads.items()}
    short = (table for table, text in texts.items() if len(text) <= MAX_CHARACTERS * max_tokens)
    return {table: heads[table] for table in short if count_tokens(texts[table]) <= max_tokens}


def _text(page: Page, spans: Sequence[Span]) -> str:
    return "\n".join(page.blocks[span.block].text[span.start : span.end] for span in spans)


# Units: what stands under one heading and one number


def _units(page: Page, heads: Collection[int]) -> list[list[int]]:
    """Return the content blocks' indices by unit, headings left out unless there is nothing else, and `heads`.

    A unit is a run of blocks under one path of headings and one number. What belongs to a numbered rule but stands
    elsewhere (a footnote) joins the rule's unit.
    """
    filled = [index for index, block in enumerate(page.blocks) if block.content and block.text.strip()]
    content = [index for index in filled if index not in heads]
    headings = set(_heading_blocks(page.blocks, content))
    opened = {after for before, after in pairwise(content) if before in headings}
    body = [index for index in content if index not in headings] or content
    units: list[list[int]] = []
    by_rule: dict[tuple[tuple[str, ...], str], list[int]] = {}
    for rule, group in groupby(body, key=lambda index: (page.blocks[index].headings, page.blocks[index].section)):
        run = list(group)
        if rule[1] and rule in by_rule and run[0] not in opened:
            by_rule[rule] += run
        else:
            units.append(run)
            by_rule[rule] = run
    return units


def _heading_blocks(blocks: Sequence[Block], content: Sequence[int]) -> Iterator[int]:
    """Yield the blocks that open a headings path and together spell its last heading."""
    before: tuple[str, ...] = ()
    rest = ""
    for index in content:
        block = blocks[index]
        if block.headings != before or (block.headings and not rest and block.text == block.headings[-1]):
            rest = block.headings[-1] if block.headings else ""
            before = block.headings
        if rest.startswith(block.text):
            rest = rest[len(block.text) :].lstrip(" ")
            yield index
        else:
            rest = ""


def context_line(title: str, headings: Sequence[str], section: str, count_tokens: CountTokens, max_tokens: int) -> str:
    """Return "title > headings > section" in at most `max_tokens`: outer headings go first, then words of the title."""
    path = [heading for heading in headings if heading not in title]
    last = [] if path and path[-1].startswith(section) else [section]
    for dropped in range(len(path) + 1):
        line = _joined([title, *path[dropped:], *last])
        if count_tokens(line) <= max_tokens:
            return line
    words = title.split()
    for kept in range(min(len(words), max_tokens), -1, -1):
        line = _joined([" ".join(words[:kept]), section])
        if count_tokens(line) <= max_tokens:
            return line
    return ""


def _joined(parts: Sequence[str]) -> str:
    return SEPARATOR.join(" ".join(part.split()) for part in parts if part.strip())


# Cutting


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts one unit. Numbered: whole as far as the budget reaches. Unnumbered: gathered up to `MERGE_TOKENS`."""

    page: Page
    context: str
    numbered: bool
    count_tokens: CountTokens
    max_tokens: int
    heads: TableHeads

    def cut(self, unit: Sequence[int]) -> list[_Atom]:
        pieces = self._pack(self._rows(unit), gather=not self.numbered)
        kept = [piece for piece in pieces if any(character.isalnum() for character in _text(self.page, piece))]
        return [self._headed(piece) for piece in kept]

    def _headed(self, spans: _Atom) -> _Atom:
        return headed(self.page.blocks, spans, self.heads)

    def _pack(self, atoms: Sequence[_Atom], *, gather: bool) -> list[_Atom]:
        """Join neighbours while they fit; an atom that is too long alone is cut at the next finer level."""
        pieces: list[_Atom] = []
        current: _Atom = []
        for atom in atoms:
            joined = _coalesced([*current, *atom])
            if current and self._may_join(current, atom, joined, gather):
                current = joined
                continue
            current, carried = self._without_lead_in(current, atom)
            pieces += [current] if current else []
            finer = [_coalesced([*carried, *atom])]
            if not self._fits(finer[0]):
                finer = [carried] if carried else []
                finer += [atom] if self._fits(atom) else self._pack(self._finer(atom), gather=False)
            pieces += finer[:-1]
            current = finer[-1]
        return [*pieces, current] if current else pieces

    def _may_join(self, current: _Atom, atom: _Atom, joined: _Atom, gather: bool) -> bool:
        if not self._fits(joined):
            return False
        whole = not gather or self._continues(current[-1], atom[0])
        return whole or self.count_tokens(_text(self.page, joined)) <= MERGE_TOKENS

    def _continues(self, before: Span, after: Span) -> bool:
        """Is the block after an item of the sentence before, or a row of the same table?"""
        first, second = self.page.blocks[before.block], self.page.blocks[after.block]
        tables = [block.table if isinstance(block, Member) else 0 for block in (first, second)]
        same_table = tables[0] == tables[1] != 0
        if same_table or _CONTINUES.search(first.text):
            return True
        return not isinstance(second, Member) and _CONTINUED.match(second.text) is not None

    def _without_lead_in(self, current: _Atom, atom: _Atom) -> tuple[_Atom, _Atom]:
        """Move a last block that announces the next ("The firm must:", a caption) to the piece of what follows."""
        last = current[-1] if current else None
        if last is None or len(current) < 2 or last.block == atom[0].block:
            return current, []
        return (current[:-1], [last]) if _announces(self.page.blocks[last.block]) else (current, [])

    def _fits(self, spans: _Atom) -> bool:
        text = _text(self.page, self._headed(spans))
        if len(text) > MAX_CHARACTERS * self.max_tokens:
            return False
        return self.count_tokens(f"{self.context}\n{text}" if self.context else text) <= self.max_tokens

    def _rows(self, unit: Sequence[int]) -> list[_Atom]:
        atoms: list[_Atom] = []
        row = 0
        for index in unit:
            block = self.page.blocks[index]
            span = Span(index, 0, len(block.text))
            of_row = block.row if isinstance(block, Member) else 0
            if of_row and of_row == row:
                atoms[-1].append(span)
            else:
                atoms.append([span])
            row = of_row
        return atoms

    def _finer(self, atom: _Atom) -> list[_Atom]:
        """Blocks of a row, sentences of a block, words of a sentence, pieces of a word."""
        if len(atom) > 1:
            return [[span] for span in atom]
        span = atom[0]
        text = self.page.blocks[span.block].text[span.start : span.end]
        for cuts in (sentences(text), [word.span() for word in re.finditer(r"\S+", text)]):
            if len(cuts) > 1:
                return [[Span(span.block, span.start + start, span.start + end)] for start, end in cuts]
        if len(text) < 2:
            raise ValueError(f"max_tokens={self.max_tokens} leaves no room for a passage's text")
        middle = span.start + len(text) // 2
        return [[Span(span.block, span.start, middle)], [Span(span.block, middle, span.end)]]


def _announces(block: Block) -> bool:
    if block.text.rstrip().endswith(":"):
        return True
    caption = len(block.text.split()) <= CAPTION_WORDS and not _ENDED.search(block.text)
    return caption and not isinstance(block, Member)


def _coalesced(spans: Sequence[Span]) -> _Atom:
    """Join spans that follow each other in one block, with the white space between them."""
    joined: _Atom = []
    for span in spans:
        if joined and joined[-1].block == span.block:
            joined[-1] = Span(span.block, joined[-1].start, span.end)
        else:
            joined.append(span)
    return joined
