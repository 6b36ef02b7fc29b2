"""Every way in which a run can end leaves exactly one record, before its last event (acceptance 3)."""

import asyncio
import errno
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from service.audit.log import AuditLog
from service.audit.reserve import RESERVE_FILE
from service.audit.verify import verify
from service.errors import AuditUnavailable, InvalidRequest, KnowledgeBaseError, ModelUnavailable, TooManyRuns
from service.graph.run import Request
from service.model import Candidate, Grade, Judgement, Scope
from service.ports import WebAsk, WebFindings
from service.skills.skill import Gates
from service.threads import ThreadRef
from tests.api.stalling import PHASES, stalling
from tests.audit.logs import audit_log, bodies
from tests.fakes import ERROR, FAIL, FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services, snapped
from tests.graph.test_every_run_ends import NeverTheSame
from tests.running import House
from tests.served import eventually
from tests.skills.writing import skill
from tests.wire import Frame


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    async with audit_log(tmp_path / "audit") as log:
        yield log
    report = verify(tmp_path / "audit")
    assert report.whole, report.faults


def the_record(tmp_path: Path) -> dict[str, Any]:
    [record] = bodies(tmp_path / "audit")
    return record


def draft_of(text: str) -> ScriptedModel:
    return ScriptedModel(draft=lambda *_: text)


def draft_that_breaks() -> ScriptedModel:
    return ScriptedModel(draft=lambda *_: ZeroDivisionError())


ENDINGS: dict[str, tuple[Callable[[], ScriptedModel], str, str]] = {
    "answered": (ScriptedModel, "answered", ""),
    "partial": (lambda: ScriptedModel(grounded=lambda _: FAIL), "partial", ""),
    "not assessed": (lambda: ScriptedModel(grounded=lambda _: ERROR), "partial", ""),
    "nothing relevant": (lambda: ScriptedModel(grading=lambda *_: Grade("fail", "beside the point")), "refused", ""),
    "abstained": (lambda: draft_of("[[abstain]] nothing here"), "refused", ""),
    "bad marker": (lambda: draft_of("It is so [[99]]."), "refused", ""),
    "no grade": (lambda: ScriptedModel(grading=lambda *_: Grade("error", "garbage")), "error", "model_unusable"),
    "model down": (lambda: ScriptedModel(draft=lambda *_: ModelUnavailable("away")), "error", "model_unavailable"),
    "a bug": (draft_that_breaks, "error", "internal"),
    "4xx after the lock": (lambda: ScriptedModel(draft=lambda *_: InvalidRequest("no")), "error", "invalid_request"),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_each_ending_leaves_exactly_one_record(tmp_path: Path, audit: AuditLog, name: str) -> None:
    make, outcome, code = ENDINGS[name]
    frames = await House(services(tmp_path), make(), audit=audit).ask("How long?")
    record = the_record(tmp_path)
    assert record["run_id"] == frames[0]["run_id"]
    assert (record["ending"]["outcome"], record["ending"]["code"]) == (outcome, code)
    assert (record["client"], record["thread_id"], record["question"]) == ("alice", "t1", "How long?")
    assert (record["complete"], record["answer"]) == (outcome != "error", frames[-1].get("answer", cited(frames)))


async def test_the_record_is_on_disk_before_the_last_event(tmp_path: Path, audit: AuditLog) -> None:
    run = House(services(tmp_path), ScriptedModel(), audit=audit).runs.start(Request(ThreadRef("alice", "t"), "Why?"))
    async for _ in run.events():
        last = bodies(tmp_path / "audit")
    assert [body["run_id"] for body in last] == [run.run_id]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("by", "outcome", "code"),
    [
        ("person", "cancelled", "cancelled"),
        ("reader_left", "cancelled", "cancelled"),
        ("deadline", "deadline", "deadline_exceeded"),
        ("shutdown", "error", "shutting_down"),
    ],
)
async def test_a_run_that_is_stopped_in_any_phase_leaves_one_record_that_says_by_whom(
    tmp_path: Path, audit: AuditLog, phase: str, by: Any, outcome: str, code: str
) -> None:
    """U14: `cancelled` stands in the record."""
    world, model, stall = stalling(tmp_path)
    house = House(world, model, audit=audit)
    run = house.runs.start(Request(ThreadRef("alice", "t"), f"stall in {phase}"))
    await eventually(lambda: bool(stall.reached))
    run.stop(by)
    await run.ended()
    record = the_record(tmp_path)
    assert record["ending"]["stopped_by"] == by
    assert (record["ending"]["outcome"], record["ending"]["code"]) == (outcome, code)
    assert not record["complete"]
    assert bool(record["answer"]) == (phase in ("generation", "judging"))
    assert [one["query"] for one in record["passes"]] == [f"stall in {phase}"]
    assert bool(record["passes"][0]["candidates"]) == (phase != "retrieval")
    assert bool(record["sources"]) == (phase in ("generation", "judging"))


