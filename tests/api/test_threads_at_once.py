"""Many requests at once: one answer per thread at a time, and no thread sees another's words."""

import asyncio
from pathlib import Path

from service.threads import ThreadRef
from tests.api.stalling import stalling
from tests.fakes import FAIL, FixedKnowledge, ScriptedModel, services
from tests.running import House
from tests.served import HOST, eventually, serving
from tests.wire import assert_grammar, of

NOBODYS = b'{"error":{"code":"not_found","message":"There is no such thread.","retryable":false}}'


async def test_D05_two_questions_at_once_on_one_thread_give_one_answer_and_one_409(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(delay_s=0.05))) as served:
        answers = await asyncio.gather(*(served.answer(word, thread_id="t") for word in ("amber", "cobalt")))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [busy] = [answer for answer in answers if answer.status_code == 409]
        assert {**busy.json()["error"], "message": ""} == {"code": "thread_busy", "message": "", "retryable": True}
        [turn] = (await served.client.get("/threads/t")).json()["items"]
        assert (turn["question"], turn["status"]) == (("amber", "cobalt")[answers.index(busy) == 0], "answered")


async def test_D05_a_409_comes_before_any_stream_and_leaves_the_first_alone(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(delay_s=0.1))) as served:
        async with served.asking("amber", thread_id="t") as first:
            seen = await first.until(lambda frame: frame["type"] == "run")
            second = await served.client.post("/chat", json={"question": "cobalt", "thread_id": "t"})
            assert (second.status_code, second.headers["content-type"]) == (409, "application/json")
            seen += [frame async for frame in first.frames]
        assert_grammar(seen)
        third = await served.answer("cobalt", thread_id="t")
        turns = (await served.client.get("/threads/t")).json()["items"]
    assert third.status_code == 200
    assert [(turn["question"], turn["status"]) for turn in turns] == [("amber", "answered"), ("cobalt", "answered")]


async def test_D05_a_thread_is_free_as_soon_as_its_terminal_event_is_there(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        for _ in range(20):
            assert (await served.frames(thread_id="t"))[-1]["type"] == "done"
        assert len((await served.client.get("/threads/t")).json()["items"]) == 20


async def test_D05_when_the_first_client_vanishes_the_second_goes_on(tmp_path: Path) -> None:
    """The first would stand still for a minute: that it has left is what sets the thread free."""
    world, model, stall = stalling(tmp_path)
    async with serving(House(world, model)) as served:
        connection = await served.connect()
        await connection.ask({"question": "stall in grading", "thread_id": "t"})
        await eventually(lambda: bool(stall.reached))
        assert (await served.answer("cobalt", thread_id="t")).status_code == 409
        connection.vanish()
        await eventually(lambda: bool(stall.left) and not served.house.runs.busy(ThreadRef(HOST, "t")))
        second = await served.answer("cobalt", thread_id="t")
        [turn] = (await served.client.get("/threads/t")).json()["items"]
    assert (second.status_code, turn["question"]) == (200, "cobalt")


async def test_D05_twenty_threads_at_once_never_see_each_others_words(tmp_path: Path) -> None:
    knowledge = FixedKnowledge()
    model = ScriptedModel(delay_s=0.01)
    async with serving(House(services(tmp_path, knowledge=knowledge), model)) as served:

        async def talk(number: int) -> list[str]:
            for turn in range(2):
                await served.frames(f"word{number:02} of turn {turn}", thread_id=f"t{number:02}")
            thread = (await served.client.get(f"/threads/t{number:02}")).json()
            return [text for item in thread["items"] for text in (item["question"], item["standalone"])]

        said = await asyncio.gather(*(talk(number) for number in range(20)))
    for number, texts in enumerate(said):
        assert texts == [
            f"word{number:02} of turn 0",
            f"word{number:02} of turn 0",
            f"word{number:02} of turn 1",
            f"word{number:02} of turn 0 word{number:02} of turn 1",
        ]
    for asked in [*model.asked("answer"), *model.asked("grade"), *(query for query, _ in knowledge.queries)]:
        assert len({part[:6] for part in asked.split() if part.startswith("word")}) == 1


async def test_D06_a_judge_that_always_says_no_ends_within_its_cap_and_the_thread_goes_on(tmp_path: Path) -> None:
    saying_no = True
    model = ScriptedModel(grounded=lambda _: FAIL if saying_no else ScriptedModel().grounded(0))
    async with serving(House(services(tmp_path), model)) as served:
        frames = await served.frames(thread_id="t")
        assert_grammar(frames)
        assert (frames[-1]["status"], frames[-1]["regens"], model.count("answer")) == ("partial", 1, 2)
        assert len(of(frames, "reset")) == 1
        saying_no = False
        assert (await served.frames(thread_id="t"))[-1]["status"] == "answered"


async def test_a_thread_of_another_client_looks_like_an_unknown_one(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    await home.ask("secret", client="someone else", thread="t")
    async with serving(home) as served:
        for method in ("GET", "DELETE"):
            foreign = await served.client.request(method, "/threads/t")
            unknown = await served.client.request(method, "/threads/u")
            assert (foreign.status_code, foreign.content) == (unknown.status_code, unknown.content) == (404, NOBODYS)
        assert (await served.client.get("/threads")).json() == {"threads": []}
        await served.frames("mine", thread_id="t")
        assert [item["question"] for item in (await served.client.get("/threads/t")).json()["items"]] == ["mine"]
    assert len((await home.history.state(ThreadRef("someone else", "t")))["turns"]) == 1
    assert len((await home.history.state(ThreadRef(HOST, "t")))["turns"]) == 1
