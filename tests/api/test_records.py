"""A run's record over HTTP: read by its client alone, commented on, and kept when the conversation is erased."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.audit.log import AuditLog
from service.audit.verify import verify
from service.cli import app
from service.errors import ThreadsUnavailable
from service.graph.run import Request
from service.ratelimit.memory import MemoryLimiter
from service.record import RecordedRun, ScoreRecord
from service.threads import ThreadRef
from tests.api.guarded import ALICE, BOB, bearer, guarded
from tests.api.stalling import stalling
from tests.audit.logs import audit_log, bodies
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, Served, eventually, serving
from tests.skills.writing import skills

JSON = {"Accept": "application/json"}
UNKNOWN = {"error": {"code": "not_found", "message": "There is no such run.", "retryable": False}}


@asynccontextmanager
async def recorded(folder: Path, **options: Any) -> AsyncIterator[Served]:
    async with audit_log(folder / "audit", **options) as audit:
        async with serving(House(services(folder), ScriptedModel(), audit=audit)) as served:
            yield served
        report = verify(folder / "audit")
        assert report.whole, report.faults


async def test_a_record_tells_its_client_how_the_answer_came_about(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        frames = await served.frames("How long?", thread_id="t")
        run_id = frames[0]["run_id"]
        answer = await served.client.get(f"/runs/{run_id}")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["run_id"], found["seq"], found["feedback"]) == (run_id, 1, [])
    record = found["record"]
    assert (record["question"], record["client"], record["answer"]) == ("How long?", HOST, frames[-1]["answer"])
    assert [grade["words"] for grade in record["passes"][0]["grades"]] == ["relevant"] * 6
    assert [fork["to"] for fork in record["forks"]] == ["assemble_sources", "reflect", "finalize"]


async def test_a_foreign_run_and_an_unknown_one_look_alike_whatever_is_asked(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        foreign = served.house.runs.start(Request(ThreadRef("someone else", "t"), "a secret question"))
        await foreign.ended()
        for run_id in (foreign.run_id, "r_nobody", "r_" + "x" * 3000, "%2e%2e", "a%00b", "' OR 1=1 --"):
            read = await served.client.get(f"/runs/{run_id}")
            said = await served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "up"})
            for answer in (read, said):
                assert (answer.status_code, answer.json()) == (404, UNKNOWN)
    assert bodies(tmp_path / "audit", "feedback") == []


async def test_a_run_under_way_has_no_record_yet_for_its_client_and_none_for_others(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    async with audit_log(tmp_path / "audit") as audit, serving(House(world, model, audit=audit)) as served:
        foreign = served.house.runs.start(Request(ThreadRef("someone else", "t"), "stall in rerank"))
        async with served.asking("stall in rerank", thread_id="t") as stream:
            [first] = await stream.until(lambda frame: frame["type"] == "run")
            await eventually(lambda: len(stall.reached) == 2)
            mine = await served.client.get(f"/runs/{first['run_id']}")
            assert (mine.status_code, mine.json()["error"]["retryable"]) == (409, True)
            assert (await served.client.get(f"/runs/{foreign.run_id}")).json() == UNKNOWN
            stream.connection.vanish()
        foreign.stop()
        await foreign.ended()
        await eventually(lambda: not served.house.runs.busy(ThreadRef(HOST, "t")))
        ended = (await served.client.get(f"/runs/{first['run_id']}")).json()["record"]["ending"]
    assert (ended["outcome"], ended["stopped_by"]) == ("cancelled", "reader_left")


async def test_what_was_shown_when_a_person_pressed_stop_is_kept_as_partial(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    async with audit_log(tmp_path / "audit") as audit, serving(House(world, model, audit=audit)) as served:
        async with served.asking("stall in generation", thread_id="t") as stream:
            frames = await stream.until(lambda frame: frame["type"] == "token")
            await eventually(lambda: bool(stall.reached))
            assert (await served.client.delete(f"/runs/{frames[0]['run_id']}")).status_code == 202
            frames += [frame async for frame in stream.frames]
        record = (await served.client.get(f"/runs/{frames[0]['run_id']}")).json()["record"]
    shown = "".join(frame["text"] for frame in frames if frame["type"] == "token")
    assert (record["answer"], record["complete"], record["citations"]) == (shown, False, [])
    assert shown
    assert record["ending"] == {
        "outcome": "cancelled",
        "code": "cancelled",
        "message": "The answer was stopped.",
        "stopped_by": "person",
    }


async def test_feedback_is_added_to_the_log_and_read_with_the_record(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
        kept = await served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "down", "comment": "wrong rule ☹"})
        assert (kept.status_code, kept.json()) == (201, {"run_id": run_id, "kept": True})
        await served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "up"})
        found = (await served.client.get(f"/runs/{run_id}")).json()
    assert [(item["thumbs"], item["comment"]) for item in found["feedback"]] == [("down", "wrong rule ☹"), ("up", "")]
    assert [body["run_id"] for body in bodies(tmp_path / "audit", "feedback")] == [run_id] * 2


async def test_a_score_is_read_with_the_record_and_withheld_once_the_conversation_is_erased(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
        found = (await served.client.get(f"/runs/{run_id}")).json()
        assert found["scores"] == []
        await served.house.audit.append("score", score_of(found["record"]))
        [score] = (await served.client.get(f"/runs/{run_id}")).json()["scores"]
        assert (await served.client.delete("/threads/t")).status_code == 200
        assert (await served.client.get(f"/runs/{run_id}")).json() == UNKNOWN
    assert {key: value for key, value in score.items() if key != "at"} == {
        "judge": "a-judge",
        "name": "faithfulness",
        "value": 0.5,
        "detail": "1 of 2 claims agree with the sources",
        "words": "not so",
    }
    shown = CliRunner().invoke(app, ["audit", "show", run_id, "--folder", str(tmp_path / "audit")]).output
    assert "by a-judge, private parts masked" in shown
    assert "faithfulness 0.50 (1 of 2 claims agree with the sources)" in shown
    assert "answer_relevancy: none (timeout)" in shown


def score_of(run: dict[str, Any]) -> ScoreRecord:
    detail = "1 of 2 claims agree with the sources"
    return {
        "run_id": run["run_id"],
        "client": run["client"],
        "thread_id": run["thread_id"],
        "thread_key": run["thread_key"],
        "judge": {"model": "a-judge"},
        "masked": True,
        "scores": [{"name": "faithfulness", "value": 0.5, "detail": detail, "words": "not so"}],
        "missing": [{"name": "answer_relevancy", "code": "timeout"}],
        "usage": {},
        "ms": 1.0,
    }


BAD_FEEDBACK: list[Any] = [
    {},
    {"thumbs": "sideways"},
    {"thumbs": True},
    {"thumbs": "up", "comment": "x" * 2001},
    {"thumbs": "up", "comment": "a\x00b"},
    {"thumbs": "up", "stars": 5},
    ["up"],
]


@pytest.mark.parametrize("body", BAD_FEEDBACK)
async def test_feedback_that_is_not_in_form_is_422_and_leaves_no_record(tmp_path: Path, body: Any) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
        answer = await served.client.post(f"/runs/{run_id}/feedback", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert bodies(tmp_path / "audit", "feedback") == []


async def test_feedback_on_one_answer_is_bounded(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
        given = [await served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "up"}) for _ in range(22)]
    assert [answer.status_code for answer in given] == [201] * 20 + [422] * 2


async def test_feedback_that_arrives_together_is_bounded_too(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
        words = [served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "up"}) for _ in range(30)]
        codes = [answer.status_code for answer in await asyncio.gather(*words)]
    assert (codes.count(201), codes.count(422)) == (20, 10)


class Replica:
    """The locks of one replica; `shared` are the names that any of them holds."""

    def __init__(self, shared: set[str], *, away: bool = False) -> None:
        self._shared, self._mine, self._away = shared, set[str](), away

    async def take(self, name: str) -> bool:
        if self._away and name.startswith("feedback"):
            raise ThreadsUnavailable("The conversations cannot be reached.")
        if name in self._shared:
            return False
        self._shared.add(name)
        self._mine.add(name)
        return True

    async def release(self, name: str) -> None:
        if name in self._mine:
            self._mine.discard(name)
            self._shared.discard(name)

    async def taken(self, name: str) -> bool:
        return name in self._shared

    async def confirm(self, name: str) -> None: ...


class SlowlyRead(AuditLog):
    """What was read is a while old before anything is done with it."""

    async def run(self, run_id: str, client: str) -> RecordedRun | None:
        found = await super().run(run_id, client)
        await asyncio.sleep(0.2)
        return found


@asynccontextmanager
async def replica(folder: Path, locks: Replica) -> AsyncIterator[Served]:
    audit = await SlowlyRead.open(folder / "audit", segment_bytes=10_000_000, min_free_bytes=1)
    try:
        async with serving(House(services(folder), ScriptedModel(), audit=audit, locks=locks)) as served:
            yield served
    finally:
        await audit.close()


@pytest.mark.parametrize("away", [False, True])
async def test_the_last_word_on_an_answer_is_given_once_whichever_replicas_are_asked(
    tmp_path: Path, away: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the locks cannot be had each replica counts for itself, and the word is kept."""
    monkeypatch.setattr("service.api.runs.MAX_FEEDBACK", 2)
    shared = set[str]()
    async with (
        replica(tmp_path, Replica(shared, away=away)) as one,
        replica(tmp_path, Replica(shared, away=away)) as other,
    ):
        run_id = (await one.frames(thread_id="t"))[0]["run_id"]
        path, up = f"/runs/{run_id}/feedback", {"thumbs": "up"}
        assert (await one.client.post(path, json=up)).status_code == 201
        last = await asyncio.gather(one.client.post(path, json=up), other.client.post(path, json=up))
    assert sorted(answer.status_code for answer in last) == ([201, 201] if away else [201, 422])
    assert ("counted in this process alone" in caplog.text) == away
    assert not shared


