"""One line of the log, and the hash that binds it to the line before.

A line is a JSON object in a fixed order of keys:

    {"seq":7,"at":"2031-01-01T09:00:00.000+00:00","kind":"run","prev":"<64 hex>","body":{...},"hash":"<64 hex>"}

`hash` is the SHA-256 of every byte of the line before `,"hash"`, so the record's place, time, kind, content and the
hash of the record before it are all under it, and no rule of JSON equality is needed to check it.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from service.model import well_formed
from service.record import RecordKind, StoredRecord

GENESIS = "0" * 64
"""What the first record names as the one before it."""

_HEAD = re.compile(rb'\{"seq":([0-9]{1,15}),"at":"([^"]{1,40})","kind":"([a-z]{1,20})","prev":"([0-9a-f]{64})","body":')
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\n')
TAIL_BYTES = len(',"hash":""}\n') + 64


@dataclass(frozen=True, slots=True)
class Link:
    """What a line says of its place in the chain. `computed` is the hash of its bytes, `stated` the one it carries."""

    seq: int
    at: str
    kind: str
    prev: str
    stated: str
    computed: str

    @property
    def whole(self) -> bool:
        return self.stated == self.computed


def encode(seq: int, at: str, kind: RecordKind, prev: str, body: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a record's line, with its newline, and its hash."""
    front = f'{{"seq":{seq},"at":{json.dumps(at)},"kind":"{kind}","prev":"{prev}","body":{dumped(body)}'.encode()
    digest = hashlib.sha256(front).hexdigest()
    return front + f',"hash":"{digest}"}}\n'.encode(), digest


def dumped(body: Mapping[str, Any]) -> str:
    """JSON on one line. A record is never lost for a value: what JSON cannot say is written as text."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    except ValueError:
        text = json.dumps(finite(body), ensure_ascii=False, separators=(",", ":"), default=str)
    return well_formed(text)


def finite(value: Any) -> Any:
    """Replace each number that is none (NaN, infinity) by its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def read_link(line: bytes) -> Link | None:
    """What a whole line (with its newline) says of its place, or None where it has not the form of a record."""
    front, tail = line[:-TAIL_BYTES], _TAIL.fullmatch(line[-TAIL_BYTES:])
    head = _HEAD.match(front)
    if head is None or tail is None:
        return None
    seq, at, kind, prev = head.groups()
    computed = hashlib.sha256(front).hexdigest()
    return Link(int(seq), at.decode("utf-8", "replace"), kind.decode(), prev.decode(), tail[1].decode(), computed)


def read_record(line: bytes) -> StoredRecord | None:
    """The record of a line, or None where the line does not hold what its hash says."""
    link = read_link(line)
    if link is None or not link.whole:
        return None
    body = json.loads(line)["body"]
    return StoredRecord(link.seq, link.at, cast(RecordKind, link.kind), link.stated, body)
