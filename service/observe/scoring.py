"""Scores answers after their readers have them: in a thread and an event loop of its own, with a bounded queue.

Nothing here can hold up or fail a run. What does not fit into the queue is dropped and counted; a judge that hangs is
left at its time limit; at shutdown what is under way has `DRAIN_S`, and then the process goes on ending.
"""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from service.errors import AuditUnavailable
from service.model import ComponentState
from service.observe.missing import told
from service.observe.scorable import Scorable, is_scorable
from service.ports import AuditSink, FeedbackObserver, ScoreSink
from service.record import FeedbackRecord, MissingScore, RunRecord, ScoreItem, ScoreRecord
from service.usage import Usage

logger = logging.getLogger(__name__)

DRAIN_S = 1.0
LEAVE_S = 0.5
"""After the drain: how long a job that was cancelled may take to end."""
LOOP_S = 10.0
"""Longest wait for the service's own loop, which writes the audit log."""

T = TypeVar("T")


class NoScore(Exception):
    """A score that cannot be had. `code` is one of `MissingScore`'s; the message names no text of the answer."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


@dataclass(slots=True)
class Scored:
    """What became of one answer, filled as the metrics end. `faults` are for the log."""

    usage: Usage
    scores: list[ScoreItem] = field(default_factory=list)
    missing: list[MissingScore] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Scorer(Protocol):
    """A judge with its metrics. Lives in one event loop."""

    @property
    def judge(self) -> dict[str, str]:
        """Who judges: the model, and versions and checksums of what it is asked with."""
        ...

    async def scores(self, answer: Scorable, timeout_s: float) -> Scored:
        """Measure every metric that can be within the time. Never raises for the judge's faults."""
        ...

    async def aclose(self) -> None: ...


def tell(sinks: Sequence[ScoreSink], run_id: str, name: str, value: float, comment: str) -> None:
    """Hand a score to every sink: a fault of one is no other's."""
    for sink in sinks:
        try:
            sink.score(run_id, name, value, comment)
        except Exception:
            logger.exception("score not handed on run_id=%s to=%s", run_id, type(sink).__name__)


class Thumbs:
    """What people say of answers is a score as well, for the sinks that are not told of feedback itself."""

    def __init__(self, sinks: Sequence[ScoreSink]) -> None:
        self._sinks = [sink for sink in sinks if not isinstance(sink, FeedbackObserver)]

    def feedback(self, record: FeedbackRecord) -> None:
        tell(self._sinks, record["run_id"], "thumbs", float(record["thumbs"] == "up"), "")


class NoScores(Thumbs):
    """No judge: nothing but thumbs is handed on. `why` is said on `/readyz`."""

    what = "scores"
    waiting = 0
    dropped = 0

    def __init__(self, sinks: Sequence[ScoreSink], why: str = "off") -> None:
        super().__init__(sinks)
        self._why = why

    def ended(self, record: RunRecord) -> None: ...

    def state(self) -> ComponentState:
        return ComponentState("scores", True, self._why)


