"""Readers: from a document's bytes to a `Page`, chosen by their content type or the suffix of the document's name."""

from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from service.errors import IngestError
from service.knowledge.readers.decode import decode
from service.knowledge.readers.html import read_html
from service.knowledge.readers.markdown import read_markdown
from service.model import Page

MARKDOWN = frozenset(["text/markdown", "text/x-markdown"])
READ_AS_HTML = frozenset(["text/html", "application/xhtml+xml", "text/plain"])
KIND_OF = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
}
SUFFIXES = frozenset(KIND_OF)


def read_page(path_or_url: str, data: bytes, content_type: str = "") -> Page:
    """Return the page in `data`; a page without a title takes its file's name, or its host's where it has none.

    `content_type` is what a server said; where it said nothing the suffix decides. Raises `IngestError` where neither
    has a reader, and for data that cannot be read.
    """
    address = urlsplit(path_or_url) if "://" in path_or_url else None
    name = PurePosixPath(unquote(address.path) if address else path_or_url)
    kind, _, parameters = content_type.partition(";")
    page = _read(f"{kind.strip().lower() or _kind_of(name)};{parameters}", name, data)
    if page.title:
        return page
    stem = name.stem if name.suffix.lower() in SUFFIXES else name.name
    return replace(page, title=stem or (address.netloc if address else ""))


def _kind_of(name: PurePosixPath) -> str:
    suffix = name.suffix.lower()
    if suffix not in KIND_OF:
        known = ", ".join(sorted(SUFFIXES))
        raise IngestError(f"no reader for {suffix or 'a name without a suffix'!r}: one of {known}")
    return KIND_OF[suffix]


def _read(content_type: str, name: PurePosixPath, data: bytes) -> Page:
    kind = content_type.partition(";")[0]
    # Many servers know no Markdown and send it as plain text.
    if kind in MARKDOWN or (kind == "text/plain" and KIND_OF.get(name.suffix.lower()) in MARKDOWN):
        return read_markdown(decode(data, content_type))
    if kind in READ_AS_HTML:
        return read_html(data, content_type=content_type)
    raise IngestError(f"no reader for the content type {kind}")
