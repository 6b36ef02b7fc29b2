"""A run from its first event to its last: it owns the thread's lock, the deadline, the cancel and the end.

The order of the end is fixed: checkpoint, list of threads, audit record, lock released, then the one terminal event.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime

from langchain_core.runnables import RunnableConfig

from service.errors import (
    AuditUnavailable,
    Cancelled,
    DeadlineExceeded,
    GatehouseError,
    NotFound,
    Overloaded,
    ShuttingDown,
    ThreadBusy,
    TooManyRuns,
)
from service.graph.build import Graph
from service.graph.events import Done, Failed, Stage, Started, Terminal, Told
from service.graph.history import History, config_of
from service.graph.record import ending_of, record_of
from service.graph.routing import recursion_limit
from service.graph.state import Deps, Services, request_state
from service.graph.transcript import Transcript
from service.logs import RUN_ID
from service.model import Delivery, Turn, warnings_of
from service.ports import AnswerModel, AuditSink, RunObserver
from service.record import InstallationRecord, RunRecord, StoppedBy
from service.skills.skill import NO_SKILL, Skill
from service.threads import ThreadRef, new_run_id

logger = logging.getLogger(__name__)

CLOSING_S = 8.0
BUSY = "This thread is still answering. Wait for it to end, or stop it, then try again."


def as_failed(error: GatehouseError) -> Failed:
    return Failed(error.code, str(error), error.retryable, error.status)


CANCELLED = as_failed(Cancelled("The answer was stopped."))
SHUTDOWN = as_failed(ShuttingDown("The service is restarting. Please ask again in a moment."))
DEADLINE = as_failed(DeadlineExceeded("The answer took too long and was stopped. Please try again."))
INTERNAL = as_failed(GatehouseError("Something went wrong on our side. The fault was logged under the run's id."))
LOST = Failed("lost", "The service died in the middle of this run. What was shown by then is not known.", True, 500)
"""The ending of a run that left nothing but the note of its beginning."""

STOPS: dict[StoppedBy, Failed] = {
    "person": CANCELLED,
    "reader_left": CANCELLED,
    "deadline": DEADLINE,
    "shutdown": SHUTDOWN,
}
"""The terminal event of a run that was stopped, by who stopped it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question, as the API or the command line took it. `ref` is of the skill's own thread."""

    ref: ThreadRef
    question: str
    web_search: bool = False
    delivery: Delivery = "draft"
    skill: Skill = NO_SKILL


