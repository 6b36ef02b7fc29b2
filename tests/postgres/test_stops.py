"""DELETE /runs/{id} on one replica stops the run that another one answers."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from service.errors import NotFound, Overloaded, ThreadsUnavailable
from service.graph.run import Request
from service.postgres import stops
from service.postgres.stops import NotifiedStops, read
from service.thread_store import open_postgres
from service.threads import ThreadRef, new_run_id
from tests.api.guarded import ALICE, BOB, KEYS, access, bearer
from tests.api.stalling import stalling
from tests.fakes import ScriptedModel, services
from tests.postgres.replicas import folder, replica
from tests.postgres_server import PostgresServer
from tests.served import eventually, serving

THREAD = ThreadRef("alice", "t1")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "ANSWER_S", 0.5)
    monkeypatch.setattr(stops, "AGAIN_S", 0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
async def test_a_run_is_stopped_from_any_replica_by_its_client_alone(database: str, tmp_path: Path) -> None:
    world, model, stall = stalling(folder(tmp_path, "one"))
    rules = access(tmp_path, *KEYS)
    async with (
        replica(database, world, model) as one,
        replica(database, services(folder(tmp_path, "other")), ScriptedModel()) as other,
        serving(other, access=rules) as second,
    ):
        run = one.runs.start(Request(THREAD, "stall in judging"))
        await eventually(lambda: bool(stall.reached))
        await asyncio.sleep(0.2)  # both listen by now
        path = f"/runs/{run.run_id}"
        foreign = await second.client.delete(path, headers=bearer(BOB))
        unknown = await second.client.delete(f"/runs/{new_run_id()}", headers=bearer(ALICE))
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
        assert stall.left == []
        stopped = await second.client.delete(path, headers=bearer(ALICE))
        assert (stopped.status_code, stopped.json()) == (202, {"run_id": run.run_id, "stopping": True})
        events = [told.event async for told in run.events()]
        assert getattr(events[-1], "code", "") == "cancelled"
        assert run.stopped_by == "person"
        assert (await second.client.delete(path, headers=bearer(ALICE))).status_code == 404


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
async def test_stops_are_heard_again_after_the_database_was_restarted(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    world, model, stall = stalling(folder(tmp_path, "one"))
    async with (
        replica(database, world, model) as one,
        replica(database, services(folder(tmp_path, "other")), ScriptedModel()) as other,
    ):
        run = one.runs.start(Request(THREAD, "stall in judging"))
        await eventually(lambda: bool(stall.reached))
        postgres.end_sessions()
        for _ in range(100):
            try:
                await other.runs.stop(run.run_id, "alice")
                break
            except (NotFound, ThreadsUnavailable):
                await asyncio.sleep(0.1)
        await run.ended()
        assert run.stopped_by == "person"


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
async def test_a_replica_that_cannot_hear_the_answer_says_so_and_closes_in_time(
    database: str, postgres: PostgresServer
) -> None:
    async with AsyncExitStack() as stack:
        asked = (await open_postgres(database, stack)).stops
        postgres.signal(signal.SIGSTOP)
        try:
            with pytest.raises(ThreadsUnavailable):
                await asked.ask(new_run_id(), "alice")
        finally:
            postgres.signal(signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
async def test_a_stop_that_breaks_does_not_end_the_hearing_of_the_next(database: str) -> None:
    faults = [RuntimeError("a fault of ours")]

    def stop(_run_id: str, _client: str) -> bool:
        if faults:
            raise faults.pop()
        return True

    async with AsyncExitStack() as stack:
        asked = await open_stops(database, stack)
        asked.obey(stop)
        await eventually(asked._hears.is_set, 10)
        assert not await asked.ask(new_run_id(), "alice")
        await eventually(asked._hears.is_set, 10)
        assert await asked.ask(new_run_id(), "alice")


async def open_stops(database: str, stack: AsyncExitStack) -> NotifiedStops:
    asked = (await open_postgres(database, stack)).stops
    assert isinstance(asked, NotifiedStops)
    return asked


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
async def test_what_is_no_run_id_asks_nobody_and_too_many_at_once_are_told_to_wait(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stops, "MOST_ASKING", 2)
    async with AsyncExitStack() as stack:
        asked = (await open_postgres(database, stack)).stops
        assert not await asked.ask("r_'; NOTIFY x; --", "alice")
        await asyncio.sleep(0.2)
        answers = await asyncio.gather(*(asked.ask(new_run_id(), "alice") for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [bool, bool, Overloaded]


@pytest.mark.parametrize("payload", ["", "no json", "[]", '{"mark": 1}', "null", '{"mark": {}}'])
def test_a_notice_that_is_not_ours_is_passed_over(payload: str) -> None:
    assert read(payload) == {}