async def test_a_run_that_is_stopped_before_its_first_step_leaves_one_record(tmp_path: Path, audit: AuditLog) -> None:
    run = House(services(tmp_path), ScriptedModel(), audit=audit).runs.start(Request(ThreadRef("alice", "t"), "Why?"))
    run.stop()
    await run.ended()
    assert the_record(tmp_path)["ending"]["outcome"] == "cancelled"
    assert the_record(tmp_path)["passes"] == []


@pytest.mark.parametrize("by", ["person", "reader_left", "deadline", "shutdown"])
async def test_a_fault_of_ours_is_not_recorded_as_a_stop_that_comes_while_the_thread_is_read(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch, by: Any
) -> None:
    model = draft_that_breaks()
    house = House(services(tmp_path), model, audit=audit)
    state, reading, free = house.history.state, asyncio.Event(), asyncio.Event()

    async def slowly(ref: ThreadRef) -> Any:
        if model.count("answer"):  # the thread is read before the run as well
            reading.set()
            await free.wait()
        return await state(ref)

    monkeypatch.setattr(house.history, "state", slowly)
    run = house.runs.start(Request(ThreadRef("alice", "t"), "Why?"))
    await reading.wait()
    run.stop(by)
    free.set()
    await run.ended()
    ending = the_record(tmp_path)["ending"]
    assert (ending["outcome"], ending["code"], ending["stopped_by"]) == ("error", "internal", "")


async def test_a_deadline_is_one_record_too(tmp_path: Path, audit: AuditLog) -> None:
    house = House(services(tmp_path), ScriptedModel(delay_s=5), audit=audit, deadline_s=0.05)
    assert (await house.ask())[-1]["code"] == "deadline_exceeded"
    assert the_record(tmp_path)["ending"]["outcome"] == "deadline"