class Scoring(Thumbs):
    """An observer of the runs that hands a share of their answers to a judge, one after the other.

    `read` makes of a record what the judge reads; `sinks` are told every score, from the worker's thread, where the
    judge is asked too.
    """

    what = "scores"

    def __init__(
        self,
        scorer: Scorer,
        read: Callable[[RunRecord], Scorable],
        *,
        audit: AuditSink,
        sinks: Sequence[ScoreSink] = (),
        sample_rate: float,
        queue_size: int,
        timeout_s: float,
        masked: bool,
        drain_s: float = DRAIN_S,
        warning: str = "",
    ) -> None:
        super().__init__(sinks)
        self._scorer = scorer
        self._read = read
        self._audit = audit
        self._told = sinks
        self._sample_rate = sample_rate
        self._queue_size = queue_size
        self._timeout_s = timeout_s
        self._masked = masked
        self._drain_s = drain_s
        self._standing_warning = warning
        self._main = asyncio.get_running_loop()
        self._queue: SimpleQueue[RunRecord | None] = SimpleQueue()
        self._closing = False
        self._job: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._trouble = ""
        self.scored = 0
        self.failed = 0
        """Answers for which the judge gave no score at all."""
        self.dropped = 0
        """Answers that should have been scored and were not: no room in the queue, or no time at the end."""
        self._thread = threading.Thread(target=self._work, name="scores", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many answers wait for the judge."""
        return self._queue.qsize()

    def ended(self, record: RunRecord) -> None:
        if not is_scorable(record) or not in_sample(record["run_id"], self._sample_rate):
            return
        if self._closing or self.waiting >= self._queue_size:
            self.dropped += 1
            why = "the service is ending" if self._closing else "raise SCORE_QUEUE, or lower SCORE_SAMPLE_RATE"
            logger.warning("answer not scored: %s run_id=%s dropped=%d", why, record["run_id"], self.dropped)
            return
        self._queue.put(record)

    def state(self) -> ComponentState:
        """Always `ok`: nobody's answer waits for a score."""
        counts = f"{self.scored} scored, {self.failed} failed, {self.waiting} waiting, {self.dropped} dropped"
        return ComponentState(
            "scores", True, f"{self._scorer.judge['model']}: {counts}", self._trouble or self._standing_warning
        )

    async def close(self) -> None:
        """Finish what can be within the drain; give up the rest, and count it. Takes `DRAIN_S` + `LEAVE_S` at most."""
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, self._drain_s)
        if self._thread.is_alive():
            self._give_up()
            await asyncio.to_thread(self._thread.join, LEAVE_S)

    def _give_up(self) -> None:
        given_up = self._drained()
        self._queue.put(None)
        if (job := self._job) is not None:
            loop, task = job
            given_up += 1
            with suppress(RuntimeError):  # its loop was closed meanwhile
                loop.call_soon_threadsafe(task.cancel)
        self.dropped += given_up
        logger.warning("answers not scored at the end of the service: %d", given_up)

    def _drained(self) -> int:
        """How many answers waited. The worker takes from the same queue: nothing is waited for here."""
        count = 0
        while True:
            try:
                count += self._queue.get_nowait() is not None
            except Empty:
                return count

    def _work(self) -> None:
        try:
            with asyncio.Runner() as runner:
                while (record := self._queue.get()) is not None:
                    runner.run(self._finished(record))
                runner.run(self._scorer.aclose())
        except Exception:
            logger.exception("the worker of the scores ended")

    async def _finished(self, record: RunRecord) -> None:
        """Score one answer. Whatever happens is logged: the next one has its turn."""
        run_id = record["run_id"]
        task = asyncio.create_task(self._score(record), name=f"{run_id} scores")
        self._job = asyncio.get_running_loop(), task
        await asyncio.wait([task])
        self._job = None
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.failed += 1
            self._trouble = "an answer could not be scored; the log says why"
            # Its message may hold the answer's text, which does not go to the log.
            logger.error("answer not scored run_id=%s fault=%s", run_id, type(fault).__name__)

    async def _score(self, record: RunRecord) -> None:
        if await self._is_erased(record):
            return
        began = time.monotonic()
        answer = self._read(record)
        found = await self._scorer.scores(answer, self._timeout_s)
        self._note(record["run_id"], found)
        await self._keep(score_record(record, found, self._scorer.judge, self._masked, began))
        for score in found.scores:
            tell(self._told, record["run_id"], score["name"], score["value"], score["detail"])
        if found.scores:
            self.scored += 1
        else:
            self.failed += 1

    async def _is_erased(self, record: RunRecord) -> bool:
        """A conversation that was erased since is not sent to a judge."""
        return await self._on_main(lambda: self._audit.run(record["run_id"], record["client"])) is None

    def _note(self, run_id: str, found: Scored) -> None:
        codes = sorted({none["code"] for none in found.missing} - {"nothing_cited"})
        self._trouble = f"the judge's last answer lacks scores: {told(codes)}" if codes else ""
        if codes:
            logger.warning("scores missing run_id=%s codes=%s faults=%s", run_id, ",".join(codes), found.faults)

    async def _keep(self, record: ScoreRecord) -> None:
        try:
            if await self._on_main(lambda: self._audit.run(record["run_id"], record["client"])) is not None:
                await self._on_main(lambda: self._audit.append("score", record))
        except (AuditUnavailable, TimeoutError) as error:
            # Not held: new questions would be refused until it is written.
            logger.warning("score not recorded run_id=%s fault=%s", record["run_id"], type(error).__name__)

    async def _on_main(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Await something of the service's own loop, which owns the audit log. Raises `TimeoutError`."""

        async def asked() -> T:
            return await ask()

        async with asyncio.timeout(LOOP_S):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked(), self._main))


def in_sample(run_id: str, rate: float) -> bool:
    """Whether the run is of the share that is scored: by its id, so that the same run always is or never."""
    return int(hashlib.sha256(run_id.encode()).hexdigest()[:12], 16) < rate * 16**12


def score_record(record: RunRecord, found: Scored, judge: dict[str, str], masked: bool, began: float) -> ScoreRecord:
    """`began` is of the monotonic clock (s). Scores stand in the order of their names, whoever ended first."""
    return {
        "run_id": record["run_id"],
        "client": record["client"],
        "thread_id": record["thread_id"],
        "thread_key": record["thread_key"],
        "judge": judge,
        "masked": masked,
        "scores": sorted(found.scores, key=lambda score: score["name"]),
        "missing": sorted(found.missing, key=lambda none: none["name"]),
        "usage": usage_of(found.usage),
        "ms": round((time.monotonic() - began) * 1000, 1),
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "model_calls": usage.model_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": round(usage.cost_usd, 6),
    }
