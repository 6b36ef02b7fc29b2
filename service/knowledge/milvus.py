"""The knowledge base on Milvus: Milvus Lite in this process for a path, a server for a URL. One adapter over both."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pymilvus import AnnSearchRequest, AsyncMilvusClient, MilvusException, RRFRanker

from service.errors import IngestError, KnowledgeBaseError
from service.knowledge.lite_store import LiteStore
from service.knowledge.milvus_answers import answering
from service.knowledge.milvus_rows import (
    STORED_FIELDS,
    document_key,
    is_storable,
    literal,
    one_of,
    passage_of,
    requests_of,
    row_of,
    scope_filter,
    version_of,
    whole_version,
)
from service.knowledge.milvus_schema import GRPC_OPTIONS, LOAD_TIMEOUT_S, Capability, dense_params, prepare_collection
from service.knowledge.terms import terms_of
from service.model import Candidate, ComponentState, Passage, Scope

RRF_K = 60
PAGE_ROWS = 4_096
DELETE_IDS = 1_000
UNFLUSHED_ROWS = 200
WRITE_TIMEOUT_S = 60.0
"""Milvus Lite takes seconds for the rows of one very long document."""

DENSE_ONLY = (
    "This Milvus server has no BM25 function (it came with 2.5): passages are found by meaning, not by their words."
)

Row = dict[str, Any]
T = TypeVar("T")

NOT_LOADED = 101
"""Milvus' code for a collection that is there and not in memory (`CollectionNotLoaded`)."""


