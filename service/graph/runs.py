"""Runs from their first event to their last: the thread's lock, the deadline, the cancel and the end.

The order of the end is fixed: checkpoint, list of threads, audit record, lock released, then the one terminal event.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from langchain_core.runnables import RunnableConfig

from service.errors import (
    AuditUnavailable,
    GatehouseError,
    NotFound,
    Overloaded,
    ShuttingDown,
    ThreadBusy,
    TooManyRuns,
)
from service.graph.build import Graph
from service.graph.endings import INTERNAL, LOST, SHUTDOWN, STOPS, UNRECORDED, as_failed, failure_of
from service.graph.events import Done, Terminal
from service.graph.history import History, config_of
from service.graph.record import ending_of, record_of
from service.graph.routing import recursion_limit
from service.graph.run import Request, Run
from service.graph.state import Services, State, request_state
from service.graph.stops import NoReplicas
from service.graph.turns import Turns, done_of
from service.logs import RUN_ID
from service.ports import AnswerModel, AuditSink, RunObserver, RunStops
from service.record import InstallationRecord
from service.threads import ThreadRef, new_run_id

logger = logging.getLogger(__name__)

ENDING_S = 2.0
"""Of `CLOSING_S`: for the work of a run to end and its thread to be read. The rest is for its record."""
CLOSING_S = 7.5
STORING_S = 30.0
"""After the deadline: for a turn that is being stored. A store that takes longer keeps its thread, and no reader."""
BUSY = "This thread is still answering. Wait for it to end, or stop it, then try again."


class Runs:
    """Starts runs and knows those under way: one per thread, `max_runs_per_client` per client, `max_runs` in all.

    Two locks make it one per thread: `_busy` in this process, at once, and `history.locks` among all replicas.
    """

    def __init__(
        self,
        graph: Graph,
        history: History,
        services: Services,
        model_for_run: Callable[[], AnswerModel],
        *,
        audit: AuditSink,
        installation: InstallationRecord,
        observers: Sequence[RunObserver] = (),
        stops: RunStops | None = None,
        deadline_s: float,
        max_runs: int,
        max_runs_per_client: int,
    ) -> None:
        self._graph = graph
        self._history = history
        self._locks = history.locks
        self._services = services
        self._model_for_run = model_for_run
        self._audit = audit
        self._turns = Turns(history, audit)
        self._installation = installation
        self._observers = observers
        self._stops = stops or NoReplicas()
        self._stops.obey(self._stop_here)
        self._deadline_s = deadline_s
        self._max_runs = max_runs
        self._max_runs_per_client = max_runs_per_client
        self._active: dict[str, Run] = {}
        self._busy: set[str] = set()
        self._settling: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, request: Request) -> Run:
        """Take the thread's lock in this process and begin.

        Raises `ShuttingDown`, `TooManyRuns`, `Overloaded`, `AuditUnavailable` or `ThreadBusy` before anything has
        happened. Await `Run.admitted` before anything is shown: another replica may be answering the thread.
        """
        self._leave_room(request.ref.client)
        self._audit.check()
        asked_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        run = Run(new_run_id(), request, asked_at, self._services, self._model_for_run())
        run.transcript.tell(run.started())  # before the lock is taken: whatever breaks here locks no thread for good
        self._take(request.ref)
        RUN_ID.set(run.run_id)  # for the log, in whatever the run does from here on
        self._active[run.run_id] = run
        # Two tasks: a stop cancels the work, and the run's end (its record, its lock, its last event) is never cut off.
        run.work = asyncio.create_task(self._answer(run), name=f"{run.run_id} work")
        run.task = asyncio.create_task(self._drive(run), name=run.run_id)
        run.task.add_done_callback(lambda _: self._end(run, run.terminal or INTERNAL))
        return run

    def _leave_room(self, client: str) -> None:
        if self._closing:
            raise ShuttingDown(SHUTDOWN.message)
        own = sum(run.request.ref.client == client for run in self._active.values())
        if own >= self._max_runs_per_client:
            raise TooManyRuns(f"You have {own} answers under way. Wait for one to end, or stop it, then try again.")
        if len(self._active) >= self._max_runs:
            raise Overloaded("Too many answers are being written at the moment. Please try again shortly.")

    @property
    def running(self) -> int:
        """How many runs are under way in this process."""
        return len(self._active)

    async def stop(self, run_id: str, client: str) -> None:
        """Stop the client's run, whichever replica answers it.

        Raises `NotFound` alike for unknown, ended and foreign runs, `ThreadsUnavailable` where no replica can be asked.
        """
        if not self._stop_here(run_id, client) and not await self._stops.ask(run_id, client):
            raise NotFound("There is no such run under way.")

    def _stop_here(self, run_id: str, client: str) -> bool:
        if not self.under_way(run_id, client):
            return False
        self._active[run_id].stop("person")
        return True

    def under_way(self, run_id: str, client: str) -> bool:
        run = self._active.get(run_id)
        return run is not None and run.request.ref.client == client

    def showing(self, client: str, passage_id: str, sha256: str) -> bool:
        """Does a run under way show this version of the passage to the client? What has ended is in the history."""
        return any(run.shows(client, passage_id, sha256) for run in self._active.values())

    async def thread(self, ref: ThreadRef) -> State:
        """The thread as its readers were given it; empty lists where it is unknown."""
        return await self._turns.state(ref)

    def busy(self, ref: ThreadRef) -> bool:
        return ref.key in self._busy

    async def answering(self, ref: ThreadRef) -> bool:
        """Whether a run of this or of another replica is answering the thread."""
        return self.busy(ref) or await self._locks.taken(ref.key)

    @asynccontextmanager
    async def holding(self, ref: ThreadRef) -> AsyncIterator[None]:
        """Keep the thread from answering meanwhile, on every replica. Raises `ThreadBusy` where it is answering."""
        self._take(ref)
        try:
            await self._take_everywhere(ref)
            yield
        finally:
            try:
                await self._locks.release(ref.key)
            finally:
                self._busy.discard(ref.key)

    def _take(self, ref: ThreadRef) -> None:
        if ref.key in self._busy:
            raise ThreadBusy(BUSY)
        self._busy.add(ref.key)

    async def _take_everywhere(self, ref: ThreadRef) -> None:
        if not await self._locks.take(ref.key):
            raise ThreadBusy(BUSY)

    async def close(self) -> None:
        """End every run under way with a terminal event, and take no new ones.

        Bounded: a store that hangs must not keep the process from ending, nor a run from its record.
        """
        self._closing = True
        runs = list(self._active.values())
        for run in runs:
            run.stop("shutdown")
        if tasks := [run.task for run in runs if run.task is not None]:
            await asyncio.wait(tasks, timeout=ENDING_S)
            for run in runs:
                run.cut_short("shutdown")
            await asyncio.wait(tasks, timeout=CLOSING_S - ENDING_S)
        for run in runs:
            self._end(run, run.terminal or UNRECORDED)

    async def _drive(self, run: Run) -> None:
        try:
            run.terminal = await self._recorded(run, await self._within_the_deadline(run))
        finally:
            await self._let_go(run)
        self._end(run, run.terminal)
        self._observed(run)

    async def _let_go(self, run: Run) -> None:
        """Release the lock; of a run that was cut short, once its store has ended and no turn stands."""
        run.unsettled = run.work is not None and not run.work.done()
        if not run.unsettled:
            await self._locks.release(run.request.ref.key)
            return
        settling = asyncio.create_task(self._settle(run), name=f"{run.run_id} settling")
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    async def _settle(self, run: Run) -> None:
        """Wait for the store. What then stands in the thread is what the record says."""
        assert run.work is not None
        await asyncio.wait([run.work])
        if not run.work.cancelled() and (fault := run.work.exception()) is not None:
            logger.warning("run that was cut short failed run_id=%s fault=%s", run.run_id, type(fault).__name__)
        if not isinstance(run.terminal, Done):
            await self._turns.withdraw(run.request.ref, run.run_id)
        await self._locks.release(run.request.ref.key)
        self._busy.discard(run.request.ref.key)

    async def _within_the_deadline(self, run: Run) -> Terminal:
        assert run.work is not None
        # A timer outside the work: deadline, stop and shutdown end a run in one and the same way.
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self._deadline_s, run.stop, "deadline")
        last = loop.call_later(self._deadline_s + STORING_S, run.cut_short, "deadline")
        try:
            await asyncio.wait([run.work])
            return await self._outcome(run, run.work)
        except asyncio.CancelledError:  # cut short
            return done_of(run, run.turns) if run.turns else STOPS.get(run.stopped_by, INTERNAL)
        finally:
            deadline.cancel()
            last.cancel()

    async def _outcome(self, run: Run, work: asyncio.Task[Done]) -> Terminal:
        try:
            return work.result()
        except asyncio.CancelledError as error:
            if not run.stopped_by:
                logger.error("run was cancelled by no one run_id=%s", run.run_id, exc_info=error)
            return await self._turns.ended_early(run, STOPS.get(run.stopped_by, INTERNAL))
        except Exception as error:
            return await self._turns.ended_early(run, failure_of(error, run.run_id))

    async def _recorded(self, run: Run, terminal: Terminal) -> Terminal:
        """Write the run's record. Where it cannot be written the run ends in that error, and the record is held."""
        if run.refused:
            return terminal
        run.record = record_of(run, terminal, self._installation)
        try:
            await self._audit.append("run", run.record)
        except AuditUnavailable as error:
            failed = as_failed(error)
            run.record = {**run.record, "ending": ending_of(failed, run.stopped_by)}
            self._audit.hold("run", run.record)
            await self._turns.withdraw(run.request.ref, run.run_id)
            return failed
        return terminal

    def _observed(self, run: Run) -> None:
        """Show the run's record to whoever watches. A fault of theirs is none of the run's."""
        if run.record is None:
            return
        for observer in self._observers:
            try:
                observer.ended(run.record)
            except Exception:
                logger.exception("run not observed run_id=%s by=%s", run.run_id, type(observer).__name__)

    async def _admit(self, run: Run) -> None:
        try:
            await self._take_everywhere(run.request.ref)
        except GatehouseError as refused:
            run.let_in(refused)
            raise
        run.let_in()

    def _end(self, run: Run, terminal: Terminal) -> None:
        """Release the lock, then tell the terminal event; once, whoever comes first."""
        if self._active.pop(run.run_id, None) is None:
            return
        if not run.unsettled:
            self._busy.discard(run.request.ref.key)
        run.let_in()
        run.transcript.tell(terminal)

    async def _answer(self, run: Run) -> Done:
        await self._admit(run)
        request, deps = run.request, run.deps
        await self._turns.agree(request.ref)
        await self._audit.begin(record_of(run, LOST, self._installation))
        config: RunnableConfig = {**config_of(request.ref), "recursion_limit": recursion_limit(deps.limits)}
        values = request_state(request.question, request.web_search)
        final = await self._graph.ainvoke(values, config, context=deps, durability="exit")
        return await self._turns.listed(run, final["turns"])
