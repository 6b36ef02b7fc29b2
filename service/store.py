"""The part of the composition root that keeps: the embedder, the index and the snapshots."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from service.data_dir import keep_private, make_data_dir
from service.knowledge.embed import Embedder
from service.knowledge.ingest import Ingestor
from service.knowledge.milvus import MilvusKnowledge
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import SourceRegistry
from service.knowledge.tuned import NAME as TUNED
from service.knowledge.tuned import load_tuned
from service.settings import Settings

Progress = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Store:
    """What ingesting needs: the embedder, the index and the snapshots."""

    embedder: Embedder
    knowledge: MilvusKnowledge
    snapshots: Snapshots
    registry: SourceRegistry
    ingestor: Ingestor


@asynccontextmanager
async def open_store(settings: Settings, progress: Progress) -> AsyncIterator[Store]:
    """Open the embedder, Milvus and the snapshots. Raises `OperatorError` or `KnowledgeBaseError`."""
    make_data_dir(settings.DATA_DIR)
    embedder = await timed("loading the embedding model", progress, lambda: load_embedder(settings))
    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        knowledge = await MilvusKnowledge.open(
            settings.milvus_uri(),
            token=settings.MILVUS_TOKEN.get_secret_value(),
            collection=settings.MILVUS_COLLECTION,
            embedder=embedder,
            timeout_s=settings.MILVUS_TIMEOUT_S,
        )
        stack.push_async_callback(knowledge.close)
        keep_private(settings.DATA_DIR)  # Milvus Lite makes its folder with the process's umask
        progress(f"opening the store: {time.perf_counter() - began:.1f} s")
        snapshots = Snapshots(settings.DATA_DIR / "snapshots")
        registry = SourceRegistry(settings.DATA_DIR / "sources.json")
        registry.get("")  # a damaged file is found now, not at the first link
        ingestor = Ingestor(
            knowledge, snapshots, registry, count_tokens=embedder.count_tokens, max_tokens=embedder.max_tokens
        )
        yield Store(embedder, knowledge, snapshots, registry, ingestor)


def load_embedder(settings: Settings) -> Embedder:
    if settings.EMBEDDING_MODEL == TUNED:
        return load_tuned(threads=settings.TORCH_THREADS)
    return Embedder.load(settings.EMBEDDING_MODEL, threads=settings.TORCH_THREADS)


async def timed(what: str, progress: Progress, work: Callable[[], T]) -> T:
    progress(f"{what} ...")
    began = time.perf_counter()
    result = await asyncio.to_thread(work)
    progress(f"{what}: {time.perf_counter() - began:.1f} s")
    return result
