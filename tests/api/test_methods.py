"""HEAD wherever GET is, with its head and without its content; and what a refused method is told."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from starlette.types import Message, Receive, Scope, Send

from service.api.methods import HeadAsGet
from tests.api.guarded import ALICE, BOB, KEYS, access, bearer
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import QUESTION, Served, serving

OWN_EACH_TIME = {"date", "x-request-id"}
PAGES = ["/", "/ui/chat.js", "/site/", "/site/page.html", "/healthz", "/readyz", "/metrics", "/openapi.json"]
PAGES += ["/session", "/skills", "/threads", "/threads?q=record", "/threads/t1", "/threads/t1/export"]
REFUSED = [
    "/threads/nobodys",
    "/threads/nobodys/export",
    "/runs/r_unknown",
    "/sources/unknown",
    "/nowhere",
    "/ui/none.js",
]
REFUSED += ["/threads?q=" + "x" * 201, "/chat", "/ui/"]
MANY = "<p>" + "long " * 50_000 + "</p>"  # more than the server reads of a file at a time


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """Alice has asked one question, in a house that serves a site."""
    folder = tmp_path_factory.mktemp("house")
    site = folder / "site"
    site.mkdir()
    for name in ("index.html", "page.html"):
        (site / name).write_text(MANY, encoding="utf-8")
    home = House(services(folder), ScriptedModel())
    async with serving(home, access=access(folder, *KEYS), site=site) as opened:
        headers = {**bearer(ALICE), "Accept": "application/json"}
        asked = {"question": QUESTION, "thread_id": "t1"}
        assert (await opened.client.post("/chat", json=asked, headers=headers)).status_code == 200
        yield opened


async def never_asked() -> Message:
    raise AssertionError("nothing is read here")


async def asked(served: Served, method: str, path: str, **headers: str) -> httpx.Response:
    return await served.client.request(method, path, headers=headers)


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in OWN_EACH_TIME}


async def head_is_as_get(served: Served, path: str, **headers: str) -> httpx.Response:
    """Ask both, and return the answer to GET."""
    whole = await asked(served, "GET", path, **headers)
    head = await asked(served, "HEAD", path, **headers)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert kept(head.headers) == kept(whole.headers)
    return whole


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", [path for path in PAGES if path != "/metrics"])
async def test_head_is_answered_as_get_is_without_the_content(served: Served, path: str) -> None:
    whole = await head_is_as_get(served, path, **bearer(ALICE))
    assert whole.status_code == 200
    assert int(whole.headers["content-length"]) == len(whole.content) > 0


@pytest.mark.asyncio(loop_scope="module")
async def test_head_of_the_metrics_is_of_the_numbers_of_that_moment(served: Served) -> None:
    head = await asked(served, "HEAD", "/metrics")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/plain; version=")
    assert int(head.headers["content-length"]) > 0


@pytest.mark.asyncio(loop_scope="module")
async def test_head_of_a_run_and_of_a_source_in_both_its_forms(served: Served) -> None:
    thread = (await asked(served, "GET", "/threads/t1", **bearer(ALICE))).json()
    source = thread["sources"][0]
    path = f"/sources/{source['passage_id']}?v={source['sha256']}"
    for accept in ("text/html", "application/json"):
        whole = await head_is_as_get(served, path, Accept=accept, **bearer(ALICE))
        assert (whole.status_code, whole.headers["content-type"].split(";")[0]) == (200, accept)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", REFUSED)
async def test_what_get_is_refused_head_is_refused_in_the_same_way(served: Served, path: str) -> None:
    assert (await head_is_as_get(served, path, **bearer(ALICE))).status_code >= 400


@pytest.mark.asyncio(loop_scope="module")
async def test_head_shows_nobody_what_get_would_not(served: Served) -> None:
    for path in ("/threads", "/threads/t1", "/threads/t1/export", "/skills", "/sources/p1", "/runs/r_1"):
        assert (await head_is_as_get(served, path)).status_code == 401
        assert (await head_is_as_get(served, path, Accept="text/html")).headers["content-type"].startswith("text/html")
        assert (await head_is_as_get(served, path, Host="evil.test", **bearer(ALICE))).status_code == 400
    for path in ("/threads/t1", "/threads/t1/export"):
        foreign = await head_is_as_get(served, path, **bearer(BOB))
        unknown = await head_is_as_get(served, path.replace("t1", "nobodys"), **bearer(BOB))
        assert foreign.status_code == 404
        assert kept(foreign.headers) == kept(unknown.headers)


@pytest.mark.asyncio(loop_scope="module")
async def test_no_byte_of_the_content_is_sent_and_the_connection_goes_on(served: Served) -> None:
    connection = await served.connect()
    for path, status in (("/site/page.html", 200), ("/nowhere", 401), ("/healthz", 200), ("/ui/chat.js", 200)):
        await connection.send("HEAD", path)
        await connection.read_head()
        assert (connection.status, connection._buffer) == (status, b"")
        assert int(connection.headers["content-length"]) > 0
    await connection.send("GET", "/site/page.html")
    await connection.read_head()
    assert await connection.read_body() == MANY.encode()
    connection.close()


async def test_the_content_is_left_out_here_and_not_by_the_server() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - as ASGI has it
        scope["route"] = "found"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": scope["method"][:2].encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"xx"})

    async def answer_to(scope: Scope) -> list[Message]:
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        await HeadAsGet(app)(scope, never_asked, keep)
        return sent

    head: Scope = {"type": "http", "method": "HEAD", "path": "/", "headers": [(b"range", b"bytes=0-1"), (b"a", b"1")]}
    given = dict(head)
    start, *rest = await answer_to(head)
    assert start["headers"] == [(b"content-length", b"4")]
    assert [(message["body"], message.get("more_body", False)) for message in rest] == [(b"", True), (b"", False)]
    assert head == {**given, "state": {}, "route": "found"}
    _, *whole = await answer_to({**given, "method": "GET"})
    assert b"".join(message["body"] for message in whole) == b"GExx"


@pytest.mark.asyncio(loop_scope="module")
async def test_head_is_of_the_whole_whatever_range_is_asked_for(served: Served) -> None:
    part = await asked(served, "GET", "/ui/chat.js", Range="bytes=0-9")
    head = await asked(served, "HEAD", "/ui/chat.js", Range="bytes=0-9")
    whole = await asked(served, "GET", "/ui/chat.js")
    assert (part.status_code, len(part.content)) == (206, 10)
    assert (head.status_code, kept(head.headers)) == (200, kept(whole.headers))


@pytest.mark.asyncio(loop_scope="module")
async def test_head_of_what_the_reader_has_already_is_304_as_get_is(served: Served) -> None:
    etag = (await asked(served, "GET", "/ui/chat.js")).headers["etag"]
    assert (await head_is_as_get(served, "/ui/chat.js", **{"If-None-Match": etag})).status_code == 304


async def test_head_of_a_page_that_breaks_is_an_error_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "service.api.requests")
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        served.house.history.threads = None  # type: ignore[method-assign, assignment]
        answer = await head_is_as_get(served, "/threads")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    lines = [(record.fields["method"], record.fields["route"]) for record in caplog.records if record.msg == "request"]  # type: ignore[attr-defined]
    assert lines == [("GET", "/threads"), ("HEAD", "/threads")]


async def test_a_head_starts_no_answer_and_counts_as_no_question(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with serving(House(services(tmp_path), model)) as served:
        answers = await asyncio.gather(*(served.client.head("/chat") for _ in range(5)))
    assert {(answer.status_code, answer.headers["allow"]) for answer in answers} == {(405, "POST")}
    assert "ratelimit-limit" not in answers[0].headers
    assert model.calls == []


# What a refused method is told


@pytest.mark.asyncio(loop_scope="module")
async def test_a_405_names_every_method_that_the_published_schema_has_for_the_path(served: Served) -> None:
    schema = (await asked(served, "GET", "/openapi.json")).json()
    assert len(schema["paths"]) > 10
    for path, operations in schema["paths"].items():
        published = {method.upper() for method in operations}
        expected = sorted(published | ({"HEAD"} if "GET" in published else set()))
        for method in ("OPTIONS", "TRACE", "MARMALADE", *({"PUT", "POST", "DELETE", "PATCH"} - published)):
            answer = await asked(
                served, method, path.format(thread_id="t1", run_id="r", passage_id="p"), **bearer(ALICE)
            )
            assert (answer.status_code, answer.headers["allow"]) == (405, ", ".join(expected)), (method, path)
            assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/", "/openapi.json", "/ui/chat.js", "/ui/chat", "/ui/threads/t1", "/site/page.html"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
async def test_a_page_a_file_and_the_schema_can_be_read_and_nothing_else(
    served: Served, method: str, path: str
) -> None:
    """Also a file whose name is that of a route, `/ui/chat`."""
    answer = await asked(served, method, path, **bearer(ALICE))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.asyncio(loop_scope="module")
async def test_no_other_site_learns_from_options_that_it_may_ask(served: Served) -> None:
    preflight = {"Origin": "https://evil.test", "Access-Control-Request-Method": "POST"}
    for path, headers, status in (("/chat", {}, 401), ("/chat", bearer(ALICE), 405), ("/session", {}, 405)):
        answer = await asked(served, "OPTIONS", path, **preflight, **headers)
        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("access-control")]
