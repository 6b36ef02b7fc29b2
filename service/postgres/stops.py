"""Stops of runs on other replicas: a NOTIFY asks whoever answers the run, and a NOTIFY says that it is stopping.

Nothing is stored. A replica that does not hear, because its session is broken at that moment, does not stop its run.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection

from service.errors import Overloaded, ThreadsUnavailable
from service.postgres.pool import AWAY, AWAY_TEXT, KEEPALIVE, Pool, answering
from service.threads import RUN_ID

logger = logging.getLogger(__name__)

CHANNEL = "gatehouse_stops"
ANSWER_S = 2.0
"""Longest wait for the replica that answers the run. A notice takes milliseconds; an unknown run takes all of it."""
AGAIN_S = 1.0
MOST_ASKING = 64


class NotifiedStops:
    """`RunStops` of the replicas on one database."""

    def __init__(self, url: str, pool: Pool) -> None:
        self._url = url
        self._pool = pool
        self._stop: Callable[[str, str], bool] = lambda _run_id, _client: False
        self._asking: dict[str, asyncio.Future[None]] = {}
        self._hears = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    def obey(self, stop: Callable[[str, str], bool]) -> None:
        self._stop = stop

    async def open(self) -> None:
        self._listening = asyncio.create_task(self._listen(), name="stops of other replicas")

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def ask(self, run_id: str, client: str) -> bool:
        """Raises `ThreadsUnavailable` where the answer could not be heard, `Overloaded` where too many ask at once."""
        if not RUN_ID.fullmatch(run_id):
            return False
        if len(self._asking) >= MOST_ASKING:
            raise Overloaded("Too many answers are being stopped at the moment. Please try again shortly.")
        if not self._hears.is_set():
            raise ThreadsUnavailable(AWAY_TEXT)
        mark, stopping = secrets.token_hex(8), asyncio.get_running_loop().create_future()
        self._asking[mark] = stopping
        try:
            await self._tell({"mark": mark, "run_id": run_id, "client": client})
            async with asyncio.timeout(ANSWER_S):
                await stopping
        except TimeoutError:
            return False
        finally:
            del self._asking[mark]
        return True

    async def _tell(self, notice: dict[str, str]) -> None:
        async with answering(), self._pool.connection() as connection:
            await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, json.dumps(notice)))

    async def _listen(self) -> None:
        """Hear what other replicas ask, on a session of its own that is opened again whenever it breaks."""
        while True:
            try:
                async with await AsyncConnection.connect(self._url, autocommit=True, **KEEPALIVE) as session:
                    await session.execute("SET idle_session_timeout = 0")
                    await session.execute(f"LISTEN {CHANNEL}")
                    self._hears.set()
                    async for notice in session.notifies():
                        await self._heard(notice.payload)
            except AWAY as error:
                logger.warning("stops of other replicas are not heard: %s", type(error).__name__)
            except ThreadsUnavailable:
                logger.warning("a replica that asked for a stop was not answered: the database is away")
            except Exception:  # a fault of one notice must not end the hearing of all that follow
                logger.exception("stops of other replicas are not heard")
            finally:
                self._hears.clear()
            await asyncio.sleep(AGAIN_S)

    async def _heard(self, payload: str) -> None:
        notice = read(payload)
        stopping = self._asking.get(notice.get("stopping", ""))
        if stopping is not None and not stopping.done():
            stopping.set_result(None)
        elif "mark" in notice and self._stop(notice.get("run_id", ""), notice.get("client", "")):
            await self._tell({"stopping": notice["mark"]})


def read(payload: str) -> dict[str, str]:
    """A notice of ours; empty for what someone else has sent on the channel."""
    try:
        notice: Any = json.loads(payload)
    except ValueError:
        return {}
    ours = isinstance(notice, dict) and all(isinstance(value, str) for value in notice.values())
    return notice if ours else {}
