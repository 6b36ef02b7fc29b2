"""Several server processes on one port: a parent that serves nothing starts, watches and stops them."""

import asyncio
import logging
import multiprocessing
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

from service.errors import OperatorError

logger = logging.getLogger(__name__)

STOPPING_S = 14.5
"""A worker is over within 14 s of SIGTERM (see serve.py); one that is not is killed."""

SERVES = b"serves"
MINUTE_S = 60.0
MOST_RESTARTS = 5
"""Of the workers of one number within a minute: the parent gives up instead of starting them for ever."""


@dataclass(frozen=True, slots=True)
class Post:
    """What a worker is given: the shared socket, its number from 0 (its successor takes it over), and a line home."""

    shared: socket.socket
    number: int
    _line: Connection

    def serves(self) -> None:
        """Say that this worker has started: from now on its end is no fault of its start."""
        with suppress(OSError):  # the parent is gone, as `leave_with_the_parent` will see
            self._line.send_bytes(SERVES)


Serve = Callable[[Post], None]


@dataclass(frozen=True, slots=True)
class Worker:
    """The parent's end of the line to a worker."""

    number: int
    line: Connection

    def served(self) -> bool:
        """Whether a worker that is over had ever started to serve."""
        try:
            return self.line.poll() and self.line.recv_bytes() == SERVES
        except (EOFError, OSError):
            return False


def listen(host: str, port: int) -> socket.socket:
    """Bind the port that the workers share. Raises `OperatorError` when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OperatorError(
            f"Cannot listen on {host}:{port} ({error.strerror}). Choose another port, for example PORT=8123."
        ) from None
    return bound


class Workers:
    """`count` processes that each call `serve` with the shared socket. A worker that dies is replaced.

    Not one that was the first of its number and never served: what is wrong with it would be wrong with the next.
    """

    def __init__(self, serve: Serve, shared: socket.socket, count: int) -> None:
        self._serve = serve
        self._shared = shared
        self._count = count
        self._spawn = multiprocessing.get_context("spawn")  # a fork would share the parent's threads and locks
        self._started: dict[BaseProcess, Worker] = {}
        self._proven: set[int] = set()
        self._restarts: dict[int, deque[float]] = {}
        self._stopping = False
        self._noticed, self._notice = socket.socketpair()

    def run(self) -> None:
        """Return when a signal has stopped every worker. Raises `OperatorError` when they cannot start."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            for worker in range(self._count):
                self._start(worker)
            while not self._stopping:
                wait([self._noticed, *(process.sentinel for process in self._started)])
                self._replace_the_ended()
        finally:
            self._stopping = True
            self._end_all()
            self._noticed.close()
            self._notice.close()

    def _start(self, number: int) -> None:
        home, line = self._spawn.Pipe(duplex=False)
        process = self._spawn.Process(target=self._serve, args=(Post(self._shared, number, line),))
        process.start()
        line.close()  # the worker's copy is the only one now: its end is the line's
        self._started[process] = Worker(number, home)

    def _replace_the_ended(self) -> None:
        for process in [process for process in self._started if not process.is_alive()]:
            worker = self._started.pop(process)
            served = worker.served()
            worker.line.close()
            if self._stopping:
                return
            self._check(worker.number, served)
            logger.warning("worker ended pid=%s exit=%s; starting another", process.pid, process.exitcode)
            self._start(worker.number)

    def _check(self, number: int, served: bool) -> None:
        """May another take this worker's place? Raises `OperatorError` where it would end like those before it."""
        if not served and number not in self._proven:
            raise OperatorError("A worker ended while it was starting; what it said stands above.")
        self._proven.add(number)
        now, restarts = time.monotonic(), self._restarts.setdefault(number, deque(maxlen=MOST_RESTARTS))
        if len(restarts) == MOST_RESTARTS and now - restarts[0] < MINUTE_S:
            raise OperatorError(f"A worker ended {MOST_RESTARTS + 1} times within a minute; what it said stands above.")
        restarts.append(now)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's signature
        if not self._stopping:
            self._stopping = True
            self._notice.send(b"!")

    def _end_all(self) -> None:
        until = time.monotonic() + STOPPING_S
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()


def leave_with_the_parent(stop: Callable[[], None]) -> None:
    """In a worker: call `stop` when the parent is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(parent.sentinel)
            stop()

        loop.add_reader(parent.sentinel, gone)
