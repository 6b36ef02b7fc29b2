"""Server-sent events over one response: frames, pings in silence, and a watch on the reader."""

import asyncio
import logging
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.events import Frame
from service.api.present import Presenter
from service.graph.endings import INTERNAL
from service.graph.events import Terminal, Told
from service.graph.run import Run

logger = logging.getLogger(__name__)

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
PING = b": ping\n\n"


def encode(frame: Frame) -> bytes:
    """One frame: `id`, `event` and one `data` line. JSON escapes every line break, so data cannot forge a frame."""
    data = frame.model_dump_json(ensure_ascii=True)
    kind = frame.type
    return f"id: {frame.seq}\nevent: {kind}\ndata: {data}\n\n".encode()


async def frames(run: Run, presenter: Presenter, ping_s: float) -> AsyncIterator[bytes]:
    """Yield the run's frames, and a comment after each `ping_s` of silence."""
    ended = False
    while not ended:
        try:
            async with asyncio.timeout(ping_s):
                told = await run.told.get()
        except TimeoutError:
            yield PING
            continue
        frame, ended = encoded(told, run, presenter)
        yield frame


def encoded(told: Told, run: Run, presenter: Presenter) -> tuple[bytes, bool]:
    """The event's bytes, and whether the stream ends with it. An event without a wire form is a bug, and the end."""
    try:
        return encode(presenter.frame(told, run.run_id)), isinstance(told.event, Terminal)
    except Exception:
        logger.exception("event has no wire form run_id=%s seq=%s", run.run_id, told.seq)
        return encode(presenter.frame(Told(told.seq, told.attempt, INTERNAL), run.run_id)), True


class EventStream(Response):
    """Streams a run. A reader who leaves is noticed at once, also in silence, and the run is stopped."""

    def __init__(self, run: Run, presenter: Presenter, ping_s: float) -> None:
        super().__init__(status_code=200, headers=HEADERS)
        del self.headers["content-length"]
        self._run = run
        self._frames = frames(run, presenter, ping_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        watch = asyncio.create_task(stop_on_disconnect(self._run, receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for frame in self._frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            pass  # the reader is gone; `finally` stops the run
        finally:
            watch.cancel()
            self._run.stop("reader_left")


async def stop_on_disconnect(run: Run, receive: Receive) -> None:
    """Wait for the reader to leave. Starlette learns of it only when a send fails: a silent rerank would go on."""
    while (await receive())["type"] != "http.disconnect":
        pass
    run.stop("reader_left")
