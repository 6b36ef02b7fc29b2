"""Claude's six further calls against the loopback peer: what is asked, what is believed, and temperatures."""

import time
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from evals.designs.claude import PARTS, ClaudeForDesigns, connect_claude, load_prompt
from evals.designs.port import DesignModel, Fork
from evals.designs.topics import STALE
from service.llm.patience import Patience
from service.model import Source
from service.settings import load_settings
from service.usage import Usage
from tests.fakes import passage
from tests.messages_server import MessagesServer, fails, running_messages_server, says, says_json

FORK = Fork(STALE, ("store", "web"), doubt="web")


@pytest.fixture
async def server() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as running:
        yield running


@pytest.fixture
async def claude(server: MessagesServer) -> AsyncIterator[ClaudeForDesigns]:
    settings = load_settings().model_copy(update={"ANTHROPIC_BASE_URL": server.url})
    model = connect_claude(settings)
    model._patience = Patience(tries=1)
    yield model
    await model.aclose()


def test_every_prompt_loads_with_exactly_its_placeholders() -> None:
    assert [load_prompt(name).name for name in PARTS] == list(PARTS)


async def test_it_is_a_model_that_every_design_can_run_on(claude: ClaudeForDesigns) -> None:
    model: DesignModel = claude
    assert model.can == {"route", "direct", "bullets"}


async def test_the_router_is_given_the_topics_the_ways_and_the_doubt(
    server: MessagesServer, claude: ClaudeForDesigns
) -> None:
    server.script(says_json({"way": "store"}))
    usage = Usage()
    assert await claude.route("How much?", FORK, usage) == "store"
    (asked,) = server.asked
    assert all(topic.words in asked.text for topic in STALE)
    assert "In doubt: web" in asked.text
    assert usage.calls == {"route": 1}
    assert usage.prompts["route"] == load_prompt("route").sha256


@pytest.mark.parametrize(("said", "expected"), [("yes", "yes"), ("no", "no"), ("Perhaps", "perhaps")])
async def test_the_check_keeps_the_published_polarity(
    server: MessagesServer, claude: ClaudeForDesigns, said: str, expected: str
) -> None:
    server.script(says_json({"hallucinated": said}))
    assert await claude.hallucinated("a", [Source(1, passage(1), 0.5)], Usage()) == expected


async def test_what_cannot_be_had_or_believed_is_no_verdict(server: MessagesServer, claude: ClaudeForDesigns) -> None:
    server.script(fails(400), says("no idea"), fails(400), fails(400), says_json({"score": "high"}))
    assert await claude.hallucinated("a", [], Usage()) == ""
    assert await claude.route("q", FORK, Usage()) == ""
    assert (await claude.grade_set("q", [passage(1)], Usage())).result == "error"
    assert await claude.bullets("q", passage(1), Usage()) == ""
    assert await claude.score("q", passage(1), Usage()) == 0.0


async def test_scores_are_held_within_nought_and_one(server: MessagesServer, claude: ClaudeForDesigns) -> None:
    server.script(says_json({"score": 7}), says_json({"score": 0.4}))
    assert [await claude.score("q", passage(1), Usage()) for _ in range(2)] == [1.0, 0.4]


async def test_bullets_and_direct_answers_are_text(server: MessagesServer, claude: ClaudeForDesigns) -> None:
    server.script(says("- one"), says("Hello."), says_json({"relevant": "yes"}))
    assert await claude.bullets("q", passage(1), Usage()) == "- one"
    assert await claude.direct("q", Usage()) == "Hello."
    assert (await claude.grade_set("q", [passage(1), passage(2)], Usage())).result == "pass"


async def test_a_temperature_is_sent_to_a_server_of_ones_own_and_only_where_a_node_has_one(
    server: MessagesServer, claude: ClaudeForDesigns
) -> None:
    server.script(says("- one"), says("- one"))
    await claude.at(0.7).bullets("q", passage(1), Usage())
    await claude.bullets("q", passage(1), Usage())
    assert [asked.body.get("temperature") for asked in server.asked] == [0.7, None]


async def test_a_call_at_a_temperature_is_timed_as_any_other(server: MessagesServer, claude: ClaudeForDesigns) -> None:
    server.script(says("- one"), says("- one"))
    usage, began = Usage(), time.time()
    await claude.at(0.7).bullets("q", passage(1), usage)
    await claude.bullets("q", passage(1), usage)
    assert all(began <= call.began_at <= time.time() for call in usage.requests)
    assert all(0 < call.ms <= (time.time() - began) * 1000 for call in usage.requests)
    assert len(usage.requests) == 2


async def test_each_call_is_sent_the_model_and_the_limit_of_its_kind(server: MessagesServer) -> None:
    chosen = {"ANTHROPIC_BASE_URL": server.url, "ANSWER_MODEL": "large", "GATE_MODEL": "small"}
    model = connect_claude(load_settings().model_copy(update={**chosen, "ANSWER_MAX_TOKENS": 9_000}))
    server.script(says("Hello."), says("- one"))
    await model.direct("q", Usage())
    await model.bullets("q", passage(1), Usage())
    await model.aclose()
    sent = [(asked.body["model"], asked.body["max_tokens"]) for asked in server.asked]
    assert sent == [("large", 9_000), ("small", 4_000)]


@pytest.mark.parametrize("url", ["", "https://api.anthropic.com"])
async def test_anthropics_own_models_are_sent_none(url: str) -> None:
    chosen = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": SecretStr("k")}
    claude = connect_claude(load_settings().model_copy(update=chosen))
    assert claude.at(0.7) is claude
    await claude.aclose()
