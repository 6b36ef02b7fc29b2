"""Where the threads are kept: SQLite files in DATA_DIR, or the PostgreSQL of DATABASE_URL for several replicas."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from service.errors import OperatorError, ThreadsUnavailable
from service.graph.checkpoints import NewestCheckpoint
from service.graph.locks import OneProcess, holding
from service.graph.stops import NoReplicas
from service.ports import RunStops, ThreadLocks
from service.postgres.checkpoints import PostgresCheckpoints, PostgresListing, prepare_tables
from service.postgres.locks import AdvisoryLocks
from service.postgres.pool import check_database, open_pool
from service.postgres.stops import NotifiedStops
from service.settings import Settings

PREPARE_S = 120.0
"""How long a replica waits for another that is preparing the tables: an index over many threads takes a while."""

CONNECTIONS = 8
"""Of a replica, besides the sessions of its locks and stops. A run asks for a few rows at its beginning and its end."""


@dataclass(frozen=True, slots=True)
class ThreadStore:
    """The turns, the list of threads, and the locks and stops that replicas share."""

    checkpointer: BaseCheckpointSaver[Any]
    listing: BaseStore
    locks: ThreadLocks
    stops: RunStops


async def open_threads(settings: Settings, stack: AsyncExitStack) -> ThreadStore:
    """Open the threads. Raises `OperatorError` for a damaged file, or a database that cannot be used."""
    url = settings.DATABASE_URL.get_secret_value()
    return await open_postgres(url, stack) if url else await open_files(settings.DATA_DIR, stack)


async def open_files(folder: Path, stack: AsyncExitStack) -> ThreadStore:
    for name in ("threads.db", "listing.db"):
        (folder / name).touch(mode=0o600)  # SQLite makes its files with the process's umask
    async with readable(folder / "threads.db"):
        checkpointer = await stack.enter_async_context(NewestCheckpoint.from_conn_string(str(folder / "threads.db")))
        await checkpointer.setup()
    async with readable(folder / "listing.db"):
        listing = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(str(folder / "listing.db")))
        await listing.setup()
    return ThreadStore(checkpointer, listing, OneProcess(), NoReplicas())


async def open_postgres(url: str, stack: AsyncExitStack) -> ThreadStore:
    await check_database(url)
    locks = AdvisoryLocks(url)
    stack.push_async_callback(locks.close)
    try:
        async with holding(locks, "tables", PREPARE_S):
            await prepare_tables(url)
        pool = await stack.enter_async_context(open_pool(url, most=CONNECTIONS))
    except ThreadsUnavailable as error:
        raise OperatorError(
            f"The tables of the threads could not be prepared: {error.__cause__ or error}\n"
            "Look whether the PostgreSQL of DATABASE_URL is up and has connections to give, then start again."
        ) from error
    stops = NotifiedStops(url, pool)
    await stops.open()
    stack.push_async_callback(stops.close)
    return ThreadStore(PostgresCheckpoints(pool, locks), PostgresListing(pool), locks, stops)


@asynccontextmanager
async def readable(file: Path) -> AsyncIterator[None]:
    """Turn a file that is no database into an error that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise OperatorError(
            f"{file} cannot be read ({error}). Restore it from a backup, or move it away to begin without old threads."
        ) from error
