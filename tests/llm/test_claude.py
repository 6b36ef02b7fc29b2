"""Claude against a loopback peer on a real socket: streaming, retries, cuts, leaving early, and what is asked."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from service.errors import ModelUnavailable, ModelUnusable
from service.llm.claude import Claude
from service.llm.patience import Patience
from service.llm.pricing import cost_usd
from service.model import ABSTAIN, Grade, Passage, Source
from service.ports import AnswerCut, AnswerModel
from service.usage import Usage
from tests.fakes import turn
from tests.messages_server import (
    SECRET_WORDS,
    Behaviour,
    Exchange,
    MessagesServer,
    breaks,
    fails,
    falls_silent,
    running_messages_server,
    says,
    says_json,
    sends,
)

TEXT = "A firm must reconcile its client money each business day [[1]]. «Prompt» means within 10 days [[2]]."
QUESTION = "How often must client money be reconciled?"


@pytest.fixture
async def server() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as running:
        yield running


class Naps:
    """A clock that does not run: it notes the pauses and returns at once."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
async def claude(server: MessagesServer, naps: Naps) -> AsyncIterator[Claude]:
    model = Claude.connect(
        "key-for-tests",
        server.url,
        answer_model="claude-opus-5-5",
        gate_model="claude-haiku-4-5",
        gap_timeout_s=0.4,
        patience=Patience(sleep=naps.sleep),
    )
    yield model
    await model.aclose()


def passage(text: str = "Client money is reconciled each business day.", title: str = "Client money") -> Passage:
    return Passage(
        passage_id=f"rules/{title}",
        sha256="0" * 64,
        source="rules",
        kind="official",
        title=title,
        address="client-money.html",
        section="4.2.3",
        headings=(title,),
        context=title,
        text=text,
        spans=(),
        fetched_at="2026-01-01T00:00:00Z",
    )


SOURCES = [Source(1, passage(), 0.9), Source(2, passage("Prompt means within 10 days.", "Glossary"), 0.8)]


TURNS = [turn("What is client money?", "Money held for a client [[1]].")]


async def written(claude: Claude, usage: Usage | None = None, feedback: str = "") -> list[str]:
    return [text async for text in claude.answer(QUESTION, SOURCES, feedback, usage or Usage())]


async def written_until(claude: Claude, fault: type[Exception]) -> tuple[str, Exception]:
    """The text that came before `fault`, and the fault."""
    pieces: list[str] = []

    async def read() -> None:
        async for text in claude.answer(QUESTION, SOURCES, "", Usage()):
            pieces.append(text)

    with pytest.raises(fault) as caught:
        await read()
    return "".join(pieces), caught.value


def test_claude_is_an_answer_model(claude: Claude) -> None:
    model: AnswerModel = claude
    assert model.name == "claude claude-opus-5-5 / claude-haiku-4-5"
    state = model.state()
    assert (state.name, state.ok, state.detail, state.warning) == ("model", True, model.name, "")


# Prices


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-opus-5-5", 24.0),
        ("claude-haiku-4-5", 6.0),
        ("claude-haiku-4-5-20251001", 6.0),
        ("claude-sonnet-5-latest", 12.0),
        ("claude-sonnet-5-7", 0.0),
        ("qwen3:8b", 0.0),
        ("", 0.0),
    ],
)
def test_a_model_is_priced_by_its_own_name_only(model: str, dollars: float) -> None:
    assert cost_usd(model, 1_000_000, 1_000_000) == pytest.approx(dollars)


def test_a_long_prompt_is_dearer_where_the_price_list_says_so() -> None:
    assert cost_usd("claude-haiku-5-5", 100_000, 0) == pytest.approx(0.01)
    assert cost_usd("claude-haiku-5-5", 200_000, 0) == pytest.approx(0.1)


# Writing


async def test_an_answer_streams_as_it_is_written(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT))
    pieces = await written(claude)
    assert "".join(pieces) == TEXT
    assert len(pieces) > 5


async def test_the_writer_is_asked_with_key_model_sources_and_no_schema(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT))
    await written(claude)
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer key-for-tests"
    assert asked.body["model"] == "claude-opus-5-5"
    assert asked.schema is None
    assert ABSTAIN in asked.system
    assert "[[1]] [VECTOR]\n<data " in asked.text
    assert ">\nGlossary > 4.2.3\n" in asked.text
    assert QUESTION in asked.text


