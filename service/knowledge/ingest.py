"""Bring documents into the knowledge base: read, cut, store the snapshot, then replace the document in the index."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import httpx

from service.errors import GatehouseError, IngestError
from service.knowledge.addresses import whole_address
from service.knowledge.chunk import CountTokens, chunk_page
from service.knowledge.documents import Document, Unread, find_documents
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import SourceRegistry
from service.model import Kind, Page, Passage
from service.ports import KnowledgeBase

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with (document, documents done, documents in all) before each document, and with "" at the end."""

Outcome = Literal["added", "changed", "unchanged"]


@dataclass(slots=True)
class IngestReport:
    """What happened, by address; `failed` holds (name, reason), `passages` counts those of added and changed ones.

    `unread` holds the suffix of each file that a folder held and no reader reads, `unpruned` why nothing was removed
    although that was asked for.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    unpruned: str = ""
    passages: int = 0

    @property
    def read(self) -> int:
        return len(self.added) + len(self.changed) + len(self.unchanged)

    def summary(self) -> str:
        """Return the counts as one line for a person."""
        names = ("added", "changed", "unchanged", "removed", "failed")
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name in names)
        unread = (
            f"; {len(self.unread)} left out, no reader for {' '.join(sorted(set(self.unread)))}" if self.unread else ""
        )
        return f"{counts}; {self.passages} passages written{unread}"


class Ingestor:
    """Ingests into one knowledge base. Twice the same documents change nothing."""

    def __init__(
        self,
        knowledge: KnowledgeBase,
        snapshots: Snapshots,
        registry: SourceRegistry,
        *,
        count_tokens: CountTokens,
        max_tokens: int,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.knowledge = knowledge
        self.snapshots = snapshots
        self.registry = registry
        self._count_tokens = count_tokens
        self._max_tokens = max_tokens
        self._transport = transport

    async def ingest(
        self,
        paths_or_urls: Sequence[str],
        *,
        source: str,
        kind: Kind,
        base_url: str = "",
        prune: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Ingest files, folders and http(s) addresses as documents of `source`.

        A document that cannot be read is in the report's `failed` and keeps its old version. `prune` removes the
        source's documents that were not named this time; a page that an earlier base gave another address always loses
        that one. `dry_run` reports and writes nothing. Raises `IngestError` for a source that cannot be (see
        `SourceRegistry`) and for `prune` when nothing could be read, `KnowledgeBaseError` when the index does not
        answer at all.
        """
        given = await asyncio.to_thread(self.registry.check, source, kind, base_url)
        before = await asyncio.to_thread(self.registry.base_url, source)
        base = given or before
        named = await asyncio.to_thread(lambda: list(find_documents(paths_or_urls, base, self._transport)))
        found = [item for item in named if not isinstance(item, Unread)]
        run = _Run(self, source, kind, base, before, dry_run, await self.knowledge.documents(source))
        run.report.unread = sorted(item.suffix for item in named if isinstance(item, Unread))
        for done, document in enumerate(found):
            name = document[0] if isinstance(document, tuple) else document.name
            if progress:
                progress(name, done, len(found))
            await run.take(document)
        if progress:
            progress("", len(found), len(found))
        if prune:
            await run.prune()
        return run.report

    def chunked(self, page: Page, source: str, kind: Kind, address: str, sha256: str) -> list[Passage]:
        """Return the page's passages. Blocks."""
        return chunk_page(
            page,
            source=source,
            kind=kind,
            address=address,
            sha256=sha256,
            fetched_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            count_tokens=self._count_tokens,
            max_tokens=self._max_tokens,
        )

    def store(self, page: Page, passages: Sequence[Passage]) -> None:
        """Store the page's snapshot. Blocks."""
        of = passages[0]
        self.snapshots.put(
            page, source=of.source, kind=of.kind, address=of.address, fetched_at=of.fetched_at, passages=passages
        )


