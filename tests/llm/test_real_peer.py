"""Claude against a real server of the Messages API that is not Anthropic's: run it with any small model you have.

    GATEHOUSE_REAL_PEER=http://127.0.0.1:8080 pytest tests/llm/test_real_peer.py

`GATEHOUSE_REAL_PEER_MODEL` names the model where the server wants a name. Nothing is asserted about how clever the
model is: a tiny one writes nonsense, and every bit of nonsense must come out as something the ports allow.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

import pytest

from service.llm.claude import Claude
from service.ports import AnswerCut
from service.usage import Usage
from tests.llm.test_claude import QUESTION, SOURCES, TURNS, passage

BASE_URL = os.environ.get("GATEHOUSE_REAL_PEER", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not BASE_URL,
        reason="GATEHOUSE_REAL_PEER is not set: start a server of the Messages API (llama.cpp, Ollama, vLLM) on "
        "loopback and give its base URL",
    ),
]


@pytest.fixture
async def claude() -> AsyncIterator[Claude]:
    name = os.environ.get("GATEHOUSE_REAL_PEER_MODEL", "local")
    model = Claude.connect(
        "", BASE_URL, answer_model=name, gate_model=name, max_tokens=60, gate_max_tokens=60, gap_timeout_s=120
    )
    yield model
    await model.aclose()


async def test_an_answer_streams_in_pieces_and_is_counted(claude: Claude) -> None:
    usage, pieces = Usage(), []
    with suppress(AnswerCut):  # a tiny model may end by itself or run into the limit
        async for text in claude.answer(QUESTION, SOURCES, "", usage):
            pieces.append(text)
    assert len(pieces) > 1
    assert usage.model_calls == 1
    assert usage.input_tokens > 100
    assert 0 < usage.output_tokens <= 60


async def test_grades_and_judges_never_raise(claude: Claude) -> None:
    usage = Usage()
    grades = await claude.grade(QUESTION, [passage(), passage(title="Other")], usage)
    grounded = await claude.judge_grounded(QUESTION, "Each business day [[1]].", SOURCES, usage)
    answers = await claude.judge_answers(QUESTION, "Each business day [[1]].", [], usage)
    assert {grounded.result, answers.result, *(grade.result for grade in grades)} <= {"pass", "fail", "error"}
    words = [grounded.words, answers.words, *(grade.words for grade in grades)]
    assert not any(one.startswith("unavailable:") for one in words)
    assert usage.model_calls == 3


async def test_a_follow_up_comes_back_as_one_bounded_line(claude: Claude) -> None:
    line = await claude.condense(TURNS, "How often?", Usage())
    assert line
    assert "\n" not in line
    assert len(line) <= 400


async def test_leaving_early_frees_the_server_for_the_next_question(claude: Claude) -> None:
    async with aclosing(claude.answer(QUESTION, SOURCES, "", Usage())) as stream:
        await anext(stream)
    async with asyncio.timeout(60), aclosing(claude.answer(QUESTION, SOURCES, "", Usage())) as stream:
        assert await anext(stream)