async def test_the_reviewers_reason_reaches_the_next_draft(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT), says(TEXT))
    await written(claude)
    await written(claude, feedback="Source 2 says ten days, not five.")
    assert "There is no earlier draft." in server.asked[0].text
    assert "Source 2 says ten days, not five." in server.asked[1].text


async def test_the_abstain_mark_passes_through(server: MessagesServer, claude: Claude) -> None:
    server.script(says(ABSTAIN))
    assert "".join(await written(claude)) == ABSTAIN


async def test_tokens_read_from_a_cache_are_counted(server: MessagesServer, claude: Claude) -> None:
    start = (
        '{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":5,'
        '"cache_read_input_tokens":20,"cache_creation_input_tokens":null,"output_tokens":1}}}'
    )
    delta = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}'
    stop = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}'
    server.script(_events(start, delta, stop, '{"type":"message_stop"}'))
    spent = Usage()
    await written(claude, spent)
    assert (spent.input_tokens, spent.output_tokens) == (25, 3)


async def test_an_answer_is_counted_and_priced(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT))
    usage = Usage()
    await written(claude, usage)
    assert (usage.model_calls, dict(usage.calls)) == (1, {"answer": 1})
    assert len(usage.prompts["answer"]) == 64
    assert usage.input_tokens == len(server.asked[0].text.split())
    assert usage.output_tokens > 5
    assert usage.cost_usd == pytest.approx(cost_usd("claude-opus-5-5", usage.input_tokens, usage.output_tokens))
    assert usage.cost_usd > 0


async def test_a_surrogate_pair_parted_over_two_deltas_arrives_whole(server: MessagesServer, claude: Claude) -> None:
    delta = '{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{}"}}}}'
    stop = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}'
    lines = [delta.format(text) for text in ("a\\ud83d", "\\ude00b", "\\udc00", "c")]
    server.script(_events(*lines, stop, '{"type":"message_stop"}'))
    text = "".join(await written(claude))
    assert text == "a\U0001f600b\ufffdc"
    assert text.encode("utf-8")


def _events(*payloads: str) -> Behaviour:
    kinds = (payload.split('"')[3] for payload in payloads)
    return sends("".join(f"event: {k}\ndata: {p}\n\n" for k, p in zip(kinds, payloads, strict=True)).encode())


@pytest.mark.parametrize(
    "stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", "tool_use", "invented"]
)
async def test_a_stop_for_any_reason_but_the_end_is_an_answer_cut_after_its_text(
    server: MessagesServer, claude: Claude, stop_reason: str
) -> None:
    """U15."""
    server.script(says(TEXT, stop_reason))
    text, cut = await written_until(claude, AnswerCut)
    assert text == TEXT
    assert isinstance(cut, AnswerCut)
    assert cut.stop_reason == stop_reason


async def test_a_missing_stop_reason_is_an_answer_cut(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT, None))
    _, cut = await written_until(claude, AnswerCut)
    assert str(cut) == "unknown"


async def test_a_refusal_without_text_is_an_answer_cut(server: MessagesServer, claude: Claude) -> None:
    server.script(says("", "refusal"))
    text, cut = await written_until(claude, AnswerCut)
    assert (text, str(cut)) == ("", "refusal")


@pytest.mark.parametrize("nothing", ["", "  \n "])
async def test_a_complete_text_of_nothing_is_unusable(server: MessagesServer, claude: Claude, nothing: str) -> None:
    server.script(says(nothing))
    await written_until(claude, ModelUnusable)


# Overload inside and outside a stream


async def test_D14a_an_overload_before_the_stream_is_waited_out(
    server: MessagesServer, claude: Claude, naps: Naps
) -> None:
    server.script(fails(529), fails(529), says(TEXT))
    usage = Usage()
    assert "".join(await written(claude, usage)) == TEXT
    assert len(naps.taken) == 2
    assert usage.model_calls == 1
    assert claude.state().warning == ""


