"""Threads in PostgreSQL: LangGraph's checkpointer keeping only a thread's newest checkpoint, and its store."""

import logging
from collections.abc import Iterable

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.base import Op, Result
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg.conninfo import conninfo_to_dict

from service.checkpoints import WithoutSteps
from service.errors import OperatorError, ThreadsUnavailable
from service.ports import ThreadLocks
from service.postgres.pool import AWAY, AWAY_TEXT, Pool, answering

logger = logging.getLogger(__name__)

NOT_ALLOWED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName)
"""The second: no schema that the role may use is on its search path."""


class PostgresCheckpoints(WithoutSteps, AsyncPostgresSaver):
    """Stores a checkpoint only while the thread's lock is this replica's, then deletes the older ones.

    The rule of `graph/checkpoints.py`: a crash between the two leaves one checkpoint too many, never none.
    """

    def __init__(self, pool: Pool, locks: ThreadLocks) -> None:
        super().__init__(pool)
        self._locks = locks

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        async with answering():
            return await super().aget_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread = config["configurable"]["thread_id"]
        await self._locks.confirm(thread)
        async with answering():
            stored = await super().aput(config, checkpoint, metadata, new_versions)
            try:
                await self.aprune([thread])
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                logger.info("older checkpoints are left to the next turn: the thread was written meanwhile")
        return stored

    async def adelete_thread(self, thread_id: str) -> None:
        async with answering():
            await super().adelete_thread(thread_id)


class PostgresListing(AsyncPostgresStore):
    """The list of threads."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        async with answering():
            return await super().abatch(ops)


async def prepare_tables(url: str) -> None:
    """Create or migrate LangGraph's tables. Not for two replicas at once: the caller holds a lock.

    Raises `OperatorError` where the role may not, `ThreadsUnavailable` for a database that is away.
    """
    try:
        async with AsyncPostgresSaver.from_conn_string(url) as checkpoints:
            await checkpoints.setup()
        async with AsyncPostgresStore.from_conn_string(url) as store:
            await store.setup()
    except NOT_ALLOWED as error:
        raise OperatorError(may_not_prepare(url, str(error).strip())) from error
    except AWAY as error:
        raise ThreadsUnavailable(AWAY_TEXT) from error


def may_not_prepare(url: str, said: str) -> str:
    """What to do, with what PostgreSQL said. A role that owns no database may create nothing in it since version 15."""
    role = conninfo_to_dict(url).get("user") or "the role of DATABASE_URL"
    return (
        f"The tables of the threads could not be prepared: {said}\n"
        f"As the owner of the database, run: GRANT USAGE, CREATE ON SCHEMA public TO {role}; "
        "or let that role own the database. Where the tables are there already, it must own them."
    )
