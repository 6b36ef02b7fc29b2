"""What a row of the collection holds, how a passage becomes one and back, and how filters are written.

Pure: the client is in `milvus.py`, the collection's schema in `milvus_schema.py`. Filter literals are written here,
since neither the client nor Milvus Lite escapes them: the client's `get(ids=...)` puts a quote straight into the
expression.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from service.errors import IngestError
from service.knowledge.terms import terms_of
from service.model import Kind, Passage, Scope, Span, TableRow

MAX_BYTES = 65_535
"""Milvus's longest VARCHAR and JSON. A server counts bytes, Milvus Lite characters: bytes hold for both."""

TEXT_FIELDS: dict[str, int] = {
    "passage_id": 4_096,
    "document": 64,
    "source": 1_024,
    "kind": 32,
    "title": 8_192,
    "address": 8_192,
    "section": 1_024,
    "sha256": 64,
    "fetched_at": 64,
    "text": MAX_BYTES,
}
"""The VARCHAR fields of a row and their longest value in bytes."""

STORED_FIELDS = [*TEXT_FIELDS, "page", "details"]
"""What a search brings back: everything but the vectors and the terms."""

Version = tuple[str, int, int | None]
"""What a row says of its document: the snapshot's sha256, how many passages it was cut into, and by which `CUT`."""

CUT = 2
"""How pages are cut and terms are made. Raised whenever the same page gives other rows: a document that an earlier
version of Gatehouse cut then counts as changed, and the next ingest writes it anew."""

MAX_REQUEST_BYTES = 16 * 1024 * 1024  # a quarter of what a server takes: the count below leaves out the encoding
NO_PAGE = -1


def document_key(source: str, address: str) -> str:
    """Return a fixed-length name of a document, safe in any filter."""
    return hashlib.sha256(json.dumps([source, address]).encode()).hexdigest()


# Rows


def row_of(passage: Passage, *, parts: int, with_terms: bool) -> dict[str, object]:
    """Return the row, still without its vector, of a passage whose document has `parts` passages.

    Raises `IngestError` for what Milvus cannot hold: lone surrogates, NUL, more bytes than a field takes.
    """
    details = {
        "headings": list(passage.headings),
        "context": passage.context,
        "spans": [[span.block, span.start, span.end] for span in passage.spans],
        "rows": [[row.start, row.end, row.table, row.heading] for row in passage.rows],
        "cut": CUT,
    }
    texts = {name: getattr(passage, name) for name in TEXT_FIELDS if name != "document"}
    texts["document"] = document_key(passage.source, passage.address)
    if with_terms:
        texts["terms"] = terms_of(passage.indexed_text)
    for name, value in (*texts.items(), ("details", json.dumps(details, ensure_ascii=False))):
        _check_storable(name, value)
    return {**texts, "details": details, "page": NO_PAGE if passage.page is None else passage.page, "parts": parts}


def _check_storable(name: str, value: str) -> None:
    if not is_storable(value):
        raise IngestError(f"A passage's {name} holds a lone surrogate or a NUL character: mend the document.")
    limit = TEXT_FIELDS.get(name, MAX_BYTES)
    if (size := len(value.encode())) > limit:
        raise IngestError(f"A passage's {name} has {size:,} bytes, at most {limit:,} can be stored: cut it smaller.")


def is_storable(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def requests_of(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in as few requests as the store takes: one request is stored whole or not at all."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        row_bytes = 4 * (len(row["text"]) + len(row.get("terms", "")) + len(row["dense"]))
        if batch and size + row_bytes > MAX_REQUEST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_bytes
    if batch:
        yield batch


def passage_of(row: Mapping[str, Any]) -> Passage:
    """Return the passage that `row_of` stored."""
    details = row["details"]
    return Passage(
        passage_id=row["passage_id"],
        sha256=row["sha256"],
        source=row["source"],
        kind=cast(Kind, row["kind"]),
        title=row["title"],
        address=row["address"],
        section=row["section"],
        headings=tuple(details["headings"]),
        context=details["context"],
        text=row["text"],
        spans=tuple(Span(*span) for span in details["spans"]),
        fetched_at=row["fetched_at"],
        page=None if row["page"] == NO_PAGE else row["page"],
        rows=tuple(TableRow(*of) for of in details.get("rows", ())),  # none in what was stored before there were any
    )


def version_of(row: Mapping[str, Any]) -> Version:
    return row["sha256"], row["parts"], row["details"].get("cut")


def whole_version(versions: Sequence[Version]) -> str:
    """Return the snapshot sha256 that a document's rows share, or "" when they are not one complete version.

    Milvus has no transactions: a replacement that was cut off leaves a mixture or a piece, which this makes visible,
    so that the next ingest sees the document as changed. So is one that was cut as no page is cut today (`CUT`).
    """
    if len(set(versions)) != 1:
        return ""
    sha256, parts, cut = versions[0]
    return sha256 if parts == len(versions) and cut == CUT else ""


# Filters


def literal(value: str) -> str:
    """Return `value` as a string literal of Milvus's filter language."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def one_of(field: str, values: Iterable[str]) -> str:
    return f"{field} in [{', '.join(literal(value) for value in sorted(values))}]"


def scope_filter(scope: Scope) -> str | None:
    """Return the filter that holds a search inside `scope`: "" admits everything, None nothing."""
    parts = []
    for field, allowed in (("source", scope.sources), ("kind", scope.kinds)):
        if allowed is None:
            continue
        storable = [value for value in allowed if is_storable(value)]
        if not storable:
            return None
        parts.append(one_of(field, storable))
    return " and ".join(parts)