async def test_D14b_an_error_event_before_the_first_token_is_waited_out(
    server: MessagesServer, claude: Claude, naps: Naps
) -> None:
    server.script(breaks(0), breaks(0), says(TEXT))
    assert "".join(await written(claude)) == TEXT
    assert len(naps.taken) == 2


async def test_D14c_an_error_event_after_the_first_token_ends_the_answer(
    server: MessagesServer, claude: Claude, naps: Naps
) -> None:
    server.script(breaks(20), says(TEXT))
    text, fault = await written_until(claude, ModelUnavailable)
    assert text == "".join(f"word{n} " for n in range(20))
    assert "broke off" in str(fault)
    assert (len(server.asked), naps.taken) == (1, [])


@pytest.mark.parametrize("how", ["closed socket", "ended body"])
async def test_D14d_a_stream_that_ends_without_message_stop_ends_the_answer(
    server: MessagesServer, claude: Claude, how: str
) -> None:
    server.script(breaks(20, how), says(TEXT))
    text, fault = await written_until(claude, ModelUnavailable)
    assert text == "".join(f"word{n} " for n in range(20))
    assert "broke off" in str(fault)
    assert len(server.asked) == 1


@pytest.mark.parametrize("silence", [falls_silent(), falls_silent(head=False)])
async def test_D14e_a_silence_before_the_first_token_ends_within_the_gap(
    server: MessagesServer, claude: Claude, silence: Behaviour
) -> None:
    server.script(silence, says(TEXT))
    async with asyncio.timeout(5):
        text, _ = await written_until(claude, ModelUnavailable)
    assert (text, len(server.asked)) == ("", 1)


async def test_D14e_a_silence_after_tokens_ends_within_the_gap(server: MessagesServer, claude: Claude) -> None:
    server.script(falls_silent(3), says(TEXT))
    async with asyncio.timeout(5):
        text, fault = await written_until(claude, ModelUnavailable)
    assert text == "word0 word1 word2 "
    assert "broke off" in str(fault)


