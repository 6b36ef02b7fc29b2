"""Snapshots: each ingested page as it was read, stored under the SHA-256 of its content and never changed."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from service.errors import KnowledgeBaseError
from service.files import write_atomically
from service.model import Block, Kind, Page, Passage, Span

_SHA256 = re.compile(r"[0-9a-f]{64}")
_Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page as it was when it was read. `fetched_at` is the first time (ISO 8601, UTC) this content was seen."""

    sha256: str
    page: Page
    source: str
    kind: Kind
    address: str
    fetched_at: str
    spans: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    """The spans of the page's passages, by `passage_id`."""


class Snapshots:
    """A folder of snapshots, one file each. Several processes may share it: a file appears whole or not at all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def hash_of(self, page: Page, source: str, kind: Kind, address: str) -> str:
        """Return the SHA-256 (64 hex digits) of the page's content and place; the time is no part of it."""
        return _sha256(_content(page, source, kind, address))

    def put(
        self, page: Page, *, source: str, kind: Kind, address: str, fetched_at: str, passages: Sequence[Passage]
    ) -> None:
        """Store the page. Content that is there already keeps its time and gains the spans of new passages.

        Pass every passage of the page: of two puts at once the later stands, which loses nothing where both are whole.

        Raises `OSError` when the file cannot be written.
        """
        sha256 = self.hash_of(page, source, kind, address)
        stored = self._intact(sha256)
        spans = dict(stored.spans if stored else {}) | {passage.passage_id: passage.spans for passage in passages}
        if stored and spans == stored.spans:
            return
        body = _content(page, source, kind, address) | {
            "fetched_at": stored.fetched_at if stored else fetched_at,
            "spans": {name: [[s.block, s.start, s.end] for s in of] for name, of in sorted(spans.items())},
        }
        write_atomically(self.directory / sha256, _canonical(body))

    def has(self, sha256: str) -> bool:
        """Is there a snapshot of this name that is whole?"""
        return self._intact(sha256) is not None

    def get(self, sha256: str) -> Snapshot | None:
        """Return the snapshot, or None where there is none.

        Raises `KnowledgeBaseError` for a file that cannot be read or does not hold what its name says.
        """
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            return None
        try:
            data = (self.directory / sha256).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KnowledgeBaseError(f"the stored snapshot {sha256[:12]} cannot be read") from error
        try:
            snapshot = _read(sha256, data)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _damaged(sha256) from error
        if self.hash_of(snapshot.page, snapshot.source, snapshot.kind, snapshot.address) != sha256:
            raise _damaged(sha256)
        return snapshot

    def _intact(self, sha256: str) -> Snapshot | None:
        """A damaged file is written anew: its name says what belongs in it."""
        try:
            return self.get(sha256)
        except KnowledgeBaseError:
            return None


def _damaged(sha256: str) -> KnowledgeBaseError:
    return KnowledgeBaseError(f"the stored snapshot {sha256[:12]} was changed or damaged: its checksum does not match")


def _content(page: Page, source: str, kind: Kind, address: str) -> _Json:
    blocks = [[b.text, b.content, list(b.headings), b.section, b.anchor] for b in page.blocks]
    return {"page": {"title": page.title, "blocks": blocks}, "source": source, "kind": kind, "address": address}


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def _sha256(value: object) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()


def _read(sha256: str, data: bytes) -> Snapshot:
    body = json.loads(data)
    blocks = tuple(
        Block(text, content, tuple(headings), section, anchor)
        for text, content, headings, section, anchor in body["page"]["blocks"]
    )
    spans = {name: tuple(Span(*map(int, span)) for span in of) for name, of in body["spans"].items()}
    if not all(_lies_within(span, blocks) for of in spans.values() for span in of):
        raise ValueError("a span lies outside the page")
    return Snapshot(
        sha256=sha256,
        page=Page(body["page"]["title"], blocks),
        source=body["source"],
        kind=cast(Kind, body["kind"]),
        address=body["address"],
        fetched_at=str(body["fetched_at"]),
        spans=spans,
    )


def _lies_within(span: Span, blocks: Sequence[Block]) -> bool:
    return 0 <= span.block < len(blocks) and 0 <= span.start <= span.end <= len(blocks[span.block].text)
