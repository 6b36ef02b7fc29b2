"""The client's threads over HTTP: listed, read again, renamed, erased, and still there after a restart."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.sqlite.aio import AsyncSqliteStore

from service.graph.state import Services
from service.threads import ThreadRef
from tests.api.stalling import stalling
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import HOST, Served, eventually, serving
from tests.wire import Frame, of

ANSWERED = ("status", "answer", "html", "warning", "citations", "consulted", "verdicts", "rewrites", "regens", "usage")


def assert_read_as_streamed(thread: Frame, frames: list[Frame]) -> None:
    """A thread that is read again shows the numbers, quotes, links and HTML that its streams gave."""
    shown = {item["n"]: item for frame in of(frames, "sources") for item in frame["items"]}
    assert thread["sources"] == [shown[n] for n in sorted(shown)]
    for turn, done in zip(thread["items"], of(frames, "done"), strict=True):
        assert {key: turn[key] for key in (*ANSWERED, "run_id", "timings")} == {
            key: done[key] for key in (*ANSWERED, "run_id", "timings")
        }


async def test_a_thread_is_read_as_it_was_streamed(tmp_path: Path) -> None:
    """U07."""
    knowledge = FixedKnowledge()
    async with serving(House(services(tmp_path, knowledge=knowledge), ScriptedModel())) as served:
        frames = await served.frames("first", thread_id="t")
        knowledge.passages = knowledge.passages[::-1]
        frames += await served.frames("second", thread_id="t")
        thread = (await served.client.get("/threads/t")).json()
    assert_read_as_streamed(thread, frames)
    assert [turn["question"] for turn in thread["items"]] == ["first", "second"]
    assert (thread["title"], thread["turns"], thread["busy"], len(thread["sources"])) == ("first", 2, False, 8)
    assert thread["items"][0]["web"] == {"query": "", "status": "off", "sent": []}


async def test_threads_are_listed_with_the_newest_first(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    async with serving(home) as served:
        assert (await served.client.get("/threads")).json() == {"threads": []}
        for day, thread in enumerate(("a", "b", "c", "a"), start=1):
            await home.history.record(ThreadRef(HOST, thread), f"asked on {day}", f"2031-01-0{day}T00:00:00+00:00", day)
        listed = (await served.client.get("/threads")).json()["threads"]
    assert [(item["thread_id"], item["title"], item["turns"]) for item in listed] == [
        ("a", "asked on 1", 4),
        ("c", "asked on 3", 3),
        ("b", "asked on 2", 2),
    ]
    assert (listed[0]["created_at"][:10], listed[0]["updated_at"][:10]) == ("2031-01-01", "2031-01-04")


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("\u200b\u202e \u2060", "title: Value error, must hold at least one visible character"),
        ("two\nlines", "title: Value error, must not hold a line break or another control character"),
        ("two\u2028lines", "title: Value error, must not hold a line break or another control character"),
    ],
)
async def test_a_title_that_nobody_sees_or_that_breaks_its_line_is_refused_in_plain_words(
    tmp_path: Path, title: str, said: str
) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        await served.frames("first", thread_id="t")
        answer = await served.client.patch("/threads/t", json={"title": title})
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, said)
        assert (await served.client.get("/threads/t")).json()["title"] == "first"


async def test_of_two_threads_asked_in_one_second_the_later_one_stands_first(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    for thread in ("a", "b", "c"):
        await home.history.record(ThreadRef(HOST, thread), thread, "2031-01-01T00:00:00+00:00", 1)
    assert [summary.thread_id for summary in await home.history.threads(HOST)] == ["c", "b", "a"]


async def test_threads_are_found_by_the_words_of_their_titles_in_any_case_and_order(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    titles = {"a": "Client MONEY rules", "b": "Own funds", "c": "Straße und Geld", "d": "100% of client funds"}
    async with serving(home) as served:
        for thread, title in titles.items():
            await home.history.record(ThreadRef(HOST, thread), title, "2031-01-01T00:00:00+00:00", 1)
        await home.history.record(ThreadRef("someone else", "e"), "client money", "2031-01-01T00:00:00+00:00", 1)

        async def found(q: str) -> set[str]:
            listed = (await served.client.get("/threads", params={"q": q})).json()["threads"]
            return {item["thread_id"] for item in listed}

        assert await found("money client") == {"a"}
        assert await found("FUNDS") == {"b", "d"}
        assert await found("STRASSE") == {"c"}
        assert await found("100%") == {"d"}
        assert await found("  ") == set(titles)
        assert await found(".*") == set()
        too_long = await served.client.get("/threads", params={"q": "x" * 201})
    assert (too_long.status_code, too_long.json()["error"]["message"]) == (422, "Not valid: q.")


async def test_a_name_that_a_person_gave_stays(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        await served.frames("question", thread_id="t")
        named = await served.client.patch("/threads/t", json={"title": "Mine <b> \u202e"})
        assert (named.status_code, named.json()["title"]) == (200, "Mine <b> \u202e")
        await served.frames("again", thread_id="t")
        assert (await served.client.get("/threads")).json()["threads"][0]["title"] == "Mine <b> \u202e"


async def test_an_unknown_thread_is_404_whatever_is_done_to_it(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        for thread_id in ("unknown", "t.1", "%2e%2e", "x" * 65, "a%00b", "a%20b"):
            for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"title": "x"})):
                answer = await served.client.request(method, f"/threads/{thread_id}", json=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found"), thread_id


async def test_an_erased_thread_is_gone_and_begins_anew(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        await served.frames("secret", thread_id="t")
        erased = await served.client.delete("/threads/t")
        assert (erased.status_code, erased.json()["erased"]) == (200, True)
        assert (await served.client.get("/threads")).json() == {"threads": []}
        for method in ("GET", "DELETE"):
            assert (await served.client.request(method, "/threads/t")).status_code == 404
        again = await served.frames("new", thread_id="t")
        thread = (await served.client.get("/threads/t")).json()
    assert [turn["question"] for turn in thread["items"]] == ["new"]
    assert_read_as_streamed(thread, again)


async def test_a_thread_that_is_answering_is_busy_and_cannot_be_erased(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    home = House(world, model)
    async with serving(home) as served:
        await served.frames("first", thread_id="t")
        async with served.asking("stall in retrieval", thread_id="t") as stream:
            await eventually(lambda: bool(stall.reached))
            busy = await served.client.delete("/threads/t")
            assert (busy.status_code, busy.json()["error"]["code"]) == (409, "thread_busy")
            assert (await served.client.get("/threads/t")).json()["busy"] is True
            stream.connection.vanish()
        await eventually(lambda: bool(stall.left) and not home.runs.busy(ThreadRef(HOST, "t")))
        assert (await served.client.get("/threads/t")).json()["busy"] is False
        assert (await served.client.delete("/threads/t")).status_code == 200


async def test_a_thread_cannot_begin_to_answer_while_it_is_being_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = House(services(tmp_path), ScriptedModel())
    async with serving(home) as served:
        await served.frames("first", thread_id="t")
        erase, tried = home.history.erase, []

        async def erase_slowly(*args: object) -> None:
            tried.append((await served.answer("in between", thread_id="t")).status_code)
            await erase(*args)  # type: ignore[arg-type]  # a stand-in takes what the real one takes

        monkeypatch.setattr(home.history, "erase", erase_slowly)
        assert (await served.client.delete("/threads/t")).status_code == 200
        assert tried == [409]
        assert (await served.answer("afterwards", thread_id="t")).status_code == 200


@asynccontextmanager
async def on_disk(world: Services, folder: Path) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")))
        store = await stack.enter_async_context(AsyncSqliteStore.from_conn_string(str(folder / "listing.db")))
        await store.setup()
        home = House(world, ScriptedModel(), checkpointer=saver, store=store)
        yield await stack.enter_async_context(serving(home))


async def test_a_restart_keeps_threads_and_their_numbers(tmp_path: Path) -> None:
    knowledge = FixedKnowledge([passage(n) for n in range(1, 9)])
    world = services(tmp_path, knowledge=knowledge)
    async with on_disk(world, tmp_path) as served:
        frames = await served.frames("first", thread_id="t")
        await served.client.patch("/threads/t", json={"title": "Kept"})
    knowledge.passages = knowledge.passages[3:]
    async with on_disk(world, tmp_path) as served:
        thread = (await served.client.get("/threads/t")).json()
        assert_read_as_streamed(thread, frames)
        assert (await served.client.get("/threads")).json()["threads"][0]["title"] == "Kept"
        later = await served.frames("second", thread_id="t")
        meaning = {item["passage_id"]: item["n"] for item in of(frames, "sources")[0]["items"]}
        again = {item["passage_id"]: item["n"] for item in of(later, "sources")[0]["items"]}
        assert {pid: n for pid, n in again.items() if pid in meaning} == {
            pid: n for pid, n in meaning.items() if pid in again
        }
        assert min(set(again.values()) - set(meaning.values())) == len(meaning) + 1
        assert_read_as_streamed((await served.client.get("/threads/t")).json(), [*frames, *later])