def pings_for_ever(deltas: int = 0) -> Behaviour:
    """Stream `deltas` pieces, then nothing but pings: no gap between two bytes is ever long."""

    async def behave(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.open_block()
        for number in range(deltas):
            await exchange.delta(f"word{number} ")
        while not exchange.asked.broken.is_set():
            await exchange.event("ping")
            await asyncio.sleep(0.02)

    return behave


@pytest.fixture
async def hurried(server: MessagesServer) -> AsyncIterator[Claude]:
    model = Claude.connect("k", server.url, answer_model="a", gate_model="g", gap_timeout_s=0.4, total_timeout_s=0.5)
    yield model
    await model.aclose()


@pytest.mark.parametrize("deltas", [0, 3])
async def test_an_answer_of_nothing_but_pings_ends_within_the_time_of_a_call(
    server: MessagesServer, hurried: Claude, deltas: int
) -> None:
    server.script(pings_for_ever(deltas))
    async with asyncio.timeout(3):
        with pytest.raises(ModelUnavailable, match="MODEL_TIMEOUT_S"):
            await written(hurried)
        await server.asked[0].broken.wait()
    assert len(server.asked) == 1


async def test_a_judge_of_nothing_but_pings_is_an_error_within_the_time_of_a_call(
    server: MessagesServer, hurried: Claude
) -> None:
    server.script(pings_for_ever(2))
    async with asyncio.timeout(3):
        said = await hurried.judge_answers(QUESTION, TEXT, [], Usage())
        await server.asked[0].broken.wait()
    assert said.result == "error"
    assert said.words.startswith("unavailable")


async def test_the_time_of_a_call_does_not_run_out_in_its_readers_code(server: MessagesServer, hurried: Claude) -> None:
    server.script(falls_silent(3))
    paused = False
    async with aclosing(hurried.answer(QUESTION, SOURCES, "", Usage())) as texts:
        assert await anext(texts)
        await asyncio.sleep(0.7)
        paused = True
    assert paused


async def test_a_slow_stream_shorter_than_the_gap_is_no_silence(server: MessagesServer, claude: Claude) -> None:
    server.script(says("one two three four five", gap_s=0.2))
    assert "".join(await written(claude)) == "one two three four five"


@pytest.mark.parametrize(
    "fault", [fails(429), fails(500), fails(408), breaks(0, "closed socket"), breaks(0, "ended body")]
)
async def test_a_passing_fault_is_tried_again(server: MessagesServer, claude: Claude, fault: Behaviour) -> None:
    server.script(fault, says(TEXT))
    assert "".join(await written(claude)) == TEXT


async def test_three_tries_are_the_most(server: MessagesServer, claude: Claude) -> None:
    server.script(*[fails(529)] * 9)
    usage = Usage()
    with pytest.raises(ModelUnavailable):
        await written(claude, usage)
    assert len(server.asked) == 3
    assert usage.model_calls == 1
    assert "not available" in claude.state().warning


async def test_the_warning_goes_when_the_api_is_back(server: MessagesServer, claude: Claude) -> None:
    server.script(fails(401), says(TEXT))
    with pytest.raises(ModelUnavailable):
        await written(claude)
    assert "ANTHROPIC_API_KEY" in claude.state().warning
    await written(claude)
    assert claude.state().warning == ""


async def test_pauses_grow_and_are_jittered(server: MessagesServer, claude: Claude, naps: Naps) -> None:
    server.script(*[fails(529)] * 30)
    for _ in range(10):
        with pytest.raises(ModelUnavailable):
            await written(claude)
    first, second = naps.taken[::2], naps.taken[1::2]
    assert all(0.25 <= pause <= 0.5 for pause in first)
    assert all(0.5 <= pause <= 1.0 for pause in second)
    assert len(set(first)) > 1


async def test_retry_after_is_honoured(server: MessagesServer, claude: Claude, naps: Naps) -> None:
    server.script(fails(429, retry_after="7"), says(TEXT))
    assert "".join(await written(claude)) == TEXT
    assert naps.taken == [7.0]


async def test_a_retry_after_beyond_the_budget_is_not_waited_for(
    server: MessagesServer, claude: Claude, naps: Naps
) -> None:
    server.script(fails(429, retry_after="60"), says(TEXT))
    with pytest.raises(ModelUnavailable):
        await written(claude)
    assert (naps.taken, len(server.asked)) == ([], 1)


@pytest.mark.parametrize("header", ["soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "nan", "1e9"])
async def test_a_retry_after_that_cannot_be_read_leaves_the_usual_pause(
    server: MessagesServer, claude: Claude, naps: Naps, header: str
) -> None:
    server.script(fails(429, retry_after=header), says(TEXT))
    await written(claude)
    assert 0.25 <= naps.taken[0] <= 0.5


@pytest.mark.parametrize(
    ("status", "named"),
    [(401, "ANTHROPIC_API_KEY"), (403, "ANTHROPIC_API_KEY"), (404, "ANSWER_MODEL"), (400, "refused the request")],
)
async def test_a_fault_that_will_not_mend_is_not_tried_again_and_names_the_setting(
    server: MessagesServer, claude: Claude, status: int, named: str
) -> None:
    server.script(fails(status), says(TEXT))
    _, fault = await written_until(claude, ModelUnavailable)
    assert named in str(fault)
    assert len(server.asked) == 1


async def test_an_error_event_that_will_not_mend_is_not_tried_again(server: MessagesServer, claude: Claude) -> None:
    server.script(breaks(0, kind="invalid_request_error"), says(TEXT))
    await written_until(claude, ModelUnavailable)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        fails(529),
        fails(401),
        fails(404),
        breaks(0),
        breaks(3),
        sends(b"event: message_start\ndata: {not json\n\n"),
        sends(b"event: content_block_delta\ndata: [1]\n\nevent: message_delta\ndata: 7\n\n"),
        sends(b"event: content_block_delta\ndata: \xff\xfe\n\n"),
        sends(b"<html>Sign in to the gateway</html>", "text/html"),
        sends(b""),
    ],
)
async def test_no_text_of_a_fault_leaves_the_module(
    server: MessagesServer, claude: Claude, caplog: pytest.LogCaptureFixture, behaviour: Behaviour
) -> None:
    server.respond = lambda _: behaviour
    with caplog.at_level(logging.WARNING, "service"):
        _, fault = await written_until(claude, ModelUnavailable)
    assert SECRET_WORDS not in str(fault)
    assert fault.__cause__ is None
    warnings = [record for record in caplog.records if record.name.startswith("service")]
    assert warnings
    assert all(QUESTION not in record.getMessage() for record in warnings)


async def test_a_server_that_is_not_there_is_unavailable(naps: Naps) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        model = Claude.connect("k", url, answer_model="a", gate_model="g", patience=Patience(sleep=naps.sleep))
        await written_until(model, ModelUnavailable)
        assert (await model.grade(QUESTION, [passage()], Usage()))[0].words.startswith("unavailable:")
        await model.aclose()
    assert len(naps.taken) == 4


# Leaving early


async def test_closing_the_iterator_closes_the_socket_within_a_second(server: MessagesServer, claude: Claude) -> None:
    server.script(falls_silent(3))
    usage = Usage()
    async with aclosing(claude.answer(QUESTION, SOURCES, "", usage)) as stream:
        assert await anext(stream) == "word0 "
    await asyncio.wait_for(server.asked[0].broken.wait(), 1)
    assert usage.input_tokens > 0


@pytest.mark.parametrize("behaviour", [falls_silent(3), falls_silent(), falls_silent(head=False)])
async def test_cancelling_the_reader_closes_the_socket_within_a_second(
    server: MessagesServer, claude: Claude, behaviour: Behaviour
) -> None:
    server.script(behaviour)
    reading = asyncio.create_task(written(claude))
    await asyncio.wait_for(server.arrived.wait(), 2)
    await asyncio.sleep(0.05)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(server.asked[0].broken.wait(), 1)


async def test_cancelling_a_judge_closes_the_socket_within_a_second(server: MessagesServer, claude: Claude) -> None:
    server.script(falls_silent(1))
    judging = asyncio.create_task(claude.judge_answers(QUESTION, TEXT, [], Usage()))
    await asyncio.wait_for(server.arrived.wait(), 2)
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    await asyncio.wait_for(server.asked[0].broken.wait(), 1)


async def test_calls_share_a_connection(server: MessagesServer, claude: Claude) -> None:
    server.script(says(TEXT), says(TEXT), says_json({"answers": "yes", "problem": ""}))
    await written(claude)
    await written(claude)
    await claude.judge_answers(QUESTION, TEXT, [], Usage())
    assert [asked.connection for asked in server.asked] == [1, 1, 1]


async def test_a_server_that_dawdles_after_the_end_does_not_hold_the_answer(
    server: MessagesServer, claude: Claude
) -> None:
    async def dawdle(exchange: Any) -> None:
        await exchange.begin()
        await exchange.open_block()
        await exchange.delta("All of it.")
        await exchange.event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1})
        await exchange.event("message_stop")
        await exchange.asked.broken.wait()

    server.script(dawdle)
    async with asyncio.timeout(2):
        assert await written(claude) == ["All of it."]


