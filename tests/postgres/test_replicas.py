"""Two replicas over one PostgreSQL: one thread, one answer at a time, one checkpoint."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from service.errors import OperatorError, ThreadBusy, ThreadsUnavailable
from service.graph.run import Request
from service.thread_store import open_postgres
from service.threads import ThreadRef
from tests.api.stalling import PHASES, stalling
from tests.fakes import ScriptedModel, services
from tests.postgres.replicas import folder, replica
from tests.postgres_server import PASSWORD, PostgresServer, free_port
from tests.running import House
from tests.served import eventually, serving
from tests.wire import assert_grammar, of

pytestmark = pytest.mark.slow

THREAD = ThreadRef("alice", "t1")


async def until_answering(house: House) -> None:
    for _ in range(200):
        if await house.runs.answering(THREAD):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no replica is answering")


def rows(postgres: PostgresServer, table: str) -> int:
    [[number]] = postgres.ask(f"SELECT COUNT(*) FROM {table}")
    assert isinstance(number, int)
    return number


async def test_a_thread_is_continued_on_either_replica_with_the_same_numbers(database: str, tmp_path: Path) -> None:
    world, model = services(tmp_path), ScriptedModel()
    async with replica(database, world, model) as one, replica(database, world, model) as other:
        first = await one.ask("amber")
        second = await other.ask("cobalt")
        third = await one.ask("ochre")
        for frames in (first, second, third):
            assert_grammar(frames)
            assert frames[-1]["status"] == "answered"
        assert of(second, "sources")[0]["items"] == of(first, "sources")[0]["items"]
        state = await other.history.state(THREAD)
        assert [turn["question"] for turn in state["turns"]] == ["amber", "cobalt", "ochre"]
        assert [summary.turns for summary in await other.history.threads("alice")] == [3]


async def test_a_thread_keeps_one_checkpoint_and_one_blob_a_channel_however_many_turns_it_has(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    async with replica(database, services(tmp_path), ScriptedModel()) as house:
        sizes = []
        for number in range(4):
            await house.ask(f"question {number}")
            tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
            sizes.append([rows(postgres, table) for table in tables])
        assert sizes[0] == sizes[-1], sizes
        assert sizes[-1][0] == 1
        assert len((await house.history.state(THREAD))["turns"]) == 4
        await house.history.erase(THREAD)
        assert [rows(postgres, table) for table in ("checkpoints", "checkpoint_blobs", "store")] == [0, 0, 0]


@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_that_is_stopped_leaves_none_of_its_steps_in_the_database(
    database: str, postgres: PostgresServer, tmp_path: Path, phase: str
) -> None:
    world, model, stall = stalling(tmp_path)
    async with replica(database, world, model) as house:
        run = house.runs.start(Request(THREAD, f"SECRET stall in {phase}"))
        await eventually(lambda: bool(stall.reached))
        await asyncio.sleep(0.05)  # what runs beside the stalled step has ended by then
        run.stop()
        await run.ended()
        assert rows(postgres, "checkpoint_writes") == 0


async def test_D05_a_thread_that_another_replica_answers_is_a_409_before_any_stream(
    database: str, tmp_path: Path
) -> None:
    async with (
        replica(database, services(folder(tmp_path, "one")), ScriptedModel(delay_s=0.1)) as one,
        replica(database, services(folder(tmp_path, "other")), ScriptedModel()) as other,
        serving(one) as first,
        serving(other) as second,
    ):
        async with first.asking("amber", thread_id="t") as stream:
            seen = await stream.until(lambda frame: frame["type"] == "stage")
            busy = await second.client.post("/chat", json={"question": "cobalt", "thread_id": "t"})
            as_json = await second.answer("cobalt", thread_id="t")
            erased = await second.client.delete("/threads/t")
            for refused in (busy, as_json, erased):
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "thread_busy")
                assert refused.headers["content-type"] == "application/json"
            seen += [frame async for frame in stream.frames]
        assert_grammar(seen)
        assert (await second.answer("cobalt", thread_id="t")).status_code == 200
        thread = (await first.client.get("/threads/t")).json()
    assert [item["question"] for item in thread["items"]] == ["amber", "cobalt"]
    assert not thread["busy"]


async def test_a_thread_that_another_replica_answers_is_shown_as_busy(database: str, tmp_path: Path) -> None:
    slow = ScriptedModel()
    async with (
        replica(database, services(tmp_path), slow) as one,
        replica(database, services(folder(tmp_path, "other")), slow) as other,
        serving(one) as first,
        serving(other) as second,
    ):
        await first.answer("amber", thread_id="t")
        slow.delay_s = 0.1
        async with first.asking("cobalt", thread_id="t") as stream:
            await stream.until(lambda frame: frame["type"] == "stage")
            assert (await second.client.get("/threads/t")).json()["busy"]
            assert [frame async for frame in stream.frames][-1]["type"] == "done"
        assert not (await second.client.get("/threads/t")).json()["busy"]


async def test_D05_of_twenty_questions_at_once_on_two_replicas_each_turn_is_whole(
    database: str, tmp_path: Path
) -> None:
    world, model = services(tmp_path), ScriptedModel(delay_s=0.005)
    async with replica(database, world, model) as one, replica(database, world, model) as other:
        answers = await asyncio.gather(
            *((one, other)[number % 2].ask(f"word{number}", thread="t1") for number in range(2)),
            *((one, other)[number % 2].ask(f"word{number}", thread=f"t{number}") for number in range(2, 20)),
        )
        ended = [frames[-1] for frames in answers[:2]]
        assert sorted(end["type"] for end in ended) == ["done", "error"]
        assert [end["code"] for end in ended if end["type"] == "error"] == ["thread_busy"]
        assert all(frames[-1]["type"] == "done" for frames in answers[2:])
        assert len(await one.history.threads("alice")) == 19
        assert [len((await one.history.state(ThreadRef("alice", f"t{n}")))["turns"]) for n in range(1, 20)] == [1] * 19


async def test_a_replica_that_is_refused_writes_nothing_into_the_thread(database: str, tmp_path: Path) -> None:
    world = services(tmp_path)
    async with (
        replica(database, world, ScriptedModel(delay_s=0.1)) as one,
        replica(database, world, ScriptedModel()) as other,
    ):
        answering = asyncio.create_task(one.ask("amber"))
        await until_answering(other)
        run = other.runs.start(Request(THREAD, "cobalt"))
        with pytest.raises(ThreadBusy):
            await run.admitted()
        assert [type(told.event).__name__ async for told in run.events()] == ["Started", "Failed"]
        assert (await answering)[-1]["type"] == "done"
        assert not other.runs.busy(THREAD)
        assert [turn["question"] for turn in (await other.history.state(THREAD))["turns"]] == ["amber"]


async def test_a_run_whose_lock_was_lost_stores_nothing(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    world = services(tmp_path)
    async with (
        replica(database, world, ScriptedModel(delay_s=0.1)) as one,
        replica(database, world, ScriptedModel()) as other,
    ):
        answering = asyncio.create_task(one.ask("amber"))
        await until_answering(other)
        await asyncio.to_thread(postgres.end_sessions)
        assert (await other.ask("cobalt"))[-1]["type"] == "done"
        lost = await answering
        assert (lost[-1]["type"], lost[-1]["code"]) == ("error", "threads_unavailable")
        assert [turn["question"] for turn in (await other.history.state(THREAD))["turns"]] == ["cobalt"]
        assert (await one.ask("ochre"))[-1]["type"] == "done"


async def test_renaming_on_one_replica_and_answering_on_the_other_lose_neither(database: str, tmp_path: Path) -> None:
    world, model = services(tmp_path), ScriptedModel()
    async with replica(database, world, model) as one, replica(database, world, model) as other:
        await one.ask("amber")
        for turn in range(2, 8):
            await asyncio.gather(
                one.history.record(THREAD, "amber", f"2031-01-0{turn}T00:00:00+00:00", turn),
                other.history.rename(THREAD, f"title {turn}"),
            )
            summary = await one.history.summary(THREAD)
            assert (summary.title, summary.turns) == (f"title {turn}", turn)


async def test_a_database_that_is_away_is_a_clean_error_and_comes_back(
    database: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    async with replica(database, services(tmp_path), ScriptedModel()) as house, serving(house) as served:
        assert (await served.answer("amber", thread_id="t")).status_code == 200
        await asyncio.to_thread(postgres.stop)
        away = await served.answer("cobalt", thread_id="t")
        listing = await served.client.get("/threads")
        ready = await house.history.readiness()
        assert (away.status_code, away.json()["error"]["code"]) == (503, "threads_unavailable")
        assert (listing.status_code, listing.json()["error"]["code"]) == (503, "threads_unavailable")
        assert not ready.ok
        await asyncio.to_thread(postgres.start)
        again = await served.answer("cobalt", thread_id="t")
        assert again.status_code == 200, again.text
        turns = (await served.client.get("/threads/t")).json()["items"]
    assert [turn["question"] for turn in turns] == ["amber", "cobalt"]
    assert PASSWORD not in away.text + listing.text + ready.detail


async def test_a_database_that_falls_silent_is_a_clean_error_in_bounded_time(
    database: str, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.postgres.pool.ANSWER_S", 0.5)
    async with replica(database, services(tmp_path), ScriptedModel()) as house:
        await house.ask("amber")
        postgres.signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(40):
                run = house.runs.start(Request(THREAD, "cobalt"))
                with pytest.raises(ThreadsUnavailable):
                    await run.admitted()
                assert not (await house.history.readiness()).ok
        finally:
            postgres.signal(signal.SIGCONT)
        assert (await house.ask("cobalt"))[-1]["type"] == "done"


async def test_replicas_may_prepare_an_empty_database_at_the_same_time(database: str) -> None:
    async def open_once() -> None:
        async with AsyncExitStack() as stack:
            threads = await open_postgres(database, stack)
            assert await threads.listing.aget(("nobody", "here"), "k") is None

    await asyncio.gather(*(open_once() for _ in range(4)))


@pytest.mark.parametrize("kept_word", ["DATABASE_URL", "DATA_DIR"])
async def test_a_database_that_is_not_there_says_what_to_do_and_no_password(kept_word: str) -> None:
    url = f"postgresql://owner:{PASSWORD.replace('/', '%2F').replace('@', '%40')}@127.0.0.1:{free_port()}/none"
    async with AsyncExitStack() as stack:
        with pytest.raises(OperatorError, match=kept_word) as refused:
            await open_postgres(url, stack)
    assert "s3cret" not in str(refused.value)


async def test_a_wrong_password_is_said_without_repeating_it(postgres: PostgresServer) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(OperatorError, match="password authentication failed") as refused:
            await open_postgres(postgres.url(password="wr0ng"), stack)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://owner:s3cret@127.0.0.1:port/x", "postgresql://owner:s3%cret@h/x"])
async def test_an_address_that_is_none_is_said_without_repeating_it(url: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(OperatorError) as refused:
            await open_postgres(url, stack)
    assert "s3" not in str(refused.value)
