"""A background worker with a bounded queue: what it is handed is sent by and by, or counted as dropped.

A daemon thread of its own, since the libraries of this field wait without a limit when they are flushed: whoever hands
something over never waits, and the process ends on time whatever the far end does.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SendFailed(Exception):
    """A batch did not arrive. `str(error)` says why, for the operator; `again` whether another try makes sense."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


class Worker(Generic[T]):
    """Hands batches of at most `batch` items to `send`, in its own thread, and tries again after each of `pauses_s`.

    `send(items, timeout_s)` returns how many of the items arrived, or raises `SendFailed`. `limit` is how many items
    may wait; one more is dropped. A batch is sent `linger_s` after its first item, for others to come along.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[T], float], int],
        *,
        limit: int = 256,
        batch: int = 16,
        linger_s: float = 1.0,
        timeout_s: float = 5.0,
        pauses_s: Sequence[float] = (1.0, 5.0),
    ) -> None:
        self._name = name
        self._send = send
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
        self.sent = 0
        self.dropped = 0
        self.failure = ""
        """Why the last batch did not arrive, "" where it did."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def put(self, item: T) -> bool:
        """Take the item, or drop it where too many wait. Callable from any thread; never waits and never raises."""
        if not self._closing.is_set():
            try:
                self._queue.put_nowait(item)
            except Full:
                pass
            else:
                return True
        self.drop(1)
        return False

    def drop(self, count: int) -> None:
        with self._counting:
            self.dropped += count

    def close(self, within_s: float) -> bool:
        """Send what waits, for at most `within_s` in all; what is left then is dropped, and counted.

        Returns whether the thread has ended; if not, it is left to the end of the process.
        """
        self._ends_at = time.monotonic() + within_s
        self._closing.set()
        self._thread.join(within_s)
        left = self._drained()
        if self._thread.is_alive():
            self._abandoned = True
            left += self._taken
        self.drop(left)
        if self.dropped:
            why = self.failure or ("no answer yet" if self._abandoned else "too many waited")
            logger.warning("%s: %d were not sent (%s)", self._name, self.dropped, why)
        return not self._abandoned

    def _run(self) -> None:
        while not self._closing.is_set() or not self._queue.empty():
            if items := self._next():
                self._taken = len(items)
                self._deliver(items)
                self._taken = 0

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
        for pause_s in (*self._pauses_s, None):
            try:
                arrived = self._send(items, self._time_left())
            except SendFailed as failed:
                self._failed(str(failed))
                if pause_s is None or not failed.again or self._out_of_time(pause_s):
                    break
                self._closing.wait(pause_s)
            except Exception:
                logger.exception("%s: not sent", self._name)
                self._failed("a fault of our own, see the log")
                break
            else:
                self._arrived(arrived)
                self._lost(len(items) - arrived)
                return
        self._lost(len(items))

    def _lost(self, count: int) -> None:
        if not self._abandoned:  # else `close` has counted them
            self.drop(count)

    def _time_left(self) -> float:
        return max(0.05, min(self._timeout_s, self._ends_at - time.monotonic()))

    def _out_of_time(self, pause_s: float) -> bool:
        """While the worker is being closed there is no second try."""
        return self._closing.is_set() or time.monotonic() + pause_s > self._ends_at

    def _failed(self, why: str) -> None:
        if not self.failure:  # once for an outage, not once for every batch of it
            logger.warning("%s: not sent: %s", self._name, why)
        self.failure = why

    def _arrived(self, count: int) -> None:
        if count == 0:  # nothing was left to send, so nothing is known of the far end
            return
        if self.failure:
            logger.warning("%s: sent again", self._name)
        self.failure = ""
        with self._counting:
            self.sent += count

    def _drained(self) -> int:
        count = 0
        while True:
            try:
                self._queue.get_nowait()
            except Empty:
                return count
            count += 1