# Condensing and rewriting


async def test_the_first_question_of_a_thread_costs_no_call(server: MessagesServer, claude: Claude) -> None:
    usage = Usage()
    assert await claude.condense([], QUESTION, usage) == QUESTION
    assert (server.asked, usage.model_calls) == ([], 0)


async def test_a_follow_up_is_condensed_by_the_gate_model(server: MessagesServer, claude: Claude) -> None:
    server.script(says('"How often is client money\nreconciled?"'))
    usage = Usage()
    assert await claude.condense(TURNS, "How often?", usage) == "How often is client money reconciled?"
    (asked,) = server.asked
    assert asked.body["model"] == "claude-haiku-4-5"
    assert "What is client money?" in asked.text
    assert dict(usage.calls) == {"condense": 1}


async def test_a_rewrite_is_told_what_was_tried_and_seen(server: MessagesServer, claude: Claude) -> None:
    server.script(says("client money reconciliation frequency business day"))
    usage = Usage()
    query = await claude.rewrite(QUESTION, "money how often", [passage("Seen and rejected.")], usage)
    assert query == "client money reconciliation frequency business day"
    assert "money how often" in server.asked[0].text
    assert "Seen and rejected." in server.asked[0].text
    assert dict(usage.calls) == {"rewrite": 1}


