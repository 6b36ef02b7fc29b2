"""A background worker with a bounded queue: what it is handed is sent by and by, or counted as dropped.

A daemon thread of its own, since the libraries of this field wait without a limit when they are flushed: whoever hands
something over never waits, and the process ends on time whatever the far end does.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

OWN_FAULT = "a fault of our own, see the log"
SHOWN_REASONS = 3


class SendFailed(Exception):
    """A batch did not arrive. `str(error)` says why, for the operator.

    `again`: another try makes sense, `after_s` from now at the earliest. `content`: it was refused for what it holds,
    so that a part of it may well be taken.
    """

    def __init__(self, why: str, *, again: bool, after_s: float = 0.0, content: bool = False) -> None:
        super().__init__(why)
        self.again = again
        self.after_s = after_s
        self.content = content


class TooLarge(SendFailed):
    """It was refused for its size alone."""

    def __init__(self, why: str) -> None:
        super().__init__(why, again=False, content=True)


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer of the far end: how many items have arrived, and what it refused or warned of all the same."""

    arrived: int
    refused: str = ""


class Worker(Generic[T]):
    """Hands batches of at most `batch` items to `send`, in its own thread, and tries again after each of `pauses_s`.

    `send(items, timeout_s)` says what has arrived, or raises `SendFailed`. What is refused for what it holds is sent in
    halves, down to the item that is to blame: it alone is dropped. Items that differ in `kind` are sent apart. `limit`
    is how many items may wait; one more is dropped. A batch is sent `linger_s` after its first item, for others to come
    along.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[T], float], Sent],
        *,
        kind: Callable[[T], str] = lambda _: "",
        limit: int = 256,
        batch: int = 16,
        linger_s: float = 1.0,
        timeout_s: float = 5.0,
        pauses_s: Sequence[float] = (1.0, 5.0),
    ) -> None:
        self._name = name
        self._send = send
        self._kind = kind
        self._queue: Queue[T] = Queue(limit)
        self._batch = batch
        self._linger_s = linger_s
        self._timeout_s = timeout_s
        self._pauses_s = pauses_s
        self._closing = threading.Event()
        self._ends_at = float("inf")  # seconds of the monotonic clock
        self._counting = threading.Lock()
        self._taken = 0
        self._abandoned = False
        self._drops: Counter[str] = Counter()
        self._refused = ""
        self.sent = 0
        self.failure = ""
        """Why the last batch did not arrive, "" where it did."""
        self.refusal = ""
        """What of the last batch was refused, "" where all of it was taken."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    @property
    def dropped(self) -> int:
        with self._counting:
            return self._drops.total()

    def drops(self) -> str:
        """How many items were dropped, and why."""
        reasons = self._reasons()
        return f"{self.dropped} dropped ({reasons})" if reasons else "0 dropped"

    def _reasons(self) -> str:
        """The commonest, with how many items each has cost."""
        with self._counting:
            return "; ".join(f"{count}: {why}" for why, count in self._drops.most_common(SHOWN_REASONS))

    def put(self, item: T) -> bool:
        """Take the item, or drop it where too many wait. Callable from any thread; never waits and never raises."""
        why = "the service was ending"
        if not self._closing.is_set():
            try:
                self._queue.put_nowait(item)
            except Full:
                why = "too many waited"
            else:
                return True
        self._drop(1, why)
        return False

    def close(self, within_s: float) -> bool:
        """Send what waits, for at most `within_s` in all; what is left then is dropped, and counted.

        Returns whether the thread has ended; if not, it is left to the end of the process.
        """
        self._ends_at = time.monotonic() + within_s
        self._closing.set()
        self._thread.join(within_s)
        left = self._drained()
        with self._counting:
            self._abandoned = self._thread.is_alive()
            left, self._taken = left + self._taken, 0
        self._drop(left, self.failure or "no answer before the service ended")
        if self.dropped:
            logger.warning("%s: %d were not sent since the start (%s)", self._name, self.dropped, self._reasons())
        return not self._abandoned

    def _drop(self, count: int, why: str) -> None:
        if count:
            with self._counting:
                self._drops[why] += count

    def _run(self) -> None:
        while not self._closing.is_set() or not self._queue.empty():
            if items := self._next():
                self._taken = len(items)
                self._refused = ""
                for _, alike in groupby(sorted(items, key=self._kind), key=self._kind):
                    self._deliver(list(alike))
                self.refusal = self._refused

    def _next(self) -> list[T]:
        """Everything that waits, at most a batch; none where none comes in a moment."""
        items: list[T] = []
        try:
            items.append(self._queue.get(timeout=0.05 if self._closing.is_set() else 0.25))
            self._closing.wait(self._linger_s)
            while len(items) < self._batch:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _deliver(self, items: Sequence[T]) -> None:
        if self._abandoned:
            return
        failed = self._tried(items)
        if failed is None:
            return
        if failed.content and len(items) > 1:
            middle = len(items) // 2
            self._deliver(items[:middle])
            self._deliver(items[middle:])
            return
        if failed.content:
            self._refuse(str(failed))
        self._settle(0, len(items), str(failed))

    def _tried(self, items: Sequence[T]) -> SendFailed | None:
        """Send, and again where that makes sense. Returns the last fault, or None once there was an answer."""
        for pause_s in self._pauses_s:
            failed = self._tried_once(items)
            if failed is None or not failed.again:
                return failed
            wait_s = max(pause_s, failed.after_s)
            if self._out_of_time(wait_s):
                return failed
            self._closing.wait(wait_s)
        return self._tried_once(items)

    def _tried_once(self, items: Sequence[T]) -> SendFailed | None:
        try:
            sent = self._send(items, self._time_left())
        except SendFailed as failed:
            if not failed.content:
                self._failed(str(failed))
            return failed
        except Exception:
            if len(items) == 1:  # else the halves find out which it is
                logger.exception("%s: not sent", self._name)
            return SendFailed(OWN_FAULT, again=False, content=True)
        self._answered(sent, len(items))
        return None

    def _settle(self, arrived: int, lost: int, why: str) -> None:
        """Count items of the batch, each once: `close` has counted those of a thread that it gave up."""
        with self._counting:
            if self._abandoned:
                return
            self._taken -= arrived + lost
            self.sent += arrived
            if lost:
                self._drops[why] += lost

    def _time_left(self) -> float:
        return max(0.05, min(self._timeout_s, self._ends_at - time.monotonic()))

    def _out_of_time(self, pause_s: float) -> bool:
        """While the worker is being closed there is no second try."""
        return self._closing.is_set() or time.monotonic() + pause_s > self._ends_at

    def _failed(self, why: str) -> None:
        if not self.failure:  # once for an outage, not once for every batch of it
            logger.warning("%s: not sent: %s", self._name, why)
        self.failure = why

    def _refuse(self, why: str) -> None:
        if why not in (self.refusal, self._refused):  # once where one batch after the other has it
            logger.warning("%s: refused: %s", self._name, why)
        self._refused = self.refusal = why

    def _answered(self, sent: Sent, count: int) -> None:
        if sent.refused:
            self._refuse(sent.refused)
        self._settle(sent.arrived, count - sent.arrived, sent.refused or OWN_FAULT)
        if sent.arrived == 0:  # nothing was left to send, so nothing is known of the far end
            return
        if self.failure:
            logger.warning("%s: sent again", self._name)
        self.failure = ""

    def _drained(self) -> int:
        count = 0
        while True:
            try:
                self._queue.get_nowait()
            except Empty:
                return count
            count += 1
