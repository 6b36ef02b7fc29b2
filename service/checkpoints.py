"""What a checkpointer of ours leaves out, wherever it stores its threads."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig


class WithoutSteps:
    """A checkpointer that stores whole turns alone. It stands before LangGraph's own saver among the bases."""

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keeps nothing: these are the steps of a run that was stopped half way, and no run is taken up again.

        LangGraph 1.2.24 would store the untracked values among them too (question, passages, web findings).
        """