@pytest.mark.parametrize(
    "garbage",
    [says(""), says(" \n\t"), says("x" * 401), says("half a ques", "max_tokens"), says("I cannot help.", "refusal")],
)
async def test_a_useless_condensing_or_rewriting_leaves_the_question(
    server: MessagesServer, claude: Claude, garbage: Behaviour
) -> None:
    server.script(garbage, garbage)
    assert await claude.condense(TURNS, "How often?", Usage()) == "How often?"
    assert await claude.rewrite(QUESTION, "tried", [], Usage()) == QUESTION


async def test_a_web_query_is_made_of_the_question_it_is_given_and_what_was_tried(
    server: MessagesServer, claude: Claude
) -> None:
    server.script(says('"client money reconciliation rule"'), says("client assets daily reconciliation"))
    usage = Usage()
    assert await claude.web_query(QUESTION, "", usage) == "client money reconciliation rule"
    assert await claude.web_query(QUESTION, "client money", usage) == "client assets daily reconciliation"
    assert [asked.body["model"] for asked in server.asked] == ["claude-haiku-4-5"] * 2
    assert "None." in server.asked[0].text
    assert "client money" in server.asked[1].text
    assert dict(usage.calls) == {"web_query": 2}
    assert usage.prompts.keys() == {"web_query"}


@pytest.mark.parametrize(
    "garbage", [says(""), says("x" * 401), says("half a que", "max_tokens"), says("No.", "refusal")]
)
async def test_a_useless_web_query_becomes_the_questions_own_words(
    server: MessagesServer, claude: Claude, garbage: Behaviour
) -> None:
    server.script(garbage)
    assert await claude.web_query("What is the fee for a transfer?", "", Usage()) == "fee transfer"


async def test_condensing_and_rewriting_say_when_the_model_is_down(server: MessagesServer, claude: Claude) -> None:
    server.respond = lambda _: fails(529)
    usage = Usage()
    with pytest.raises(ModelUnavailable):
        await claude.condense(TURNS, QUESTION, usage)
    with pytest.raises(ModelUnavailable):
        await claude.rewrite(QUESTION, "tried", [], usage)
    assert dict(usage.calls) == {"condense": 1, "rewrite": 1}


async def test_an_unknown_gate_model_names_the_gate_setting(server: MessagesServer, claude: Claude) -> None:
    server.script(fails(404))
    with pytest.raises(ModelUnavailable, match="GATE_MODEL"):
        await claude.rewrite(QUESTION, "tried", [], Usage())


# Grading and judging


async def test_a_passage_is_graded_with_a_schema(server: MessagesServer, claude: Claude) -> None:
    server.script(says_json({"relevant": "no", "reason": "Another regime."}))
    usage = Usage()
    assert await claude.grade(QUESTION, [passage()], usage) == [Grade("fail", "Another regime.")]
    (asked,) = server.asked
    assert asked.schema is not None
    assert asked.schema["properties"]["relevant"] == {"type": "string", "enum": ["yes", "no"]}
    assert "[VECTOR] Client money > 4.2.3" in asked.text
    assert dict(usage.calls) == {"grade": 1}


async def test_several_passages_are_graded_with_one_call(server: MessagesServer, claude: Claude) -> None:
    grades = [{"index": 2, "relevant": "yes", "reason": ""}, {"index": 1, "relevant": "no", "reason": "Off."}]
    server.script(says_json({"grades": grades}))
    usage = Usage()
    found = await claude.grade(QUESTION, [passage(), passage(title="Other")], usage)
    assert [grade.result for grade in found] == ["fail", "pass"]
    assert (usage.model_calls, dict(usage.calls), len(server.asked)) == (1, {"grade": 1}, 1)


async def test_no_passages_cost_no_call(server: MessagesServer, claude: Claude) -> None:
    assert await claude.grade(QUESTION, [], Usage()) == []
    assert server.asked == []


