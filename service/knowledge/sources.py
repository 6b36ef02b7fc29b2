"""What the operator says about each source: its kind, and the site's base that stored addresses are relative to."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from service.errors import IngestError
from service.files import private, write_atomically
from service.model import Kind

_NAME = re.compile(r"[^\W_][\w .&'()-]{0,63}")
_BASE = re.compile(r"(?:https?://[^\s/?#@]+)?/[^\s?#]*|https?://[^\s/?#@]+")


@dataclass(frozen=True, slots=True)
class RegisteredSource:
    """`base_url` ends in "/" and is absolute (http, https) or a path on this server; "" for files without a site."""

    kind: Kind
    base_url: str = ""


class SourceRegistry:
    """A small JSON file, looked at each time so that a running server sees what an ingest has added."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._known: dict[str, RegisteredSource] = {}

    def get(self, source: str) -> RegisteredSource | None:
        """Return what is known of `source`, or None. Raises `IngestError` for a damaged file."""
        return self._read().get(source)

    def base_url(self, source: str) -> str:
        """Return the base of the source's addresses, "" where there is none."""
        known = self.get(source)
        return known.base_url if known else ""

    def put(self, source: str, kind: Kind, base_url: str = "") -> None:
        """Add a source or move its base. An empty `base_url` keeps the one that stands.

        Raises `IngestError` for a name or base that cannot be used, and for another kind than it has.
        """
        base = self.check(source, kind, base_url)
        with _locked(self._path):
            known = self._read()
            stands = known[source].base_url if source in known else ""
            changed = RegisteredSource(kind, base or stands)
            if known.get(source) != changed:
                entries = {name: asdict(entry) for name, entry in sorted((known | {source: changed}).items())}
                write_atomically(self._path, json.dumps(entries, indent=2, ensure_ascii=False).encode())

    def check(self, source: str, kind: Kind, base_url: str = "") -> str:
        """Return the base as it would be stored. Raises `IngestError` as `put` does, and writes nothing."""
        if not _NAME.fullmatch(source):
            raise IngestError(f"a source's name is 1 to 64 letters, digits, spaces or -_.&'(): {source!r} is not")
        if base_url and (not _BASE.fullmatch(base_url) or base_url.startswith("//")):
            raise IngestError(f"a base URL is http://, https:// or a path that begins with /: {base_url!r} is not")
        known = self.get(source)
        if known and known.kind != kind:
            raise IngestError(f"the source {source!r} is of kind {known.kind}: take another name for kind {kind}")
        return f"{base_url.rstrip('/')}/" if base_url else ""

    def _read(self) -> dict[str, RegisteredSource]:
        """The file's entries, parsed again only when it has changed: every link asks for its source's base."""
        try:
            stat = self._path.stat()
            if self._seen != (stat.st_mtime_ns, stat.st_ino):
                entries = json.loads(self._path.read_bytes())
                self._known = {name: _entry(fields) for name, fields in entries.items()}
                self._seen = (stat.st_mtime_ns, stat.st_ino)
            return dict(self._known)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise IngestError(f"{self._path.name} cannot be read: mend it, or delete it and ingest again") from error


def _entry(fields: dict[str, str]) -> RegisteredSource:
    kind, base_url = fields["kind"], fields["base_url"]
    if kind not in ("official", "reference", "web") or not isinstance(base_url, str):
        raise ValueError("not a source's entry")
    return RegisteredSource(cast(Kind, kind), base_url)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the file's lock: two ingests at once must not lose each other's entry."""
    import fcntl

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "a", opener=private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
