"""One truth of a run: a turn whose record says that it was not given does not stand in its thread.

A store can go on writing after a run was cut short, and a process can die between the turn and its record. The record
is what the reader was told, and what an auditor reads: the thread is made to agree with it.
"""

import asyncio
import logging
from collections.abc import Sequence

from service.graph.events import Done, Failed, Terminal
from service.graph.history import History
from service.graph.run import Run
from service.graph.state import State
from service.model import Turn
from service.ports import AuditSink
from service.threads import ThreadRef

logger = logging.getLogger(__name__)

WITHDRAW_S = 2.0


class Turns:
    """A thread's turns as the audit log has them."""

    def __init__(self, history: History, audit: AuditSink) -> None:
        self._history = history
        self._audit = audit

    async def state(self, ref: ThreadRef) -> State:
        """The thread without a last turn that was not given."""
        state = await self._history.state(ref)
        if await self._not_given(ref, state["turns"]):
            return {**state, "turns": state["turns"][:-1]}
        return state

    async def agree(self, ref: ThreadRef) -> None:
        """Take such a turn back, before the next one is built on it. The caller has the thread's lock."""
        if run_id := await self._not_given(ref, (await self._history.state(ref))["turns"]):
            logger.warning("turn taken back, its record has no answer run_id=%s", run_id)
            await self._history.withdraw(ref, run_id)

    async def _not_given(self, ref: ThreadRef, turns: Sequence[Turn]) -> str:
        """The run of the last turn where its record holds no answer, else "".

        A run without a record is still under way, or of before the log began.
        """
        if not turns:
            return ""
        run_id = turns[-1]["run_id"]
        try:
            found = await self._audit.run(run_id, ref.client)
        except Exception:
            logger.exception("record not read run_id=%s", run_id)
            return ""
        return run_id if found is not None and found.run.body["ending"]["code"] else ""

    async def ended_early(self, run: Run, failed: Failed) -> Terminal:
        """What is stored decides: where the run's turn stands, the stop or the fault came too late to matter."""
        if run.refused:
            return failed  # it never had the thread, which is another replica's to write
        try:
            turns = (await self._history.state(run.request.ref))["turns"]
        except Exception:
            logger.exception("thread not read run_id=%s", run.run_id)
            return failed
        if turns and turns[-1]["run_id"] == run.run_id:
            return await self.listed(run, turns)
        return await self._unfinished(run, failed)

    async def _unfinished(self, run: Run, failed: Failed) -> Failed:
        """What a run without an answer leaves behind: no turn, but the numbers that it has shown keep their meaning."""
        await self._remembered(run)
        try:
            await self._history.keep_numbers(run.request.ref, run.transcript.named)
        except Exception:
            logger.exception("numbers not kept run_id=%s", run.run_id)
        return failed

    async def _remembered(self, run: Run) -> None:
        """Note what the client was shown, before and apart from all that may fail: only so it can be opened again."""
        try:
            await self._history.shown.remember(run.request.ref, run.transcript.named.values())
        except Exception:
            logger.exception("shown sources not remembered run_id=%s", run.run_id)

    async def listed(self, run: Run, turns: list[Turn]) -> Done:
        """The answer is stored. A list of threads that cannot be written is a fault of its own, and hides no answer."""
        run.turns = turns
        await self._remembered(run)
        try:
            await self._history.record(run.request.ref, run.request.question, run.asked_at, len(turns))
        except Exception:
            logger.exception("thread not listed run_id=%s", run.run_id)
        return done_of(run, turns)

    async def withdraw(self, ref: ThreadRef, run_id: str) -> None:
        """What its reader was told is not given must not stand in the thread after all. Never raises."""
        try:
            async with asyncio.timeout(WITHDRAW_S):
                await self._history.withdraw(ref, run_id)
        except Exception:
            logger.exception("turn not withdrawn run_id=%s", run_id)


def done_of(run: Run, turns: list[Turn]) -> Done:
    return Done(run.request.ref.thread_id, turns[-1], tuple(run.transcript.named.values()))
