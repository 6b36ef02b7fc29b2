"""Skills on the wire: chosen by field or by slash, listed, and each on a thread of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from service.model import Scope
from service.skills.registry import Broken, Skills
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import Served, serving
from tests.skills.writing import skill

CHOSEN = Skills(
    [
        skill("clocks", Scope(frozenset({"rules"}), frozenset({"official"}), True, frozenset({"example.org"}))),
        skill("short", Scope(web=False, domains=frozenset())),
    ],
    [Broken("broken", "SKILL.md: is missing")],
)


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(House(services(tmp_path), ScriptedModel()), skills=CHOSEN) as one:
        yield one


async def test_the_list_says_what_each_skill_may_read(served: Served) -> None:
    assert (await served.client.get("/skills")).json() == {
        "skills": [
            {
                "name": "clocks",
                "description": "For tests.",
                "sources": ["rules"],
                "kinds": ["official"],
                "web": {"allowed": True, "domains": ["example.org"]},
                "sha256": "f" * 64,
            },
            {
                "name": "short",
                "description": "For tests.",
                "sources": "all",
                "kinds": "all",
                "web": {"allowed": False, "domains": []},
                "sha256": "f" * 64,
            },
        ],
        "web_search": True,
    }


async def test_the_field_and_the_slash_choose_the_same_skill_and_the_same_thread(served: Served) -> None:
    first = await served.frames("How long?", skill="short", thread_id="t")
    second = await served.frames("/short How long?", thread_id="t")
    assert [frames[0]["skill"]["name"] for frames in (first, second)] == ["short", "short"]
    items = (await served.client.get("/threads/t?skill=short")).json()["items"]
    assert [item["question"] for item in items] == ["How long?", "How long?"]


@pytest.mark.parametrize(
    "body",
    [{"skill": "broken"}, {"skill": "nobody"}, {"skill": "../short"}, {"question": "/nobody how?"}],
)
async def test_an_unknown_skill_is_422_and_lists_the_valid_ones(served: Served, body: dict[str, str]) -> None:
    answer = await served.client.post("/chat", json={"question": "How?", **body})
    assert answer.status_code == 422
    assert answer.json()["error"] == {
        "code": "unknown_skill",
        "message": "There is no such skill. There are: clocks, short.",
        "retryable": False,
    }


async def test_nothing_is_asked_and_two_skills_are_422_before_any_event(served: Served) -> None:
    for body in ({"question": "/short"}, {"question": "/short why?", "skill": "clocks"}):
        answer = await served.client.post("/chat", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


async def test_a_skills_thread_is_read_renamed_and_erased_by_itself(served: Served) -> None:
    for one in (None, "short", "clocks"):
        await served.frames("How long?", thread_id="t", skill=one)
    assert (await served.client.patch("/threads/t?skill=short", json={"title": "Mine"})).status_code == 200
    titles = {name: (await served.client.get(f"/threads/t?skill={name}")).json()["title"] for name in ("", "short")}
    assert titles == {"": "How long?", "short": "Mine"}
    assert (await served.client.delete("/threads/t?skill=short")).status_code == 200
    statuses = [(await served.client.get(f"/threads/t?skill={name}")).status_code for name in ("short", "", "clocks")]
    assert statuses == [404, 200, 200]
    listed = (await served.client.get("/threads")).json()["threads"]
    assert {(item["thread_id"], item["skill"]) for item in listed} == {("t", ""), ("t", "clocks")}


async def test_a_thread_of_an_unknown_skill_is_as_unknown_as_any(served: Served) -> None:
    await served.frames("How long?", thread_id="t")
    unknown = await served.client.get("/threads/t?skill=../short")
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (404, "There is no such thread.")


async def test_the_web_that_a_skill_forbids_is_forbidden_on_the_wire(served: Served) -> None:
    frames = await served.frames("How long?", skill="short", web_search=True)
    webs = [frame["web"]["status"] for frame in frames if frame["type"] == "sources"]
    assert webs == ["forbidden"]
