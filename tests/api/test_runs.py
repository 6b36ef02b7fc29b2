"""Runs under way: stopping one, too many of them, a stop that comes late, and a server that is shut down."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from service.errors import ShuttingDown
from service.graph.run import Request
from service.threads import ThreadRef
from tests.api.stalling import PHASES, stalling
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, QUESTION, Served, Stream, eventually, serving
from tests.wire import Frame, assert_grammar

UNKNOWN = {"error": {"code": "not_found", "message": "There is no such run under way.", "retryable": False}}


def of_stage(node: str) -> Callable[[Frame], bool]:
    return lambda frame: frame["type"] == "stage" and (frame["node"], frame["state"]) == (node, "start")


async def test_a_question_that_comes_while_the_service_stops_is_told_that_it_is_restarting(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel(), max_runs_per_client=0)
    await home.runs.close()
    with pytest.raises(ShuttingDown, match="The service is restarting"):
        home.runs.start(Request(ThreadRef("alice", "t"), "Why?"))


async def test_a_stopped_run_ends_in_one_error_and_stores_no_turn(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(delay_s=0.2))) as served:
        async with served.asking(thread_id="t") as stream:
            frames = await stream.until(lambda frame: frame["type"] == "token")
            stopped = await served.client.delete(f"/runs/{frames[0]['run_id']}")
            assert (stopped.status_code, stopped.json()) == (202, {"run_id": frames[0]["run_id"], "stopping": True})
            frames += [frame async for frame in stream.frames]
        assert_grammar(frames)
        assert (frames[-1]["type"], frames[-1]["code"], frames[-1]["retryable"]) == ("error", "cancelled", True)
        assert (await served.client.get("/threads/t")).status_code == 404
        assert (await served.client.get("/threads")).json() == {"threads": []}
        assert (await served.client.delete(f"/runs/{frames[0]['run_id']}")).json() == UNKNOWN


@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_can_be_stopped_in_every_phase_and_twice(tmp_path: Path, phase: str) -> None:
    world, model, stall = stalling(tmp_path)
    async with serving(House(world, model)) as served, served.asking(f"stall in {phase}") as stream:
        frames = await stream.until(lambda frame: frame["type"] == "run")
        await eventually(lambda: bool(stall.reached))
        for _ in range(2):
            assert (await served.client.delete(f"/runs/{frames[0]['run_id']}")).status_code in (202, 404)
        frames += [frame async for frame in stream.frames]
    assert_grammar(frames)
    assert frames[-1]["code"] == "cancelled"
    assert len(stall.left) == len(stall.reached)


async def test_a_request_for_json_is_told_of_a_shutdown_too(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel(delay_s=5))
    async with serving(home) as served:
        asking = asyncio.create_task(served.answer(thread_id="t"))
        await eventually(lambda: home.runs.busy(ThreadRef(HOST, "t")))
        await home.runs.close()
        answer = await asking
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")


async def test_a_foreign_run_looks_like_an_unknown_one_and_goes_on(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    home = House(world, model)
    async with serving(home) as served:
        foreign = home.runs.start(Request(ThreadRef("someone else", "t"), "stall in grading"))
        await eventually(lambda: bool(stall.reached))
        for run_id in (foreign.run_id, "r_nobody", "r_" + "x" * 3000, "%2e%2e", "a%00b"):
            answer = await served.client.delete(f"/runs/{run_id}")
            assert (answer.status_code, answer.json()) == (404, UNKNOWN)
        await asyncio.sleep(0.05)
        assert stall.left == []
        foreign.stop()
        await foreign.ended()


async def test_one_run_more_than_allowed_is_503_and_another_follows_when_one_has_ended(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    async with serving(House(world, model, max_runs=2)) as served:
        first, second = await open_stream(served, "stall in grading"), await open_stream(served, "stall in judging")
        run_id = (await first.until(of_stage("grade_documents")))[0]["run_id"]
        await second.until(of_stage("reflect"))
        full = await served.client.post("/chat", json={"question": QUESTION})
        assert full.status_code == 503
        assert {**full.json()["error"], "message": ""} == {"code": "overloaded", "message": "", "retryable": True}
        assert (await served.client.get("/healthz")).status_code == 200
        first.connection.vanish()
        await eventually(lambda: "stall in grading" in stall.left)
        await eventually(lambda: not served.house.runs.under_way(run_id, HOST))
        assert (await served.answer()).status_code == 200


class SlowSaver(InMemorySaver):
    """Takes its time over each checkpoint; `writing` is set while it does."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        self.writing.set()
        await asyncio.sleep(0.1)
        return await super().aput(*args, **kwargs)


async def test_a_stop_while_the_turn_is_being_stored_comes_too_late(tmp_path: Path) -> None:
    saver = SlowSaver()
    async with serving(House(services(tmp_path), ScriptedModel(), checkpointer=saver)) as served:
        async with served.asking(thread_id="t") as stream:
            frames = await stream.until(lambda frame: frame["type"] == "run")
            await asyncio.wait_for(saver.writing.wait(), 5)
            await served.client.delete(f"/runs/{frames[0]['run_id']}")
            frames += [frame async for frame in stream.frames]
        assert_grammar(frames)
        assert frames[-1]["status"] == "answered"
        [turn] = (await served.client.get("/threads/t")).json()["items"]
        assert turn["run_id"] == frames[0]["run_id"]


@pytest.mark.parametrize("delay_ms", [0, 2, 4, 6, 8, 10, 12, 14, 16, 20, 25, 30])
async def test_a_stop_at_any_moment_leaves_a_whole_turn_or_none(tmp_path: Path, delay_ms: int) -> None:
    home = House(services(tmp_path), ScriptedModel())
    ref = ThreadRef("alice", "t")
    run = home.runs.start(Request(ref, QUESTION))
    asyncio.get_running_loop().call_later(delay_ms / 1000, run.stop)
    frames = [home.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
    ended = frames[-1]["type"]
    assert ended in ("done", "error")
    assert [turn["run_id"] for turn in (await home.history.state(ref))["turns"]] == [run.run_id] * (ended == "done")
    assert [item.turns for item in await home.history.threads("alice")] == [1] * (ended == "done")
    assert not home.runs.busy(ref)


async def test_shutting_down_ends_every_open_stream_in_one_error(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    async with serving(House(world, model)) as served:
        streams = [await open_stream(served, f"stall in {phase}") for phase in PHASES]
        await eventually(lambda: len(set(stall.reached)) == len(PHASES))
        served.server.should_exit = True
        async with asyncio.timeout(3):
            ends = [[frame async for frame in stream.frames] for stream in streams]
            for stream in streams:
                assert await stream.connection.at_end()
    for frames in ends:
        assert_grammar(frames)
        assert (frames[-1]["type"], frames[-1]["code"], frames[-1]["retryable"]) == ("error", "shutting_down", True)
    assert len(stall.left) == len(stall.reached)
    assert model.closed == model.count("answer")


async def open_stream(served: Served, question: str) -> Stream:
    connection = await served.connect()
    await connection.ask({"question": question})
    await connection.read_head()
    return Stream(connection)


async def test_a_service_that_shuts_down_takes_no_new_question(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    async with serving(home) as served:
        await home.runs.close()
        answer = await served.answer()
    assert (answer.status_code, json.loads(answer.content)["error"]["retryable"]) == (503, True)