async def test_erasing_a_thread_says_what_the_log_keeps_and_hides_it_from_its_client(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        frames = [await served.frames(question, thread_id="t") for question in ("first secret", "second secret")]
        await served.frames("of another thread", thread_id="other")
        erased = (await served.client.delete("/threads/t")).json()
        assert (erased["erased"], erased["audit"]["runs"]) == (True, 2)
        for word in ("audit log keeps", "question and answer", "operator"):
            assert word in erased["audit"]["text"]
        for one in frames:
            read = await served.client.get(f"/runs/{one[0]['run_id']}")
            said = await served.client.post(f"/runs/{one[0]['run_id']}/feedback", json={"thumbs": "up"})
            assert (read.status_code, read.json()) == (said.status_code, said.json()) == (404, UNKNOWN)
        again = await served.frames("anew", thread_id="t")
        assert (await served.client.get(f"/runs/{again[0]['run_id']}")).status_code == 200
    assert [body["question"] for body in bodies(tmp_path / "audit")][:2] == ["first secret", "second secret"]
    [erasure] = bodies(tmp_path / "audit", "erasure")
    assert (erasure["client"], erasure["thread_id"], erasure["runs_kept"]) == (HOST, "t", 2)


async def test_a_thread_that_is_not_there_leaves_no_erasure_in_the_log(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        assert (await served.client.delete("/threads/none")).status_code == 404
    assert bodies(tmp_path / "audit", "erasure") == []


async def test_a_full_disk_refuses_questions_feedback_and_erasure_before_anything_is_done(tmp_path: Path) -> None:
    async with recorded(tmp_path) as served:
        run_id = (await served.frames(thread_id="t"))[0]["run_id"]
    async with audit_log(tmp_path / "audit", min_free_bytes=10**18) as audit:
        house = House(services(tmp_path), ScriptedModel(), audit=audit)
        async with serving(house) as served:
            await house.history.record(ThreadRef(HOST, "t"), "question", "2031-01-01T00:00:00+00:00", 1)
            for method, path, body in (
                ("POST", "/chat", {"question": "Why?"}),
                ("POST", f"/runs/{run_id}/feedback", {"thumbs": "up"}),
                ("DELETE", "/threads/t", None),
            ):
                answer = await served.client.request(method, path, json=body)
                assert answer.status_code == 503, path
                error = answer.json()["error"]
                assert (error["code"], error["retryable"]) == ("audit_unavailable", True)
            assert (await served.client.get("/threads")).json()["threads"] != []
    assert len(bodies(tmp_path / "audit")) == 1


async def test_the_erasure_is_on_disk_before_the_conversation_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recorded(tmp_path) as served:
        await served.frames(thread_id="t")
        seen: list[int] = []

        async def erase(_: ThreadRef) -> None:
            seen.append(len(bodies(tmp_path / "audit", "erasure")))
            await asyncio.sleep(0)

        monkeypatch.setattr(served.house.history, "erase", erase)
        await served.client.delete("/threads/t")
    assert seen == [1]


async def test_a_record_bears_the_name_of_the_key_and_is_for_that_client_alone(tmp_path: Path) -> None:
    async with audit_log(tmp_path / "audit") as audit, guarded(tmp_path, audit=audit, skills=skills("short")) as served:
        body = {"question": "How long?", "thread_id": "t", "skill": "short"}
        done = (await served.client.post("/chat", json=body, headers=bearer(ALICE) | JSON)).json()
        own = bearer(ALICE)
        record = (await served.client.get(f"/runs/{done['run_id']}", headers=own)).json()["record"]
        assert (record["client"], record["skill"]["name"]) == ("alice", "short")
        for method, path, sent in (
            ("GET", f"/runs/{done['run_id']}", None),
            ("POST", f"/runs/{done['run_id']}/feedback", {"thumbs": "up"}),
            ("GET", "/threads/t?skill=short", None),
            ("PATCH", "/threads/t?skill=short", {"title": "Mine"}),
            ("DELETE", "/threads/t?skill=short", None),
        ):
            foreign = await served.client.request(method, path, json=sent, headers=bearer(BOB))
            unknown = await served.client.request(
                method, path.replace(done["run_id"], "r_none").replace("/t?", "/none?"), json=sent, headers=bearer(BOB)
            )
            assert (foreign.status_code, foreign.content) == (404, unknown.content), path
            assert (await served.client.request(method, path, json=sent)).status_code == 401
        assert (await served.client.get("/threads/t?skill=short", headers=own)).status_code == 200
        assert (await served.client.get("/threads/t", headers=own)).status_code == 404


async def test_erasing_a_skills_thread_leaves_the_thread_of_the_same_name_and_its_runs(tmp_path: Path) -> None:
    async with audit_log(tmp_path / "audit") as audit, guarded(tmp_path, audit=audit, skills=skills("short")) as served:
        own, runs = bearer(ALICE), []
        for chosen in ({}, {"skill": "short"}):
            body = {"question": "How long?", "thread_id": "t", **chosen}
            answer = await served.client.post("/chat", json=body, headers=bearer(ALICE) | JSON)
            runs.append(answer.json()["run_id"])
        erased = (await served.client.delete("/threads/t?skill=short", headers=own)).json()
        assert erased["audit"]["runs"] == 1
        found = [(await served.client.get(f"/runs/{run_id}", headers=own)).status_code for run_id in runs]
        assert found == [200, 404]
        assert (await served.client.get("/threads/t", headers=own)).status_code == 200
        assert (await served.client.get("/threads/t?skill=short", headers=own)).status_code == 404
    [erasure] = bodies(tmp_path / "audit", "erasure")
    assert (erasure["client"], erasure["skill"]) == ("alice", "short")


async def test_a_question_over_the_limit_leaves_no_record(tmp_path: Path) -> None:
    async with (
        audit_log(tmp_path / "audit") as audit,
        guarded(tmp_path, audit=audit, limiter=MemoryLimiter(1)) as served,
    ):
        body = {"question": "How long?"}
        answers = [await served.client.post("/chat", json=body, headers=bearer(ALICE) | JSON) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 429, 429]
    assert [record["run_id"] for record in bodies(tmp_path / "audit")] == [answers[0].json()["run_id"]]
