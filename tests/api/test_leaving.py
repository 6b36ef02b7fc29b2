"""Clients that vanish: the run is cancelled, the model's stream closed, and nothing is left behind."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.threads import ThreadRef
from tests.api.leaves import leave_many
from tests.api.stalling import PHASES, Stall, StallingModel, stalling
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, QUESTION, Served, eventually, serving

REFERENCE = ThreadRef(HOST, "t")


class Scene:
    """A served house whose runs stall where the question says."""

    def __init__(self, served: Served, model: StallingModel, stall: Stall) -> None:
        self.served = served
        self.model = model
        self.stall = stall
        self.tasks_at_start = 0

    async def leave_when_stalled(self, phase: str, accept: str = "text/event-stream", linger_s: float = 0) -> None:
        """Ask, wait until the run stalls (for a minute, if nobody ends it), vanish, and wait until it is cancelled."""
        stalls = len(self.stall.reached)
        connection = await self.served.connect()
        await connection.ask({"question": f"stall in {phase}", "thread_id": "t"}, {"Accept": accept})
        await eventually(lambda: len(self.stall.reached) > stalls)
        await asyncio.sleep(linger_s)
        connection.vanish()
        await eventually(lambda: len(self.stall.left) > stalls and not self.served.house.runs.busy(REFERENCE))

    async def assert_nothing_is_left(self) -> None:
        await eventually(lambda: len(asyncio.all_tasks()) == self.tasks_at_start)
        assert (await self.served.house.history.state(REFERENCE))["turns"] == []
        assert self.model.closed == self.model.count("answer")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with staged(tmp_path) as found:
        yield found


@asynccontextmanager
async def staged(folder: Path, ping_s: float = 15) -> AsyncIterator[Scene]:
    world, model, stall = stalling(folder)
    async with serving(House(world, model, max_runs=1), ping_s=ping_s) as served:
        found = Scene(served, model, stall)
        await served.frames(thread_id="before")
        await asyncio.sleep(0.05)
        found.tasks_at_start = len(asyncio.all_tasks())
        yield found


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("phase", PHASES)
async def test_D03_a_client_that_leaves_cancels_its_run_at_once(scene: Scene, phase: str, accept: str) -> None:
    await scene.leave_when_stalled(phase, accept)
    await scene.assert_nothing_is_left()
    assert scene.model.count("answer") == 1 + (phase in ("generation", "judging"))
    assert (await scene.served.frames(thread_id="t"))[-1]["status"] == "answered"


async def test_D03_fifty_clients_that_leave_one_after_another_leave_no_growth(scene: Scene) -> None:
    for number in range(50):
        accept = "application/json" if number % 7 == 0 else "text/event-stream"
        await scene.leave_when_stalled(PHASES[number % len(PHASES)], accept)
    await scene.assert_nothing_is_left()
    assert len(scene.stall.left) == len(scene.stall.reached) >= 50
    assert (await scene.served.frames(thread_id="t"))[-1]["status"] == "answered"


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_a_client_that_leaves_right_after_its_question_cancels_its_run(scene: Scene, accept: str) -> None:
    connection = await scene.served.connect()
    await connection.ask({"question": "stall in retrieval", "thread_id": "t"}, {"Accept": accept})
    connection.vanish()
    await asyncio.sleep(0.1)
    await eventually(lambda: not scene.served.house.runs.busy(REFERENCE))
    await scene.assert_nothing_is_left()


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_D04_clients_that_leave_before_the_answer_begins_leak_no_slot(tmp_path: Path, accept: str) -> None:
    model = ScriptedModel(delay_s=0.02)
    async with serving(House(services(tmp_path), model, max_runs=4)) as served:
        tasks_at_start = len(asyncio.all_tasks())
        connections = [await served.connect() for _ in range(50)]
        for connection in connections:
            await connection.ask({"question": QUESTION}, {"Accept": accept})
        for connection in connections:
            connection.vanish()
        await eventually(lambda: len(asyncio.all_tasks()) == tasks_at_start)
        normal = await asyncio.gather(*(served.frames() for _ in range(4)))
        assert [frames[-1]["status"] for frames in normal] == ["answered"] * 4


async def test_a_client_that_reads_nothing_is_missed_while_the_server_waits_to_write(tmp_path: Path) -> None:
    async with staged(tmp_path, ping_s=0.02) as scene:
        # More than the sockets' buffers hold: the ping that follows has to wait.
        scene.model.draft = lambda *_: "x" * 12_000_000 + "[[1]]"
        scene.model.piece = 12_000_000
        await scene.leave_when_stalled("generation", linger_s=0.1)
        await scene.assert_nothing_is_left()


async def test_a_client_that_closes_politely_is_noticed_too(scene: Scene) -> None:
    connection = await scene.served.connect()
    await connection.ask({"question": "stall in rerank", "thread_id": "t"})
    await eventually(lambda: bool(scene.stall.reached))
    connection.close()
    await eventually(lambda: len(scene.stall.left) == 1)
    await scene.assert_nothing_is_left()


async def test_leaving_is_no_error_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    for phase in PHASES:
        await scene.leave_when_stalled(phase)
    await scene.assert_nothing_is_left()
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_the_next_request_of_a_stopped_thread_starts_from_whole_turns(scene: Scene) -> None:
    await scene.leave_when_stalled("judging")
    done = json.loads((await scene.served.answer("and now?", thread_id="t")).content)
    assert done["status"] == "answered"
    assert scene.model.count("condense") == 0


@pytest.mark.slow
async def test_two_hundred_leaves_in_every_phase_leave_no_growth_and_one_record_each(tmp_path: Path) -> None:
    """Acceptance 4 over sockets on both sides; `python -m tests.api.leaves 1000` does a thousand."""
    left = await leave_many(200, tmp_path)
    assert left.tasks[1] == left.tasks[0]
    assert left.files[1] <= left.files[0] + 2
    assert left.open_upstream == 0
    assert (left.cancelled_records, left.by) == (200, frozenset({"reader_left"}))
    assert left.log_is_whole
    assert left.still_answers
