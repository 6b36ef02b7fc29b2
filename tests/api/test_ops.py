"""Alive, ready, the skills, and the published schema."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from service.api.ages import Ages
from service.errors import KnowledgeBaseError
from service.model import ComponentState
from tests.fakes import FixedKnowledge, FixedReranker, ScriptedModel, services
from tests.running import House
from tests.served import serving

EVENTS = {"run", "stage", "sources", "token", "reset", "verdict", "done", "error"}


async def test_readyz_names_each_dependency(tmp_path: Path) -> None:
    knowledge, down = FixedKnowledge(), ComponentState("model", True, "quotes only", warning="no key is set")

    async def readiness() -> list[ComponentState]:
        return [await knowledge.state(), FixedReranker().state(), down]

    home = House(services(tmp_path, knowledge=knowledge), ScriptedModel())
    async with serving(home, readiness=readiness) as served:
        ready = await served.client.get("/readyz")
        knowledge.failing = KnowledgeBaseError("away")
        away = await served.client.get("/readyz")
        alive = await served.client.get("/healthz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert [item["name"] for item in ready.json()["dependencies"]] == ["knowledge", "reranker", "model"]
    assert [item["warning"] for item in ready.json()["dependencies"]] == ["", "", "no key is set"]
    assert (away.status_code, away.json()["ready"]) == (503, False)
    assert [item["ok"] for item in away.json()["dependencies"]] == [False, True, True]
    assert [item["state"] for item in ready.json()["dependencies"]] == ["ok", "ok", "warning"]
    assert [item["state"] for item in away.json()["dependencies"]] == ["away", "ok", "warning"]
    assert (alive.status_code, alive.json()["status"]) == (200, "alive")


async def test_threads_that_cannot_be_read_are_one_line_of_the_log_for_each_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = House(services(tmp_path), ScriptedModel())

    async def broken(_: str) -> bool:
        raise OSError(5, "Input/output\nerror")

    monkeypatch.setattr(home.history.locks, "taken", broken)
    assert not (await home.history.readiness()).ok
    [line] = caplog.records
    assert line.getMessage() == "threads cannot be read: OSError [Errno 5] Input/output error"
    assert line.exc_info is None


async def test_readyz_says_for_how_long_each_dependency_has_been_as_it_is(tmp_path: Path) -> None:
    knowledge = FixedKnowledge()

    async def readiness() -> list[ComponentState]:
        return [await knowledge.state(), FixedReranker().state()]

    async def ages() -> list[float]:
        answer = await served.client.get("/readyz")
        return [item["for_s"] for item in answer.json()["dependencies"]]

    async with serving(House(services(tmp_path, knowledge=knowledge), ScriptedModel()), readiness=readiness) as served:
        assert await ages() == [0, 0]
        await asyncio.sleep(0.3)
        before = await ages()
        knowledge.failing = KnowledgeBaseError("away")
        changed = await ages()
    assert min(before) >= 0.3
    assert changed[0] == 0
    assert changed[1] >= 0.3


def test_an_age_begins_anew_only_where_the_condition_changes() -> None:
    now = 0.0
    ages = Ages(lambda: now)
    ok, warned = ComponentState("limiter", True, "1 so far"), ComponentState("limiter", True, "2", warning="away (1)")
    assert ages.seen(ok) == 0
    now = 10.0
    assert ages.seen(ComponentState("limiter", True, "2 so far")) == 10
    assert ages.seen(warned) == 0
    now = 15.0
    assert ages.seen(ComponentState("limiter", True, "3", warning="away (2)")) == 5
    assert ages.seen(ComponentState("limiter", False, "3")) == 0
    assert ages.seen(ComponentState("reranker", True, "")) == 0


async def test_a_knowledge_base_that_is_away_is_a_clean_error_and_comes_back(tmp_path: Path) -> None:
    knowledge = FixedKnowledge(failing=KnowledgeBaseError("The knowledge base does not answer."))
    async with serving(House(services(tmp_path, knowledge=knowledge), ScriptedModel())) as served:
        frames = await served.frames(thread_id="t")
        as_json = await served.answer(thread_id="t")
        assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "knowledge_base_unavailable")
        assert as_json.status_code == 503
        assert as_json.json()["error"] == {
            "code": "knowledge_base_unavailable",
            "message": "The knowledge base does not answer.",
            "retryable": True,
        }
        knowledge.failing = None
        assert (await served.answer(thread_id="t")).json()["status"] == "answered"


async def test_where_no_skill_is_installed_the_list_is_empty(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        assert (await served.client.get("/skills")).json() == {"skills": [], "web_search": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    async with serving(House(services(tmp_path_factory.mktemp("house")), ScriptedModel())) as served:
        found: dict[str, Any] = (await served.client.get("/openapi.json")).json()
    return found


def references(node: object) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    named = set(node.get("discriminator", {}).get("mapping", {}).values())
    return own | named | set().union(*map(references, node.values()))


def test_every_reference_of_the_published_schema_resolves(schema: dict[str, Any]) -> None:
    assert schema["openapi"].startswith("3.")
    names = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    assert references(schema)
    assert references(schema) <= names


def test_the_published_schema_holds_every_event(schema: dict[str, Any]) -> None:
    schemas = schema["components"]["schemas"]
    mapping = schemas["WireFrame"]["discriminator"]["mapping"]
    assert mapping.keys() == EVENTS
    assert {option["$ref"] for option in schemas["WireFrame"]["oneOf"]} == set(mapping.values())
    for kind, reference in mapping.items():
        properties = schemas[reference.rpartition("/")[2]]["properties"]
        assert properties["type"]["const"] == kind
        assert {"v", "run_id", "seq", "attempt"} <= properties.keys()


def test_the_published_schema_tells_how_to_ask(schema: dict[str, Any]) -> None:
    operation = schema["paths"]["/chat"]["post"]
    assert operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/ChatRequest")
    assert operation["responses"]["200"]["content"].keys() == {"text/event-stream", "application/json"}
    asked = schema["components"]["schemas"]["ChatRequest"]
    assert (asked["required"], asked["additionalProperties"]) == (["question"], False)
    assert asked["properties"].keys() == {"question", "thread_id", "web_search", "skill", "delivery"}
    assert {name: asked["properties"]["question"][name] for name in ("minLength", "maxLength")} == {
        "minLength": 1,
        "maxLength": 8000,
    }
    assert asked["properties"]["thread_id"]["pattern"] == "^[A-Za-z0-9_-]{1,64}$"


def test_every_documented_error_has_the_one_shape(schema: dict[str, Any]) -> None:
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status.startswith("4"):
                    assert response["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody"), path
    assert "HTTPValidationError" not in schema["components"]["schemas"]


def test_every_route_of_the_product_is_published(schema: dict[str, Any]) -> None:
    assert {(path, method) for path, operations in schema["paths"].items() for method in operations} == {
        ("/chat", "post"),
        ("/threads", "get"),
        ("/threads/{thread_id}", "get"),
        ("/threads/{thread_id}/export", "get"),
        ("/threads/{thread_id}", "patch"),
        ("/threads/{thread_id}", "delete"),
        ("/threads/{thread_id}/export", "get"),
        ("/runs/{run_id}", "delete"),
        ("/runs/{run_id}", "get"),
        ("/runs/{run_id}/feedback", "post"),
        ("/sources/{passage_id}", "get"),
        ("/session", "get"),
        ("/session", "post"),
        ("/session", "delete"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/skills", "get"),
    }


async def test_the_page_is_served(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        page = await served.client.get("/")
        script = await served.client.get("/ui/chat.js")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (script.status_code, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