class _Run:
    """One call of `Ingestor.ingest`."""

    def __init__(
        self,
        ingestor: Ingestor,
        source: str,
        kind: Kind,
        base_url: str,
        base_before: str,
        dry_run: bool,
        stored: dict[str, str],
    ) -> None:
        self.report = IngestReport()
        self._ingestor = ingestor
        self._source = source
        self._kind: Kind = kind
        self._base_url = base_url
        self._dry_run = dry_run
        self._stored = stored
        self._by_page: dict[str | None, list[str]] = {}
        for address in stored:
            self._by_page.setdefault(whole_address(address, base_before), []).append(address)
        self._seen: dict[str, Document] = {}
        self._missing: list[str] = []
        self._registered = False

    async def take(self, document: Document | tuple[str, str]) -> None:
        """Ingest one document. Whatever is wrong with it is reported and stops no other."""
        if isinstance(document, tuple):
            self.report.failed.append(document)
            self._missing.append(document[0])
            return
        try:
            await self._take(document)
        except (GatehouseError, OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            self.report.failed.append((document.name, _reason(error)))
        except Exception as error:
            logger.exception("ingesting %r failed", document.name)
            self.report.failed.append((document.name, f"a fault in Gatehouse ({type(error).__name__}), see the log"))

    async def _take(self, document: Document) -> None:
        address = document.address
        first = self._seen.setdefault(address, document)
        if first.name != document.name:
            raise IngestError(f"its address {address!r} is that of {first.name}, too")
        if first is not document:
            return  # named twice
        page = await document.read()
        ingestor = self._ingestor
        sha256 = await asyncio.to_thread(ingestor.snapshots.hash_of, page, self._source, self._kind, address)
        is_stored = self._stored.get(address) == sha256
        if is_stored and await asyncio.to_thread(ingestor.snapshots.has, sha256):
            await self._register()
            await self._remove_twins(address)
            self.report.unchanged.append(address)
            return
        passages = await asyncio.to_thread(ingestor.chunked, page, self._source, self._kind, address, sha256)
        if not passages:
            raise IngestError("it holds no text that could be cited")
        await self._write(page, address, passages, index=not is_stored)
        await self._remove_twins(address)
        self._count(address, passages, is_stored)

    async def _write(self, page: Page, address: str, passages: list[Passage], *, index: bool) -> None:
        """The snapshot comes first: a passage in the index always has one."""
        if self._dry_run:
            return
        await self._register()
        await asyncio.to_thread(self._ingestor.store, page, passages)
        if index:
            await self._ingestor.knowledge.replace(self._source, address, passages)

    async def _remove_twins(self, address: str) -> None:
        """Remove the same page under the address it had before the source's base was set or moved."""
        page = whole_address(address, self._base_url)
        for twin in self._by_page.get(page, ()) if page else ():
            if twin not in self._seen and twin in self._stored:
                await self._remove(twin)
                del self._stored[twin]

    async def _register(self) -> None:
        """Record the source with its first readable document, before anything of it can be cited."""
        if not self._dry_run and not self._registered:
            await asyncio.to_thread(self._ingestor.registry.put, self._source, self._kind, self._base_url)
            self._registered = True

    def _count(self, address: str, passages: list[Passage], is_stored: bool) -> None:
        if is_stored:
            self.report.unchanged.append(address)
            return
        (self.report.changed if address in self._stored else self.report.added).append(address)
        self.report.passages += len(passages)

    async def prune(self) -> None:
        """Remove what was not named. A document that is there but could not be read keeps its old version."""
        if not self.report.read:
            raise IngestError(f"nothing could be read, so nothing of {self._source!r} is removed")
        if self._missing:  # a mistyped folder must not empty the index of what lies in it
            are = "is" if len(self._missing) == 1 else "are"
            self.report.unpruned = f"Nothing was pruned: {', '.join(self._missing)} {are} missing."
            return
        for address in sorted(set(self._stored) - set(self._seen)):
            await self._remove(address)

    async def _remove(self, address: str) -> None:
        if not self._dry_run:
            await self._ingestor.knowledge.remove(self._source, address)
        self.report.removed.append(address)


def _reason(error: Exception) -> str:
    """Say what is wrong without this machine's paths."""
    if isinstance(error, GatehouseError):
        return str(error)
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return f"it could not be fetched ({type(error).__name__})"