@pytest.mark.parametrize("delay_ms", range(0, 40, 3))
async def test_a_stop_at_any_moment_leaves_one_record_that_agrees_with_the_stream(
    tmp_path: Path, audit: AuditLog, delay_ms: int
) -> None:
    house = House(services(tmp_path), ScriptedModel(delay_s=0.002), audit=audit)
    run = house.runs.start(Request(ThreadRef("alice", "t"), "Why?"))
    asyncio.get_running_loop().call_later(delay_ms / 1000, run.stop)
    frames = [house.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
    record = the_record(tmp_path)
    assert record["complete"] == (frames[-1]["type"] == "done")
    shown = "".join(frame["text"] for frame in frames if frame["type"] == "token")
    assert record["answer"] == shown


async def test_a_store_that_is_down_is_one_record(tmp_path: Path, audit: AuditLog) -> None:
    knowledge = FixedKnowledge()
    house = House(services(tmp_path, knowledge=knowledge), ScriptedModel(), audit=audit)
    knowledge.failing = KnowledgeBaseError("away")
    await house.ask()
    assert the_record(tmp_path)["ending"]["code"] == "knowledge_base_unavailable"


async def test_grades_and_the_judges_words_are_kept_also_where_no_grade_could_be_believed(
    tmp_path: Path, audit: AuditLog
) -> None:
    model = ScriptedModel(grading=lambda *_: Grade("error", "garbage: what the judge said"))
    await House(services(tmp_path), model, audit=audit).ask()
    grades = the_record(tmp_path)["passes"][0]["grades"]
    assert len(grades) == 6
    assert {grade["words"] for grade in grades} == {"garbage: what the judge said"}


async def test_the_route_of_a_long_run_is_in_its_record(tmp_path: Path, audit: AuditLog) -> None:
    model = ScriptedModel(
        grading=lambda count, _: Grade("fail", "too early") if count < 3 else Grade("pass", "this is it"),
        grounded=lambda count: Judgement("fail", "not so") if count == 0 else Judgement("pass", "now it is"),
    )
    frames = await House(services(tmp_path, knowledge=NeverTheSame(tmp_path)), model, audit=audit).ask("How long?")
    assert frames[-1]["status"] == "answered"
    record = the_record(tmp_path)
    assert [(fork["after"], fork["to"], fork["reason"]) for fork in record["forks"]] == [
        ("grade_documents", "rewrite_query", "nothing_relevant"),
        ("grade_documents", "assemble_sources", "relevant"),
        ("generate", "reflect", ""),
        ("reflect", "prepare_regen", "not_grounded"),
        ("generate", "reflect", ""),
        ("reflect", "finalize", "passed"),
    ]
    assert [one["query"] for one in record["passes"]] == ["How long?", "How long? rewritten 1 after 3"]
    assert [len(one["candidates"]) for one in record["passes"]] == [3, 3]
    assert all(candidate["reranked"] is not None for candidate in record["passes"][0]["candidates"])
    assert [len(one["kept"]) for one in record["passes"]] == [0, 3]
    assert [draft["attempt"] for draft in record["drafts"]] == [2, 3]
    said = [(v["gate"], v["result"], v["words"]) for v in record["verdicts"] if v["gate"] == "grounded"]
    assert said == [("grounded", "fail", "not so"), ("grounded", "pass", "now it is")]
    assert record["usage"]["calls"] == {"grade": 6, "rewrite": 1, "answer": 2, "judge_grounded": 2, "judge_answers": 2}
    assert record["usage"]["model_calls"] == 13
    assert record["timings"]["total"] > 0


async def test_the_query_that_left_for_the_web_is_in_the_record_also_where_the_run_was_stopped(
    tmp_path: Path, audit: AuditLog
) -> None:
    world = services(tmp_path, web=ScriptedWeb(WebFindings("", "empty")))
    house = House(world, ScriptedModel(), audit=audit)
    await house.ask("What of Jane Doe?", web_search=True)

    class Stuck(ScriptedWeb):
        async def search(self, ask: WebAsk) -> WebFindings:
            await super().search(ask)
            await asyncio.sleep(60)
            raise AssertionError

    stuck = Stuck()
    house = House(services(tmp_path, web=stuck), ScriptedModel(), audit=audit)
    run = house.runs.start(Request(ThreadRef("alice", "t"), "And of John?", web_search=True))
    await eventually(lambda: bool(stuck.sent))
    run.stop("reader_left")
    await run.ended()
    await house.ask("Off again", web_search=False)
    records = bodies(tmp_path / "audit")
    webs = [record["passes"][0]["web"] for record in records]
    assert (webs[0]["asked"], webs[0]["query"], webs[0]["status"]) == ("What of Jane Doe?", "web words 1", "empty")
    assert (webs[1]["asked"], webs[1]["query"], webs[1]["status"]) == ("And of John?", "web words 1", "unfinished")
    assert webs[2] is None
    assert [record["sent_to_web"] for record in records] == [["web words 1"], ["web words 1"], []]


async def test_every_query_that_left_is_in_the_record_once_for_each_time(tmp_path: Path, audit: AuditLog) -> None:
    house = House(services(tmp_path), ScriptedModel(grading=lambda *_: Grade("fail")), audit=audit)
    await house.ask(web_search=True)
    record = the_record(tmp_path)
    assert record["sent_to_web"] == ["web words 1", "web words 2"]
    assert [one["web"]["query"] for one in record["passes"]] == ["web words 1", "web words 2"]


async def test_the_record_names_the_skill_and_what_it_allowed(tmp_path: Path, audit: AuditLog) -> None:
    scope = Scope(frozenset({"rules"}), frozenset({"official"}), domains=frozenset({"b.test", "a.test"}))
    strict = skill("short", scope, Gates(top_n=2, max_rewrites=0, delivery="verified", on_ungrounded="refuse"))
    house = House(services(tmp_path), ScriptedModel(), audit=audit)
    await house.ask(web_search=True, skill=strict)
    await house.ask(web_search=True, skill=skill("closed", Scope(web=False)))
    await house.ask()
    narrow, closed, plain = bodies(tmp_path / "audit")
    assert narrow["skill"] == {"name": "short", "sha256": strict.sha256}
    assert narrow["filter"] == {
        "sources": ["rules"],
        "kinds": ["official"],
        "web": True,
        "domains": ["a.test", "b.test"],
    }
    assert narrow["caps"] == {"top_n": 2, "max_rewrites": 0, "max_regen": 1, "on_ungrounded": "refuse"}
    assert (narrow["delivery"], narrow["sent_to_web"]) == ("verified", ["web words 1"])
    assert (closed["filter"]["web"], closed["sent_to_web"]) == (False, [])
    assert closed["passes"][0]["web"]["status"] == "forbidden"
    assert plain["skill"] is None
    assert plain["filter"] == {"sources": None, "kinds": None, "web": True, "domains": None}
    assert len({record["thread_key"] for record in (narrow, closed, plain)}) == 3


async def test_a_question_that_was_refused_at_the_door_leaves_no_record(tmp_path: Path, audit: AuditLog) -> None:
    world, model, _ = stalling(tmp_path)
    house = House(world, model, audit=audit, max_runs_per_client=1)
    run = house.runs.start(Request(ThreadRef("alice", "t"), "stall in judging"))
    with pytest.raises(TooManyRuns):
        house.runs.start(Request(ThreadRef("alice", "other"), "One too many?"))
    run.stop()
    await run.ended()
    assert the_record(tmp_path)["run_id"] == run.run_id


async def test_web_strips_are_recorded_with_their_hashes(tmp_path: Path, audit: AuditLog) -> None:
    world = services(tmp_path)
    strip = snapped(passage(90, kind="web"), world.snapshots)
    web = ScriptedWeb(WebFindings("q", "ok", (Candidate(strip, 0.8),)))
    await House(services(tmp_path, web=web), ScriptedModel(), audit=audit).ask(web_search=True)
    [found] = the_record(tmp_path)["passes"][0]["web"]["strips"]
    assert (found["passage_id"], found["sha256"], found["kind"]) == (strip.passage_id, strip.sha256, "web")
    assert [source["kind"] for source in the_record(tmp_path)["sources"]].count("web") == 1


async def test_a_disk_that_cannot_take_a_record_ends_the_run_in_an_error_and_loses_nothing(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)
    house = House(services(tmp_path), ScriptedModel(grounded=lambda _: fill_the_disk()), audit=audit)
    write = os.write

    def fill_the_disk() -> Judgement:
        (tmp_path / "audit" / RESERVE_FILE).unlink()
        monkeypatch.setattr(os, "write", no_room)
        return Judgement("pass", "fine")

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    frames = await house.ask()
    assert (frames[-1]["code"], frames[-1]["retryable"]) == ("audit_unavailable", True)
    with pytest.raises(AuditUnavailable):
        house.runs.start(Request(ThreadRef("alice", "other"), "Why?"))
    assert not house.runs.busy(ThreadRef("alice", "other"))
    monkeypatch.setattr(os, "write", write)
    await eventually(lambda: audit.state().ok)
    record = the_record(tmp_path)
    assert (record["ending"]["code"], record["answer"]) == ("audit_unavailable", cited(frames))


async def test_an_answer_that_could_not_be_recorded_does_not_stand_in_its_thread(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, ref = House(services(tmp_path), ScriptedModel(), audit=audit), ThreadRef("alice", "t1")
    [*_, first] = await house.ask()
    append, refused = audit.append, AuditUnavailable("The answer could not be recorded, so it is not given.")

    async def no_room(*_: object) -> None:
        raise refused

    monkeypatch.setattr(audit, "append", no_room)
    assert (await house.ask("And record 2?"))[-1]["code"] == "audit_unavailable"
    monkeypatch.setattr(audit, "append", append)
    turns = (await house.history.state(ref))["turns"]
    assert [turn["run_id"] for turn in turns] == [first["run_id"]]
    assert (await house.history.summary(ref)).turns == 1


def cited(frames: list[Frame]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "token")


async def test_a_record_says_what_answered(tmp_path: Path, audit: AuditLog) -> None:
    await House(services(tmp_path), ScriptedModel(), audit=audit).ask()
    record = the_record(tmp_path)
    assert record["model"] == "scripted"
    scorers = {"reranker", "reranker_sha256", "scorer", "scorer_sha256"}
    assert set(record["installation"]) == {"version", "embedder", "settings"} | scorers
    assert record["filter"] == {"sources": None, "kinds": None, "web": True, "domains": None}
    assert record["skill"] is None
    assert json.dumps(record)


async def test_records_of_many_runs_at_once_do_not_mix(tmp_path: Path, audit: AuditLog) -> None:
    house = House(services(tmp_path), ScriptedModel(delay_s=0.001), audit=audit)
    asked = [house.ask(f"question {n}", thread=f"t{n}") for n in range(30)]
    ends = [frames[-1] for frames in await asyncio.gather(*asked)]
    records = {record["run_id"]: record for record in bodies(tmp_path / "audit")}
    assert len(records) == 30
    for number, end in enumerate(ends):
        assert records[end["run_id"]]["question"] == f"question {number}"
        assert records[end["run_id"]]["answer"] == end["answer"]


class HungDisk:
    """An audit log whose disk takes nothing from now on, until it is freed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = threading.Event()
        self._fsync = os.fsync
        monkeypatch.setattr("service.audit.log.WRITE_S", 0.2)
        monkeypatch.setattr("service.audit.log.AGAIN_S", 0.01)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        self.free.wait(10)
        self._fsync(descriptor)


async def test_a_record_that_is_slower_than_its_limit_says_what_the_reader_was_told(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(services(tmp_path), ScriptedModel(), audit=audit)
    disk = HungDisk(monkeypatch)
    frames = await house.ask()
    assert frames[-1]["code"] == "audit_unavailable"
    disk.free.set()
    await eventually(lambda: audit.state().ok)
    assert the_record(tmp_path)["ending"] == {
        "outcome": "error",
        "code": "audit_unavailable",
        "message": frames[-1]["message"],
        "stopped_by": "",
    }


@pytest.mark.parametrize("phase", PHASES)
async def test_a_service_that_stops_on_a_hung_disk_tells_an_error_in_time_and_records_the_same(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    world, model, stall = stalling(tmp_path)
    house = House(world, model, audit=audit)
    run = house.runs.start(Request(ThreadRef("alice", "t"), f"stall in {phase}"))
    await eventually(lambda: bool(stall.reached))
    disk = HungDisk(monkeypatch)
    async with asyncio.timeout(5):
        await house.runs.close()
        frames = [house.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
    assert frames[-1]["code"] == "audit_unavailable"
    disk.free.set()
    await eventually(lambda: audit.state().ok)
    assert the_record(tmp_path)["ending"]["code"] == "audit_unavailable"


async def test_a_store_that_hangs_keeps_no_run_from_its_record_when_the_service_stops(
    tmp_path: Path, audit: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.graph.runs.ENDING_S", 0.1)
    world, model, stall = stalling(tmp_path)
    house = House(world, model, audit=audit)
    run = house.runs.start(Request(ThreadRef("alice", "t"), "stall in judging"))
    await eventually(lambda: bool(stall.reached))
    monkeypatch.setattr(house.history, "state", lambda _: asyncio.sleep(60))
    await house.runs.close()
    before = bodies(tmp_path / "audit")
    frames = [house.presenter.frame(told, run.run_id).model_dump(mode="json") async for told in run.events()]
    assert frames[-1]["code"] == "shutting_down"
    assert [record["ending"]["code"] for record in before] == ["shutting_down"]
    assert before[0]["ending"]["stopped_by"] == "shutdown"