@dataclass(slots=True)
class Run:
    """A run under way. Its events can be read once, by one reader."""

    run_id: str
    request: Request
    asked_at: str
    services: InitVar[Services]
    model: InitVar[AnswerModel]
    told: asyncio.Queue[Told] = field(default_factory=asyncio.Queue)
    transcript: Transcript = field(init=False)
    deps: Deps = field(init=False)
    work: asyncio.Task[Done] | None = None
    task: asyncio.Task[None] | None = None
    admission: asyncio.Future[GatehouseError | None] = field(init=False)
    stopped_by: StoppedBy = ""
    storing: bool = False
    record: RunRecord | None = None

    def __post_init__(self, services: Services, model: AnswerModel) -> None:
        self.transcript = Transcript(self._tell)
        delivery = self.request.skill.delivery_of(self.request.delivery)
        self.deps = Deps(services, model, self.transcript, self.run_id, self.asked_at, delivery, self.request.skill)
        self.admission = asyncio.get_running_loop().create_future()

    def _tell(self, told: Told) -> None:
        self.told.put_nowait(told)
        if isinstance(told.event, Stage) and (told.event.node, told.event.state) == ("finalize", "end"):
            self.storing = True

    async def events(self) -> AsyncIterator[Told]:
        """Yield each event as it happens; the terminal event is the last."""
        while True:
            told = await self.told.get()
            yield told
            if isinstance(told.event, Terminal):
                return

    async def admitted(self) -> None:
        """Wait until the thread is this run's on every replica.

        Raises `ThreadBusy` or `ThreadsUnavailable` where it cannot be: nothing has happened then. A caller that leaves
        meanwhile stops the run.
        """
        try:
            refused = await asyncio.shield(self.admission)
        except asyncio.CancelledError:
            self.stop("reader_left")
            raise
        if refused is not None:
            raise refused

    @property
    def refused(self) -> bool:
        """The thread is another replica's: nothing of this run is shown, stored or recorded."""
        return self.admission.done() and self.admission.result() is not None

    def let_in(self, refused: GatehouseError | None = None) -> None:
        """Say, once, that the thread is this run's, or why it is not."""
        if not self.admission.done():
            self.admission.set_result(refused)

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])

    def stop(self, by: StoppedBy = "person") -> None:
        """Cancel the run: its model stream is closed, `STOPS[by]` is its terminal event. Does nothing after the end.

        Nor while the turn is being stored: LangGraph goes on writing after a cancel, so that the thread would be free,
        and the run told as stopped, before its turn appears.
        """
        if self.work is not None and not self.stopped_by and not self.storing:
            self.stopped_by = by
            self.work.cancel()


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
        self._installation = installation
        self._observers = observers
        self._deadline_s = deadline_s
        self._max_runs = max_runs
        self._max_runs_per_client = max_runs_per_client
        self._active: dict[str, Run] = {}
        self._busy: set[str] = set()
        self._closing = False

    def start(self, request: Request) -> Run:
        """Take the thread's lock in this process and begin.

        Raises `TooManyRuns`, `Overloaded`, `AuditUnavailable` or `ThreadBusy` before anything has happened.
        Await `Run.admitted` before anything is shown: another replica may be answering the thread.
        """
        self._leave_room(request.ref.client)
        self._audit.check()
        asked_at = datetime.now(UTC).isoformat(timespec="seconds")
        run = Run(new_run_id(), request, asked_at, self._services, self._model_for_run())
        self._take(request.ref)
        RUN_ID.set(run.run_id)  # for the log, in whatever the run does from here on
        self._active[run.run_id] = run
        run.transcript.tell(self._started(run))
        # Two tasks: a stop cancels the work, and the run's end (its record, its lock, its last event) is never cut off.
        run.work = asyncio.create_task(self._answer(run), name=f"{run.run_id} work")
        run.task = asyncio.create_task(self._drive(run), name=run.run_id)
        run.task.add_done_callback(lambda _: self._end(run, INTERNAL))
        return run

    def _leave_room(self, client: str) -> None:
        own = sum(run.request.ref.client == client for run in self._active.values())
        if own >= self._max_runs_per_client:
            raise TooManyRuns(f"You have {own} answers under way. Wait for one to end, or stop it, then try again.")
        if self._closing or len(self._active) >= self._max_runs:
            raise Overloaded("Too many answers are being written at the moment. Please try again shortly.")

    @property
    def running(self) -> int:
        """How many runs are under way in this process."""
        return len(self._active)

    def find(self, run_id: str, client: str) -> Run:
        """Return the client's run under way. Raises `NotFound` alike for unknown, ended and foreign runs."""
        if not self.under_way(run_id, client):
            raise NotFound("There is no such run under way.")
        return self._active[run_id]

    def under_way(self, run_id: str, client: str) -> bool:
        run = self._active.get(run_id)
        return run is not None and run.request.ref.client == client

    def showing(self, client: str, passage_id: str, sha256: str) -> bool:
        """Does a run under way show this version of the passage to the client? What has ended is in the history."""
        return any(
            (source["passage_id"], source["sha256"]) == (passage_id, sha256)
            for run in self._active.values()
            if run.request.ref.client == client
            for source in run.transcript.named.values()
        )

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
            await self._locks.release(ref.key)
            self._busy.discard(ref.key)

    def _take(self, ref: ThreadRef) -> None:
        if ref.key in self._busy:
            raise ThreadBusy(BUSY)
        self._busy.add(ref.key)

    async def _take_everywhere(self, ref: ThreadRef) -> None:
        if not await self._locks.take(ref.key):
            raise ThreadBusy(BUSY)

    async def close(self) -> None:
        """End every run under way with a terminal event, and take no new ones."""
        self._closing = True
        runs = list(self._active.values())
        for run in runs:
            run.stop("shutdown")
        if runs:
            # Bounded: a store that hangs must not keep the process from ending.
            await asyncio.wait([run.task for run in runs if run.task is not None], timeout=CLOSING_S)
        for run in runs:
            self._end(run, SHUTDOWN)

    async def _drive(self, run: Run) -> None:
        try:
            terminal = await self._within_the_deadline(run)
            if not run.refused:
                terminal = await self._recorded(run, terminal)
        finally:
            await self._locks.release(run.request.ref.key)
        self._end(run, terminal)
        self._observed(run)

    async def _within_the_deadline(self, run: Run) -> Terminal:
        assert run.work is not None
        # A timer outside the work: deadline, stop and shutdown end a run in one and the same way.
        deadline = asyncio.get_running_loop().call_later(self._deadline_s, run.stop, "deadline")
        try:
            await asyncio.wait([run.work])
            return await self._outcome(run, run.work)
        finally:
            deadline.cancel()

    async def _outcome(self, run: Run, work: asyncio.Task[Done]) -> Terminal:
        try:
            return work.result()
        except asyncio.CancelledError as error:
            if not run.stopped_by:
                logger.error("run was cancelled by no one run_id=%s", run.run_id, exc_info=error)
            return await self._ended_early(run, STOPS.get(run.stopped_by, INTERNAL))
        except Exception as error:
            return await self._ended_early(run, failure_of(error, run.run_id))

    async def _recorded(self, run: Run, terminal: Terminal) -> Terminal:
        """Write the run's record. Where it cannot be written the run ends in that error, and the record is held."""
        run.record = record_of(run, terminal, self._installation)
        try:
            await self._audit.append("run", run.record)
        except AuditUnavailable as error:
            failed = as_failed(error)
            run.record = {**run.record, "ending": ending_of(failed, run.stopped_by)}
            self._audit.hold("run", run.record)
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

    async def _ended_early(self, run: Run, failed: Failed) -> Terminal:
        """What is stored decides: where the run's turn stands, the stop or the fault came too late to matter."""
        if run.refused:
            return failed  # it never had the thread, which is another replica's to write
        try:
            turns = (await self._history.state(run.request.ref))["turns"]
        except Exception:
            logger.exception("thread not read run_id=%s", run.run_id)
            return failed
        if turns and turns[-1]["run_id"] == run.run_id:
            return await self._listed(run, turns)
        return await self._unfinished(run, failed)

    async def _unfinished(self, run: Run, failed: Failed) -> Failed:
        """What a run without an answer leaves behind: no turn, but the numbers that it has shown keep their meaning."""
        try:
            await self._history.keep_numbers(run.request.ref, run.transcript.named)
            await self._history.shown.remember(run.request.ref, run.transcript.named.values())
        except Exception:
            logger.exception("numbers not kept run_id=%s", run.run_id)
        return failed

    async def _listed(self, run: Run, turns: list[Turn]) -> Done:
        """The answer is stored. A list of threads that cannot be written is a fault of its own, and hides no answer."""
        try:
            await self._history.record(run.request.ref, run.request.question, run.asked_at, len(turns))
            await self._history.shown.remember(run.request.ref, run.transcript.named.values())
        except Exception:
            logger.exception("thread not listed run_id=%s", run.run_id)
        return Done(run.request.ref.thread_id, turns[-1], tuple(run.transcript.named.values()))

    def _end(self, run: Run, terminal: Terminal) -> None:
        """Release the lock, then tell the terminal event; once, whoever comes first."""
        if self._active.pop(run.run_id, None) is None:
            return
        self._busy.discard(run.request.ref.key)
        run.let_in()
        run.transcript.tell(terminal)

    async def _answer(self, run: Run) -> Done:
        await self._admit(run)
        request, deps = run.request, run.deps
        await self._audit.begin(record_of(run, LOST, self._installation))
        config: RunnableConfig = {**config_of(request.ref), "recursion_limit": recursion_limit(deps.limits)}
        values = request_state(request.question, request.web_search)
        final = await self._graph.ainvoke(values, config, context=deps, durability="exit")
        return await self._listed(run, final["turns"])

    def _started(self, run: Run) -> Started:
        request, model = run.request, run.deps.model
        states = [model.state(), self._services.reranker.state()]
        return Started(
            request.ref.thread_id,
            model.name,
            self._services.reranker.name,
            request.web_search,
            run.deps.delivery,
            run.transcript.not_yet_told(warnings_of(states)),
            request.skill,
        )


def failure_of(error: BaseException, run_id: str) -> Failed:
    """The safe terminal event of a fault. Only our own errors' texts leave; a bug keeps its traceback in the log."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, GatehouseError):
        logger.warning("run failed run_id=%s code=%s message=%s", run_id, error.code, error)
        return as_failed(error)
    logger.error("run broke run_id=%s", run_id, exc_info=error)
    return INTERNAL
