"""Several server processes on one port: a parent that serves nothing starts, watches and stops them."""

import asyncio
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType

from service.errors import OperatorError

logger = logging.getLogger(__name__)

STOPPING_S = 14.5
"""A worker is over within 14 s of SIGTERM (see serve.py); one that is not is killed."""

YOUNG_S = 60.0
"""A worker that ends so soon after its start would do so again: the parent gives up instead of starting it for ever."""

Serve = Callable[[socket.socket, int], None]
"""Given the shared socket and the worker's number, from 0; who replaces a worker takes its number."""


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
    """`count` processes that each call `serve` with the shared socket. A worker that dies is replaced."""

    def __init__(self, serve: Serve, shared: socket.socket, count: int) -> None:
        self._serve = serve
        self._shared = shared
        self._count = count
        self._spawn = multiprocessing.get_context("spawn")  # a fork would share the parent's threads and locks
        self._started: dict[BaseProcess, float] = {}
        self._numbers: dict[BaseProcess, int] = {}
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
        process = self._spawn.Process(target=self._serve, args=(self._shared, number))
        process.start()
        self._numbers[process] = number
        self._started[process] = time.monotonic()

    def _replace_the_ended(self) -> None:
        for process in [process for process in self._started if not process.is_alive()]:
            lived_s = time.monotonic() - self._started.pop(process)
            number = self._numbers.pop(process)
            if self._stopping:
                return
            if lived_s < YOUNG_S:
                raise OperatorError("A worker ended while it was starting; what it said stands above.")
            logger.warning("worker ended pid=%s exit=%s; starting another", process.pid, process.exitcode)
            self._start(number)

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