class Embeds(Protocol):
    """What the adapter needs of an embedder. `identity` names the weights.

    `embed` gives float32 (n, dim), unit length, without blocking the event loop.
    """

    @property
    def dim(self) -> int: ...

    @property
    def identity(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class MilvusKnowledge:
    """`KnowledgeBase` on one collection. Lives in the event loop that opened it."""

    def __init__(
        self,
        client: AsyncMilvusClient,
        can: Capability,
        *,
        collection: str,
        embedder: Embeds,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._can = can
        self._collection = collection
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._opened = AsyncExitStack()
        # Milvus Lite takes concurrent readers but a single writer per collection.
        self._writing = asyncio.Lock()
        self._unflushed_rows = 0

    @classmethod
    async def open(
        cls,
        uri: str,
        *,
        token: str = "",
        collection: str = "passages",
        embedder: Embeds,
        timeout_s: float = 10,
    ) -> Self:
        """Open a Milvus Lite path or a server's URL, making the collection when it is not there.

        Raises `StoreLocked`, `EmbeddingMismatch` and `KnowledgeBaseError`.
        """
        async with AsyncExitStack() as opened:
            address = uri
            if "://" not in uri:
                store = await asyncio.to_thread(LiteStore.start, uri)
                opened.push_async_callback(asyncio.to_thread, store.stop)
                address = store.address
            async with answering(LOAD_TIMEOUT_S):
                can = await asyncio.to_thread(
                    prepare_collection,
                    address,
                    token,
                    collection,
                    dim=embedder.dim,
                    embedding=embedder.identity,
                    timeout_s=timeout_s,
                )
                client = AsyncMilvusClient(
                    address, token=token, timeout=timeout_s, dedicated=True, grpc_options=GRPC_OPTIONS
                )
                opened.push_async_callback(client.close)
            knowledge = cls(client, can, collection=collection, embedder=embedder, timeout_s=timeout_s)
            await knowledge._warm_up()
            knowledge._opened = opened.pop_all()
            return knowledge

    async def _warm_up(self) -> None:
        """Connect, since first calls made at once would each open a connection of their own, and read the indexes."""
        anywhere = np.full((1, self._embedder.dim), self._embedder.dim**-0.5, dtype=np.float32)
        async with answering(LOAD_TIMEOUT_S):
            await self._nearest(anywhere, "rule", 1, "")

    async def close(self) -> None:
        """Let go of the connection and, for Milvus Lite, of the store's lock. Idempotent."""
        await self._opened.aclose()

    async def search(self, query: str, *, limit: int, scope: Scope) -> list[Candidate]:
        within = scope_filter(scope)
        if within is None or limit < 1:
            return []
        query = query.encode(errors="replace").decode()
        vector = await self._embedder.embed([query])
        await self._flush_if_needed()
        async with answering(self._timeout_s):
            hits = await self._loaded(lambda: self._nearest(vector, terms_of(query), limit, within))
        candidates = [Candidate(passage_of(hit["entity"]), float(hit["distance"])) for hit in hits]
        return [candidate for candidate in candidates if scope.admits(candidate.passage)]

    async def _loaded(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and once more where a server that was started again has not loaded the collection."""
        try:
            return await ask()
        except MilvusException as error:
            if error.code != NOT_LOADED:
                raise
        await self._client.load_collection(self._collection)
        return await ask()

    async def _nearest(self, vector: NDArray[np.float32], terms: str, limit: int, within: str) -> list[Row]:
        if terms and self._can.bm25:
            return await self._hybrid(vector, terms, limit, within)
        return await self._dense(vector, limit, within)

    async def _hybrid(self, vector: NDArray[np.float32], terms: str, limit: int, within: str) -> list[Row]:
        requests = [
            AnnSearchRequest(vector.tolist(), "dense", dense_params(limit), limit, expr=within),
            AnnSearchRequest([terms], "sparse", {"metric_type": "BM25"}, limit, expr=within),
        ]
        found = await self._client.hybrid_search(
            self._collection,
            requests,
            RRFRanker(RRF_K),
            limit=limit,
            output_fields=STORED_FIELDS,
            consistency_level="Strong",
        )
        return list(found[0])

    async def _dense(self, vector: NDArray[np.float32], limit: int, within: str) -> list[Row]:
        found = await self._client.search(
            self._collection,
            vector.tolist(),
            filter=within,
            limit=limit,
            anns_field="dense",
            search_params=dense_params(limit),
            output_fields=STORED_FIELDS,
            consistency_level="Strong",
        )
        return list(found[0])

    async def get(self, passage_id: str) -> Passage | None:
        if not is_storable(passage_id):
            return None
        page = await self._page(f"passage_id == {literal(passage_id)}", STORED_FIELDS)
        return passage_of(page[0]) if page else None

    async def documents(self, source: str) -> dict[str, str]:
        """As the port says; "" stands for a document that the next ingest has to write anew (`whole_version`)."""
        if not is_storable(source):
            return {}
        await self._flush_if_needed()
        versions = defaultdict(list)
        fields = ["passage_id", "address", "sha256", "parts", "details"]
        async for row in self._rows(f"source == {literal(source)}", fields):
            versions[row["address"]].append(version_of(row))
        return {address: whole_version(found) for address, found in versions.items()}

    async def replace(self, source: str, address: str, passages: Sequence[Passage]) -> None:
        """As the port says. Raises `IngestError`, before anything is written, for text that cannot be stored.

        The new rows are written before the old are deleted: a reader may see both for a moment, never neither.
        """
        if any((passage.source, passage.address) != (source, address) for passage in passages):
            raise ValueError("a passage of another document")
        if len({passage.passage_id for passage in passages}) != len(passages):
            raise ValueError("two passages with one passage_id")
        rows = await self._rows_of(passages)
        await self._flush_if_needed()
        async with self._writing:
            for batch in requests_of(rows):
                self._unflushed_rows += len(batch)
                async with answering(WRITE_TIMEOUT_S):
                    await self._client.upsert(self._collection, batch)
            await self._delete_all_but(source, address, {passage.passage_id for passage in passages})

    async def _flush_if_needed(self) -> None:
        """Have Milvus Lite index what was written: rows it has not flushed are read one by one.

        Measured: a search over 2,000 unflushed rows takes 800 ms, over 2,000 flushed ones 20 ms. A server flushes by
        itself and limits how often it may be asked.
        """
        if not self._can.needs_flush or self._unflushed_rows < UNFLUSHED_ROWS or self._writing.locked():
            return
        async with self._writing, answering(LOAD_TIMEOUT_S):
            await self._client.flush(self._collection)
            self._unflushed_rows = 0

    async def remove(self, source: str, address: str) -> None:
        async with self._writing:
            await self._delete_all_but(source, address, set())

    async def count(self) -> int:
        async with answering(self._timeout_s):
            rows = await self._query(output_fields=["count(*)"])
        return int(rows[0]["count(*)"])

    async def state(self) -> ComponentState:
        try:
            count = await self.count()
        except KnowledgeBaseError as error:
            return ComponentState("milvus", ok=False, detail=str(error))
        warning = "" if self._can.bm25 else DENSE_ONLY
        return ComponentState("milvus", ok=True, detail=f"{self._can.version}, {count} passages", warning=warning)

    async def _rows_of(self, passages: Sequence[Passage]) -> list[Row]:
        """Check and embed everything, so that what follows can only fail for the store's sake."""
        rows = await asyncio.to_thread(
            lambda: [row_of(passage, parts=len(passages), with_terms=self._can.bm25) for passage in passages]
        )
        vectors = await self._embedder.embed([passage.indexed_text for passage in passages])
        if vectors.shape != (len(passages), self._embedder.dim) or not np.isfinite(vectors).all():
            raise IngestError("The embedding model gave no usable vectors for a document: nothing was changed.")
        return [{**row, "dense": vector.tolist()} for row, vector in zip(rows, vectors, strict=True)]

    async def _delete_all_but(self, source: str, address: str, keep: set[str]) -> None:
        mine = f"document == {literal(document_key(source, address))}"
        stale = [row["passage_id"] async for row in self._rows(mine, ["passage_id"]) if row["passage_id"] not in keep]
        for start in range(0, len(stale), DELETE_IDS):
            async with answering(WRITE_TIMEOUT_S):
                await self._client.delete(
                    self._collection, filter=one_of("passage_id", stale[start : start + DELETE_IDS])
                )

    async def _rows(self, within: str, fields: list[str]) -> AsyncIterator[Row]:
        """Yield every matching row in the order of passage_id, page by page: a server gives at most 16,384 at once."""
        last = ""
        while True:
            page = await self._page(f"{within} and passage_id > {literal(last)}", fields)
            for row in page:
                yield row
            if len(page) < PAGE_ROWS:
                return
            last = page[-1]["passage_id"]

    async def _page(self, within: str, fields: list[str]) -> list[Row]:
        async with answering(self._timeout_s):
            return await self._query(
                filter=within,
                output_fields=fields,
                limit=PAGE_ROWS,
                iterator="True",  # the first rows by primary key, sorted
                reduce_stop_for_best="True",
            )

    async def _query(self, **asked: Any) -> list[Row]:
        async def once() -> list[Row]:
            return list(await self._client.query(self._collection, consistency_level="Strong", **asked))

        return await self._loaded(once)