@pytest.mark.parametrize(("word", "result"), [("yes", "pass"), ("no", "fail")])
async def test_pass_is_good_in_every_judge(server: MessagesServer, claude: Claude, word: str, result: str) -> None:
    server.script(
        says_json({"supported": word, "problem": "p"}),
        says_json({"answers": word, "problem": "p"}),
        says_json({"relevant": word, "reason": "p"}),
    )
    usage = Usage()
    assert (await claude.judge_grounded(QUESTION, TEXT, SOURCES, usage)).result == result
    assert (await claude.judge_answers(QUESTION, TEXT, [], usage)).result == result
    assert (await claude.grade(QUESTION, [passage()], usage))[0].result == result
    assert dict(usage.calls) == {"judge_grounded": 1, "judge_answers": 1, "grade": 1}


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "model_context_window_exceeded", "pause_turn", None])
async def test_a_verdict_that_was_cut_is_an_error_whatever_it_says(
    server: MessagesServer, claude: Claude, stop_reason: str | None
) -> None:
    verdict = '{"supported": "yes", "answers": "yes", "relevant": "yes"}'
    server.respond = lambda _: says(verdict, stop_reason)
    grounded = await claude.judge_grounded(QUESTION, TEXT, SOURCES, Usage())
    answers = await claude.judge_answers(QUESTION, TEXT, [], Usage())
    (grade,) = await claude.grade(QUESTION, [passage()], Usage())
    assert {grounded.result, answers.result, grade.result} == {"error"}
    assert grade.words == f"cut: {stop_reason or 'unknown'}"
    assert len(server.asked) == 3


async def test_a_gate_that_is_down_is_an_error_and_counted_once(server: MessagesServer, claude: Claude) -> None:
    server.respond = lambda _: fails(529)
    usage = Usage()
    grounded = await claude.judge_grounded(QUESTION, TEXT, SOURCES, usage)
    answers = await claude.judge_answers(QUESTION, TEXT, [], usage)
    grades = await claude.grade(QUESTION, [passage(), passage()], usage)
    assert [grounded.result, answers.result, *(g.result for g in grades)] == ["error"] * 4
    assert all(words.startswith("unavailable:") for words in (grounded.words, answers.words, grades[0].words))
    assert usage.model_calls == 3


async def test_a_gate_whose_stream_broke_midway_is_asked_again(server: MessagesServer, claude: Claude) -> None:
    server.script(breaks(3), says_json({"answers": "yes", "problem": ""}))
    usage = Usage()
    assert (await claude.judge_answers(QUESTION, TEXT, [], usage)).result == "pass"
    assert usage.model_calls == 1


D15 = [
    ("a_cut_object", '{"relevant":"ye', "error"),
    ("a_code_fence", '```json\n{"relevant":"yes"}\n```', "pass"),
    ("prose_around", 'Sure! {"relevant": "no"} hope that helps', "fail"),
    ("a_bare_word", "yes", "error"),
    ("a_boolean", '{"relevant":true}', "error"),
    ("an_empty_object", "{}", "error"),
    ("a_list", "[]", "error"),
    ("nothing", "", "error"),
    ("a_refusal_in_words", "I cannot help", "error"),
    ("two_objects", '{"relevant":"yes"}{"relevant":"no"}', "error"),
    ("blanks", " " * 200_000, "error"),
]


@pytest.mark.parametrize(("text", "result"), [case[1:] for case in D15], ids=[case[0] for case in D15])
async def test_D15_a_graders_text_is_believed_by_rule_and_never_repaired(
    server: MessagesServer, claude: Claude, text: str, result: str
) -> None:
    server.script(sends(_stream_of(text)), says_json({"relevant": "yes", "reason": ""}))
    (grade,) = await claude.grade(QUESTION, [passage()], Usage())
    assert grade.result == result
    assert len(server.asked) == 1


def _stream_of(text: str) -> bytes:
    """A whole answer in one delta, for texts too long to be sent in pieces."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    events = (delta, end, {"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


async def test_gates_run_side_by_side(server: MessagesServer, claude: Claude) -> None:
    server.respond = lambda _: says('{"relevant": "yes", "reason": ""}', gap_s=0.02)
    await asyncio.gather(*(claude.grade(QUESTION, [passage()], Usage()) for _ in range(6)))
    latest_start = max(asked.began for asked in server.asked)
    first_end = min(asked.ended or 0.0 for asked in server.asked)
    assert latest_start < first_end
