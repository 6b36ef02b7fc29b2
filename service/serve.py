"""A uvicorn server that ends its runs before it waits for their streams, and leaves a note of where it listens."""

import asyncio
import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.graph.runs import Runs

SERVER_NOTE = "server.json"
MAX_PARTIAL_HEAD_BYTES = 32_768  # of a head that comes in pieces; api/door.py limits the whole
GRACE_S = 3
"""For readers that are slow to take the end of their stream, after the `CLOSING_S` of the runs."""
LAST_S = 3.5
"""For what was opened to be closed, after both: a stop is over within 15 s."""


class TimedHead(H11Protocol):
    """Closes a connection whose request head does not arrive whole in time, however it trickles (slowloris).

    Uvicorn limits only the silence between two requests.
    """

    timeout_head_s = 10.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._time_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def _time_head(self) -> None:
        """The timer runs from the first byte, or from the start of the connection, and no byte puts it off."""
        if self.conn.their_state is not h11.IDLE:
            self._head_arrived()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.timeout_head_s, self.timeout_keep_alive_handler)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Server(uvicorn.Server):
    """Uvicorn waits for open streams at shutdown: the runs are ended first, each with its terminal event."""

    def __init__(self, config: uvicorn.Config, runs: Runs, on_start: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._runs = runs
        self._on_start = on_start

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn raises SIGTERM again at its end, which would kill the process before what it opened is closed."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    def stop(self) -> None:
        """Stop as a signal does."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._runs.close()
        await super().shutdown(sockets)


def end_within(limit_s: float) -> None:
    """End this process after `limit_s` at the latest: a thread that waits for a disk or a name cannot be stopped."""
    last = threading.Timer(limit_s, os._exit, [1])
    last.daemon = True
    last.start()


def make_server(
    app: Callable[..., Any], runs: Runs, host: str, port: int, on_start: Callable[[], None] = lambda: None
) -> Server:
    """`app` is an ASGI application whose runs are `runs`; `on_start` is called once, when it takes connections."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a forwarded address is believed from configured proxies only: see api/addresses.py
        http=TimedHead,
        ws="none",
        h11_max_incomplete_event_size=MAX_PARTIAL_HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_S,
    )
    return Server(config, runs, on_start)


@dataclass(frozen=True, slots=True)
class Note:
    """Where a server listens, and the random name by which `/healthz` proves that it is the one.

    The workers of one server have its name in common: any of them may be asked.
    """

    url: str
    instance: str


@contextmanager
def server_note(data_dir: Path, note: Note) -> Iterator[None]:
    """Say in DATA_DIR where the server listens, so that `gatehouse ask` finds it; take the note away at the end."""
    file = data_dir / SERVER_NOTE
    file.touch(mode=0o600)
    file.write_text(json.dumps(asdict(note)), encoding="utf-8")
    try:
        yield
    finally:
        if read_note(data_dir) == note:  # another replica may have left its own since
            file.unlink(missing_ok=True)


def new_note(host: str, port: int) -> Note:
    return Note(listen_url(host, port), secrets.token_hex(8))


def read_note(data_dir: Path) -> Note | None:
    """The note that a server on this DATA_DIR left. It may be stale: ask `/healthz` before relying on it."""
    try:
        fields = json.loads((data_dir / SERVER_NOTE).read_text(encoding="utf-8"))
        return Note(str(fields["url"]), str(fields["instance"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def listen_url(host: str, port: int) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
