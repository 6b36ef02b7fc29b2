"""A run from its first event to its last: it owns the thread's lock, the deadline, the cancel and the end.

The order of the end is fixed: checkpoint, list of threads, lock released, then the one terminal event.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig

from service.errors import DeadlineExceeded, GatehouseError, NotFound, Overloaded, ThreadBusy
from service.graph.build import Graph
from service.graph.events import Done, Failed, Started, Terminal, Told
from service.graph.history import History, config_of
from service.graph.routing import recursion_limit
from service.graph.state import Deps, Services, request_state
from service.graph.transcript import Transcript
from service.model import Delivery, Turn, warnings_of
from service.ports import AnswerModel
from service.threads import ThreadRef, new_run_id

logger = logging.getLogger(__name__)

CANCELLED = Failed("cancelled", "The answer was stopped.", retryable=True, status=409)
SHUTDOWN = Failed(
    "shutting_down", "The service is restarting. Please ask again in a moment.", retryable=True, status=503
)
INTERNAL = Failed(
    "internal",
    "Something went wrong on our side. The fault was logged under the run's id.",
    retryable=False,
    status=500,
)


@dataclass(frozen=True, slots=True)
class Request:
    """One question, as the API or the command line took it."""

    ref: ThreadRef
    question: str
    web_search: bool = False
    delivery: Delivery = "draft"


@dataclass(slots=True)
class Run:
    """A run under way. Its events can be read once, by one reader."""

    run_id: str
    request: Request
    asked_at: str
    told: asyncio.Queue[Told] = field(default_factory=asyncio.Queue)
    transcript: Transcript = field(init=False)
    task: asyncio.Task[None] | None = None
    stopping: bool = False
    stopped_by: Failed = CANCELLED

    def __post_init__(self) -> None:
        self.transcript = Transcript(self.told.put_nowait)

    async def events(self) -> AsyncIterator[Told]:
        """Yield each event as it happens; the terminal event is the last."""
        while True:
            told = await self.told.get()
            yield told
            if isinstance(told.event, Terminal):
                return

    def stop(self, why: Failed = CANCELLED) -> None:
        """Cancel the run: its model stream is closed, `why` is its terminal event. Does nothing after the end."""
        if self.task is not None and not self.stopping:
            self.stopping, self.stopped_by = True, why
            self.task.cancel()

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])


class Runs:
    """Starts runs and knows those under way: one at a time per thread, `max_runs` in all."""

    def __init__(
        self,
        graph: Graph,
        history: History,
        services: Services,
        model_for_run: Callable[[], AnswerModel],
        *,
        deadline_s: float,
        max_runs: int,
    ) -> None:
        self._graph = graph
        self._history = history
        self._services = services
        self._model_for_run = model_for_run
        self._deadline_s = deadline_s
        self._max_runs = max_runs
        self._active: dict[str, Run] = {}
        self._busy: set[str] = set()
        self._closing = False

    def start(self, request: Request) -> Run:
        """Take the thread's lock and begin. Raises `ThreadBusy` or `Overloaded` before anything has happened."""
        if self._closing or len(self._active) >= self._max_runs:
            raise Overloaded("Too many answers are being written at the moment. Please try again shortly.")
        self._take(request.ref)
        run = Run(new_run_id(), request, datetime.now(UTC).isoformat(timespec="seconds"))
        self._active[run.run_id] = run
        run.task = asyncio.create_task(self._drive(run), name=run.run_id)
        # A task that is cancelled before its first step never runs a line of `_drive`.
        run.task.add_done_callback(lambda _: self._end(run, run.stopped_by))
        return run

    def find(self, run_id: str, client: str) -> Run:
        """Return the client's run under way. Raises `NotFound` alike for unknown, ended and foreign runs."""
        run = self._active.get(run_id)
        if run is None or run.request.ref.client != client:
            raise NotFound("There is no such run under way.")
        return run

    def busy(self, ref: ThreadRef) -> bool:
        return ref.key in self._busy

    @contextmanager
    def holding(self, ref: ThreadRef) -> Iterator[None]:
        """Keep the thread from answering meanwhile. Raises `ThreadBusy` where it is answering."""
        self._take(ref)
        try:
            yield
        finally:
            self._busy.discard(ref.key)

    def _take(self, ref: ThreadRef) -> None:
        if ref.key in self._busy:
            raise ThreadBusy("This thread is still answering. Wait for it to end, or stop it, then try again.")
        self._busy.add(ref.key)

    async def close(self) -> None:
        """End every run under way with a terminal event, and take no new ones."""
        self._closing = True
        runs = list(self._active.values())
        for run in runs:
            run.stop(SHUTDOWN)
        for run in runs:
            await run.ended()

    async def _drive(self, run: Run) -> None:
        try:
            terminal: Terminal = await self._answer(run)
        except asyncio.CancelledError as cancelled:
            await storing_ended(cancelled)
            terminal = await self._stopped(run)
        except Exception as error:
            terminal = await self._unfinished(run, failure_of(error, run.run_id))
        self._end(run, terminal)

    async def _stopped(self, run: Run) -> Terminal:
        """How a run that was cancelled ends. What is stored decides: where its turn stands, the stop came too late."""
        try:
            turns = (await self._history.state(run.request.ref))["turns"]
            if turns and turns[-1]["run_id"] == run.run_id:
                return await self._listed(run, turns)
        except Exception:
            logger.exception("thread not read after a stop run_id=%s", run.run_id)
        return await self._unfinished(run, run.stopped_by)

    async def _unfinished(self, run: Run, failed: Failed) -> Failed:
        """What a run without an answer leaves behind: no turn, but the numbers that it has shown keep their meaning."""
        try:
            await self._history.keep_numbers(run.request.ref, run.transcript.named)
        except Exception:
            logger.exception("numbers not kept run_id=%s", run.run_id)
        return failed

    async def _listed(self, run: Run, turns: list[Turn]) -> Done:
        await self._history.record(run.request.ref, run.request.question, run.asked_at, len(turns))
        return Done(turns[-1], tuple(run.transcript.named.values()))

    def _end(self, run: Run, terminal: Terminal) -> None:
        """Release the lock, then tell the terminal event; once, whoever comes first."""
        if self._active.pop(run.run_id, None) is None:
            return
        self._busy.discard(run.request.ref.key)
        run.transcript.tell(terminal)

    async def _answer(self, run: Run) -> Done:
        request = run.request
        model = self._model_for_run()
        run.transcript.tell(self._started(run, model))
        deps = Deps(self._services, model, run.transcript, run.run_id, run.asked_at, request.delivery)
        final = await self._within_deadline(request, deps)
        return await self._listed(run, final["turns"])

    async def _within_deadline(self, request: Request, deps: Deps) -> dict[str, Any]:
        config: RunnableConfig = {**config_of(request.ref), "recursion_limit": recursion_limit(deps.limits)}
        values = request_state(request.question, request.web_search)
        deadline = asyncio.timeout(self._deadline_s)
        try:
            async with deadline:
                return await self._graph.ainvoke(values, config, context=deps, durability="exit")
        except TimeoutError:
            if deadline.expired():
                raise DeadlineExceeded("The answer took too long and was stopped. Please try again.") from None
            raise

    def _started(self, run: Run, model: AnswerModel) -> Started:
        request = run.request
        states = [model.state(), self._services.reranker.state()]
        return Started(
            request.ref.thread_id,
            model.name,
            self._services.reranker.name,
            request.web_search,
            request.delivery,
            run.transcript.not_yet_told(warnings_of(states)),
        )


async def storing_ended(cancelled: asyncio.CancelledError) -> None:
    """Wait for the checkpoint that LangGraph was writing when it was cancelled: it hands the task over in `args`."""
    under_way = [item for item in cancelled.args if isinstance(item, asyncio.Task)]
    if under_way:
        await asyncio.wait(under_way)


def failure_of(error: BaseException, run_id: str) -> Failed:
    """The safe terminal event of a fault. Only our own errors' texts leave; a bug keeps its traceback in the log."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, GatehouseError):
        logger.warning("run failed run_id=%s code=%s message=%s", run_id, error.code, error)
        return Failed(error.code, str(error), error.retryable, error.status)
    logger.error("run broke run_id=%s", run_id, exc_info=error)
    return INTERNAL
