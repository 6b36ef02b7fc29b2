"""Find and fetch the documents that an operator names: files, folders, and http(s) addresses."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import httpx

from service.errors import IngestError
from service.knowledge.addresses import relative_address
from service.knowledge.readers import SUFFIXES, read_page
from service.model import Page

MAX_BYTES = 10 * 1024 * 1024
FETCH_TIMEOUT_S = 20.0
MAX_REDIRECTS = 5
_PATH_SAFE = "/!$&'()*+,;=@~"  # what RFC 3986 allows in a path; ":" would read as a scheme


class Document(Protocol):
    """A document that has an address but is not read yet."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    async def read(self) -> Page:
        """Return the page. Raises `IngestError`, `OSError` or `httpx.HTTPError`."""
        ...


@dataclass(frozen=True, slots=True)
class FileDocument:
    path: Path
    address: str

    @property
    def name(self) -> str:
        return str(self.path)

    async def read(self) -> Page:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Page:
        with self.path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise IngestError(f"longer than {MAX_BYTES // 1024**2} MB")
        return read_page(self.path.name, data)


@dataclass(frozen=True, slots=True)
class WebDocument:
    url: str
    address: str
    transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.url

    async def read(self) -> Page:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                content_type, data = await self._fetch()
        except TimeoutError as error:
            raise IngestError(f"no complete answer within {FETCH_TIMEOUT_S:.0f} s") from error
        return await asyncio.to_thread(read_page, self.url, data, content_type)

    async def _fetch(self) -> tuple[str, bytes]:
        client = httpx.AsyncClient(
            timeout=FETCH_TIMEOUT_S,
            trust_env=False,  # a proxy named in the environment is not the operator's word
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            transport=self.transport,
        )
        async with client, client.stream("GET", self.url) as response:
            if not response.is_success:
                raise IngestError(f"the server answers {response.status_code}")
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > MAX_BYTES:
                    raise IngestError(f"longer than {MAX_BYTES // 1024**2} MB")
            return response.headers.get("content-type", ""), bytes(data)


@dataclass(frozen=True, slots=True)
class Unread:
    """A file in a folder whose suffix has no reader."""

    suffix: str


def find_documents(
    paths_or_urls: Sequence[str], base_url: str, transport: httpx.AsyncBaseTransport | None = None
) -> Iterator[Document | tuple[str, str] | Unread]:
    """Yield each document named, (name, reason) for what cannot be had, and what a folder holds that no reader reads.

    Folders are walked in sorted order.
    """
    for name in paths_or_urls:
        path = Path(name)
        if name.lower().startswith(("http://", "https://")):
            yield _web_document(name, base_url, transport)
        elif path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield _file(path, path.name)
        else:
            yield name, "no such file or folder"


def _web_document(url: str, base_url: str, transport: httpx.AsyncBaseTransport | None) -> WebDocument | tuple[str, str]:
    try:
        authority = urlsplit(url).netloc
    except ValueError:
        return url, "not an address"
    if "@" in authority:
        return url, "an address with a user name or password in it is not fetched"
    return WebDocument(url.partition("#")[0], relative_address(url, base_url), transport)


def _file(path: Path, address: str) -> FileDocument | tuple[str, str]:
    try:
        return FileDocument(path, quote(address, safe=_PATH_SAFE))
    except UnicodeEncodeError:
        return ascii(address), "its name is not valid text in this file system's encoding: rename it"


def _walk(folder: Path) -> Iterator[FileDocument | tuple[str, str] | Unread]:
    """Yield the files below `folder`; hidden ones and links that lead out of it or nowhere are left out."""
    root = os.path.realpath(folder)
    found = []
    for directory, folders, files in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(directory, name) for name in files if not name.startswith(".")]
    for path in sorted(found, key=lambda path: path.relative_to(folder).parts):
        # Unlike `Path.resolve` of Python 3.11 and 3.12 this raises nothing for a link that leads to itself.
        if not Path(os.path.realpath(path)).is_relative_to(root) or not path.is_file():
            continue
        if path.suffix.lower() in SUFFIXES:
            yield _file(path, path.relative_to(folder).as_posix())
        else:
            yield Unread(path.suffix.lower())
