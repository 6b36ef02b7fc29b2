"""The SQLite checkpointer, keeping only a thread's newest checkpoint.

Each checkpoint holds all turns of its thread, and nothing here goes back in time: kept as they come, they grow with the
square of the turns (40 turns: 5.2 MB in 40 checkpoints, 0.3 MB in the last one).
"""

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from service.checkpoints import WithoutSteps


class NewestCheckpoint(WithoutSteps, AsyncSqliteSaver):
    """Deletes what is older once the new checkpoint is committed: a crash between leaves one too many, never none."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        stored = await super().aput(config, checkpoint, metadata, new_versions)
        place = stored["configurable"]
        older = (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"])
        async with self.lock, self.conn.cursor() as cursor:
            for table in ("checkpoints", "writes"):
                # LangGraph's checkpoint ids are made to sort by time.
                await cursor.execute(
                    f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?", older
                )
            await self.conn.commit()
        return stored

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes the thread's text from the file and its journal too: what was erased is not to be read from the disk.

        While another process reads, SQLite cannot cut the journal; the next deletion does.
        """
        async with self.lock:
            await self.conn.execute("PRAGMA secure_delete = ON")
        await super().adelete_thread(thread_id)
        async with self.lock:
            await self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
