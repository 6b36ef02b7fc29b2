"""Readers: from a document's bytes to a `Page`, chosen by the suffix of its name."""

from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from service.errors import IngestError
from service.knowledge.readers.decode import decode
from service.knowledge.readers.html import read_html
from service.knowledge.readers.markdown import read_markdown
from service.model import Page

HTML = frozenset([".html", ".htm", ".xhtml"])
MARKDOWN = frozenset([".md", ".markdown"])
TEXT = frozenset([".txt"])
SUFFIXES = HTML | MARKDOWN | TEXT


def read_page(path_or_name: str, data: bytes) -> Page:
    """Return the page in `data`; a page without a title takes its file's name.

    Raises `IngestError` for a suffix without a reader and for data that cannot be read.
    """
    name = PurePosixPath(unquote(urlsplit(path_or_name).path) if "://" in path_or_name else path_or_name)
    page = _read(name.suffix.lower(), data)
    return page if page.title else replace(page, title=name.stem)


def _read(suffix: str, data: bytes) -> Page:
    if suffix in MARKDOWN:
        return read_markdown(decode(data))
    if suffix in TEXT:
        return read_html(data, content_type="text/plain")
    if suffix in HTML:
        return read_html(data, content_type="application/xhtml+xml" if suffix == ".xhtml" else "text/html")
    raise IngestError(f"no reader for {suffix or 'a name without a suffix'!r}: one of {', '.join(sorted(SUFFIXES))}")
