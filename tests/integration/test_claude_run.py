"""A whole run with the Claude adapter, over a real socket to a peer that speaks the Messages API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.graph.run import Request
from service.llm.claude import Claude
from service.llm.fallback import SWITCHED, WithFallback
from service.llm.prompt import Prompt
from service.llm.quote import Quote, Thresholds
from service.model import Delivery
from service.skills.skill import Gates
from service.threads import ThreadRef
from tests.audit.logs import audit_log, bodies
from tests.fakes import FixedReranker, services
from tests.messages_server import (
    Asked,
    Behaviour,
    MessagesServer,
    breaks,
    fails,
    running_messages_server,
    says,
    says_json,
)
from tests.running import House
from tests.skills.writing import skill
from tests.wire import assert_grammar, kinds, of

CANARY = "CANARY-7719"


def honest(asked: Asked) -> Behaviour:
    """Answers every gate with yes, a canary in each judge's words, and writes one cited sentence."""
    properties = (asked.schema or {}).get("properties", {})
    if "relevant" in properties:
        return says_json({"relevant": "yes", "reason": CANARY})
    if "supported" in properties:
        return says_json({"supported": "yes", "problem": CANARY})
    if "answers" in properties:
        return says_json({"answers": "yes", "problem": CANARY})
    return says("The record must be kept for one year [[1]].")


@pytest.fixture(name="messages_server")
async def a_messages_server() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as server:
        yield server


@pytest.fixture
async def claude(messages_server: MessagesServer) -> AsyncIterator[Claude]:
    model = Claude.connect("key", messages_server.url, answer_model="writer", gate_model="gate")
    yield model
    await model.aclose()


async def test_a_run_with_claude_is_answered_and_no_judge_is_heard_on_the_wire(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    """U16."""
    messages_server.respond = honest
    frames = await House(services(tmp_path), claude).ask()
    assert_grammar(frames)
    assert (frames[-1]["status"], frames[-1]["usage"]["model_calls"]) == ("answered", 6 + 1 + 2)
    assert len(messages_server.asked) == 9
    assert CANARY not in str(frames)
    assert frames[-1]["usage"]["input_tokens"] > 0


async def test_the_record_holds_the_hash_of_every_prompt_the_web_querys_and_a_skills_included(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    messages_server.respond = honest
    asked = skill(instructions="Answer in one line.", gates=Gates(grading_hint="Dates matter."))
    async with audit_log(tmp_path / "audit") as audit:
        await House(services(tmp_path), claude, audit=audit).ask(web_search=True, skill=asked)
    [record] = bodies(tmp_path / "audit")
    names = ("web_query", "grade", "answer", "judge_grounded", "judge_answers")
    assert record["prompts"] == {name: Prompt.load(name).sha256 for name in names}
    assert record["usage"]["calls"]["web_query"] == len(record["sent_to_web"]) == 1
    assert record["skill"] == {"name": "short", "sha256": asked.sha256}
    said = [f"{each.system} {each.text}" for each in messages_server.asked]
    assert sum("Dates matter." in text for text in said) == 6
    assert sum("Answer in one line." in text for text in said) == 1


async def test_a_stopped_run_closes_the_model_stream_within_a_second(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    """U14, D03: nothing is billed for whom has left."""

    def slow(asked: Asked) -> Behaviour:
        if asked.schema is not None:
            return honest(asked)
        return says("word " * 600, gap_s=0.1)

    messages_server.respond = slow
    house = House(services(tmp_path), claude)
    run = house.runs.start(Request(ThreadRef("alice", "t1"), "question"))
    stopped = False
    async for told in run.events():
        frame = house.presenter.frame(told, run.run_id)
        if frame.type == "token" and not stopped:
            stopped = True
            run.stop()
    async with asyncio.timeout(1):
        await messages_server.asked[-1].broken.wait()
    assert stopped


async def test_the_fallback_answers_with_quotes_when_the_api_is_down_before_the_first_token(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    messages_server.respond = lambda _: fails(401)
    quote = Quote(FixedReranker(lambda *_: 1.0), Thresholds(0.1, 0.1))
    house = House(services(tmp_path), lambda: WithFallback(claude, quote))
    frames = await house.ask()
    assert frames[-1]["status"] == "answered"
    assert all(citation["status"] == "verified" for citation in frames[-1]["citations"])
    assert any("quote" in warning.lower() for warning in of(frames, "sources")[0]["warnings"])


@pytest.mark.parametrize("delivery", ["draft", "verified"])
async def test_a_writer_that_fails_alone_is_told_before_the_first_token_of_its_spare(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude, delivery: Delivery
) -> None:
    """The gates' model answers, so the switch comes when the sources are out already."""
    messages_server.respond = lambda asked: honest(asked) if asked.schema is not None else fails(401)
    quote = Quote(FixedReranker(lambda *_: 1.0), Thresholds(0.1, 0.1))
    async with audit_log(tmp_path / "audit") as audit:
        house = House(services(tmp_path), lambda: WithFallback(claude, quote), audit=audit)
        frames = await house.ask(delivery=delivery)
    assert_grammar(frames, delivery)
    assert frames[0]["warnings"] == of(frames, "sources")[0]["warnings"] == []
    told = [frames.index(frame) for frame in of(frames, "sources") if SWITCHED in frame["warnings"]]
    assert len(told) == 1
    assert told[0] < kinds(frames).index("token")
    [record] = bodies(tmp_path / "audit")
    assert (record["warnings"], record["model"]) == ([SWITCHED], "claude writer / gate, then quote")


async def test_a_writer_that_fails_at_the_second_draft_is_told_before_the_spares(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    def once(asked: Asked) -> Behaviour:
        drafts = sum(each.schema is None for each in messages_server.asked)
        if asked.schema is None and drafts > 1:
            return fails(401)
        doubts = "supported" in (asked.schema or {}).get("properties", {})
        return says_json({"supported": "no", "problem": "not so"}) if doubts else honest(asked)

    messages_server.respond = once
    quote = Quote(FixedReranker(lambda *_: 1.0), Thresholds(0.1, 0.1))
    frames = await House(services(tmp_path), lambda: WithFallback(claude, quote)).ask()
    assert_grammar(frames)
    [told] = [index for index, frame in enumerate(frames) if SWITCHED in frame.get("warnings", [])]
    names = kinds(frames)
    assert names.index("token") < names.index("reset") < told < names.index("token", names.index("reset"))


async def test_a_run_is_not_told_of_the_fault_that_another_has_met(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    messages_server.respond = lambda asked: honest(asked) if asked.schema is not None else breaks(2)
    house = House(services(tmp_path), claude)
    broken = await house.ask(client="alice")
    assert "broke off" in broken[-1]["message"]
    assert "broke off" in claude.state().warning  # for the operator, at /readyz
    messages_server.respond = honest
    frames = await house.ask(client="bob")
    assert [frame["warnings"] for frame in [frames[0], *of(frames, "sources")]] == [[], []]


async def test_without_a_fallback_a_model_that_is_down_ends_the_run_in_an_error(
    tmp_path: Path, messages_server: MessagesServer, claude: Claude
) -> None:
    messages_server.respond = lambda _: fails(401)
    frames = await House(services(tmp_path), claude).ask()
    assert_grammar(frames)
    assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "model_unavailable")
