"""What a client may get wrong, and the documented error for each: one JSON shape, no 500, no stream begun."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes import FixedKnowledge, ScriptedModel, services
from tests.running import House
from tests.served import Connection, Served, serving
from tests.wire import Frame

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}
MAX_BYTES = 65_536


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def knowledge() -> FixedKnowledge:
    return FixedKnowledge()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, knowledge: FixedKnowledge) -> AsyncIterator[Served]:
    home = House(services(tmp_path_factory.mktemp("house"), knowledge=knowledge), ScriptedModel())
    async with serving(home, max_body_bytes=MAX_BYTES, body_timeout_s=0.4) as open_house:
        yield open_house


def asked(**fields: Any) -> bytes:
    return json.dumps({"question": "ok", **fields}).encode()


def problem_of(status: int, body: bytes) -> Frame:
    """The error object, which has exactly the documented fields and says nothing of our insides."""
    answer = json.loads(body)
    assert answer.keys() == {"error"}, body
    error: Frame = answer["error"]
    assert {name: type(value) for name, value in error.items()} == {"code": str, "message": str, "retryable": bool}
    assert 400 <= status < 500
    assert 0 < len(error["message"]) < 2000
    assert not any(word in error["message"] for word in ("Traceback", "pydantic", "site-packages", "Exception"))
    return error


BODIES: dict[str, bytes] = {
    "empty": b"",
    "cut": b"{",
    "null": b"null",
    "list": b"[]",
    "string": b'"question"',
    "number": b"5",
    "no question": b"{}",
    "question null": asked(question=None),
    "question number": asked(question=1),
    "question list": asked(question=["ok"]),
    "question empty": asked(question=""),
    "question blank": asked(question=" \t\r\n "),
    "question no-break spaces": asked(question="\u00a0\u2003\u3000"),
    "question zero width": asked(question="\u200b\u200d\ufeff\u2060"),
    "question punctuation": asked(question="?!"),
    "question with NUL": asked(question="ok\x00ok"),
    "question of 8001": asked(question="a" * 8001),
    "lone surrogate": b'{"question":"ok \\ud83d"}',
    "lone surrogate in a name": b'{"question":"ok","\\udc00":1}',
    "control character": b'{"question":"o\nk"}',
    "not UTF-8": b'{"question":"ok\xff"}',
    "UTF-16": '{"question":"ok"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"question":"ok"}'.encode("utf-16-le"),
    "UTF-32": '{"question":"ok"}'.encode("utf-32"),
    "byte order mark": b'\xef\xbb\xbf{"question":"ok"}',
    "two values": b'{"question":"ok"}{"question":"ok"}',
    "trailing comma": b'{"question":"ok",}',
    "single quotes": b"{'question':'ok'}",
    "comment": b'{"question":"ok"/**/}',
    "deep list": b"[" * 60_000,
    "deep object": b'{"a":' * 12_000,
    "deep question": b'{"question":' + b"[" * 50_000 + b"]" * 10_000,
    "5000 digits": b'{"question":' + b"7" * 5000 + b"}",
    "5000 digits in an unknown field": b'{"question":"ok","x":' + b"7" * 5000 + b"}",
    "NaN": b'{"question":NaN}',
    "NaN toggle": b'{"question":"ok","web_search":NaN}',
    "Infinity": b'{"question":"ok","web_search":-Infinity}',
    "toggle text": asked(web_search="true"),
    "toggle text false": asked(web_search="false"),
    "toggle 1": asked(web_search=1),
    "toggle 0": asked(web_search=0),
    "toggle 1.0": asked(web_search=1.0),
    "toggle null": asked(web_search=None),
    "toggle list": asked(web_search=[True]),
    "toggle object": asked(web_search={"on": True}),
    "unknown field": asked(temperature=1),
    "unknown case": asked(Web_Search=True),
    "prototype": asked(__proto__={"web_search": True}),
    "delivery unknown": asked(delivery="fast"),
    "delivery null": asked(delivery=None),
    "skill number": asked(skill=3),
    "skill of 65": asked(skill="s" * 65),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_bad_body_is_422_and_starts_nothing(served: Served, knowledge: FixedKnowledge, body: bytes) -> None:
    before = len(knowledge.queries)
    answer = await served.client.post("/chat", content=body, headers=JSON)
    error = problem_of(answer.status_code, answer.content)
    assert (answer.status_code, error["code"], error["retryable"]) == (422, "invalid_request", False)
    assert len(knowledge.queries) == before


BAD_THREADS = [
    "",
    "x" * 65,
    "../up",
    "a/b",
    "t:1",
    "t 1",
    "t\n1",
    "t\n",
    "t\x00",
    "*",
    "?",
    "[a-z]",
    "{t}",
    "%2e%2e",
    "\U0001f642",
    "\uff41",
    "\u0660",
    None,
    True,
    5,
    ["t"],
    {"t": 1},
]


@pytest.mark.parametrize("thread_id", BAD_THREADS)
async def test_a_bad_thread_id_is_422_and_named(served: Served, thread_id: object) -> None:
    answer = await served.client.post("/chat", content=asked(thread_id=thread_id), headers=JSON)
    error = problem_of(answer.status_code, answer.content)
    assert (answer.status_code, error["code"]) == (422, "invalid_request")
    assert "thread_id" in error["message"]


@pytest.mark.parametrize("thread_id", ["t", "T-1_x", "0", "x" * 64])
async def test_a_good_thread_id_is_kept(served: Served, thread_id: str) -> None:
    assert (await served.frames(thread_id=thread_id))[0]["thread_id"] == thread_id


async def test_a_question_of_8000_characters_is_answered(served: Served) -> None:
    assert (await served.answer("é" * 8000)).json()["status"] == "answered"


TWICE: dict[str, tuple[str, str, bytes]] = {
    "question": ("POST", "/chat", b'{"question":"one","question":"two"}'),
    "the same again": ("POST", "/chat", b'{"question":"one","question":"one"}'),
    "in other letters": ("POST", "/chat", b'{"question":"one","que\\u0073tion":"two"}'),
    "off, then on": ("POST", "/chat", b'{"question":"one","web_search":false,"web_search":true}'),
    "on, then off": ("POST", "/chat", b'{"web_search":true,"question":"one","web_search":false}'),
    "a long number first": ("POST", "/chat", b'{"question":"one","skill":' + b"1" * 4000 + b',"skill":null}'),
    "a deep list first": ("POST", "/chat", b'{"question":"one","skill":' + b"[" * 150 + b"]" * 150 + b',"skill":null}'),
    "title": ("PATCH", "/threads/t", b'{"title":"one","title":"two"}'),
    "thumbs": ("POST", "/runs/r/feedback", b'{"thumbs":"up","thumbs":"down"}'),
    "key": ("POST", "/session", b'{"key":"one","key":"two"}'),
}


@pytest.mark.parametrize(("method", "path", "body"), TWICE.values(), ids=TWICE)
async def test_a_key_that_is_named_twice_is_422_wherever_json_is_read(
    served: Served, knowledge: FixedKnowledge, method: str, path: str, body: bytes
) -> None:
    before = len(knowledge.queries)
    answer = await served.client.request(method, path, content=body, headers=JSON)
    error = problem_of(answer.status_code, answer.content)
    assert (answer.status_code, error["code"]) == (422, "invalid_request")
    assert "send each key once" in error["message"]
    assert error["message"].split(":")[0] in body.decode().replace("\\u0073", "s")
    assert len(knowledge.queries) == before


@pytest.mark.parametrize("skill", ["nobody-wrote-it", "../secrets", "", "a.b", "\u202e"])
async def test_an_unknown_skill_is_422_in_the_same_words_as_a_bad_name(served: Served, skill: str) -> None:
    answer = await served.client.post("/chat", content=asked(skill=skill), headers=JSON)
    error = problem_of(answer.status_code, answer.content)
    assert (answer.status_code, error["code"]) == (422, "unknown_skill")
    assert error["message"] == "There is no such skill. No skill is installed here."


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "text/plain; application/json"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": ""},
        {},
        {**JSON, "Content-Encoding": "gzip"},
        {**JSON, "Content-Encoding": "br"},
        {**JSON, "Content-Encoding": "identity, gzip"},
    ],
    ids=str,
)
async def test_what_is_not_plain_json_is_415(served: Served, headers: dict[str, str]) -> None:
    connection = await served.connect()
    await connection.send("POST", "/chat", asked(), headers)
    error = await refused(connection, 415)
    assert (error["code"], error["retryable"]) == ("unsupported_media_type", False)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_may_be_spelt_in_several_ways(served: Served, kind: str) -> None:
    headers = {"Content-Type": kind, "Content-Encoding": "identity", "Accept": "application/json"}
    assert (await served.client.post("/chat", content=asked(), headers=headers)).status_code == 200


async def refused(connection: Connection, status: int) -> Frame:
    async with asyncio.timeout(2):
        await connection.read_head()
        error = problem_of(connection.status, await connection.read_body())
    connection.close()
    assert connection.status == status
    return error


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 200_000, 10_000_000])
async def test_a_large_body_is_413(served: Served, size: int) -> None:
    body = asked().ljust(size)
    answer = await served.client.post("/chat", content=body, headers=JSON)
    assert (answer.status_code, problem_of(413, answer.content)["code"]) == (413, "body_too_large")


async def test_a_body_of_the_allowed_size_is_read(served: Served) -> None:
    answer = await served.client.post(
        "/chat", content=asked().ljust(MAX_BYTES), headers={**JSON, "Accept": "application/json"}
    )
    assert answer.status_code == 200


async def test_a_large_body_without_a_length_is_413_before_it_ends(served: Served) -> None:
    connection = await served.connect()
    await connection.send("POST", "/chat", headers={**JSON, "Transfer-Encoding": "chunked"}, length=False)
    for _ in range(9):
        await connection.write(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
    assert (await refused(connection, 413))["code"] == "body_too_large"


@pytest.mark.parametrize("framing", [{"Content-Length": "500"}, {"Transfer-Encoding": "chunked"}], ids=str)
async def test_a_body_that_never_ends_is_408_and_the_connection_is_closed(
    served: Served, framing: dict[str, str]
) -> None:
    connection = await served.connect()
    await connection.send("POST", "/chat", headers={**JSON, **framing}, length=False)
    await connection.write(b"1\r\n{\r\n")
    async with asyncio.timeout(2):
        await connection.read_head()
        error = problem_of(connection.status, await connection.read_body())
        assert (connection.status, error["code"], error["retryable"]) == (408, "body_timeout", True)
        assert connection.headers["connection"] == "close"
        assert await connection.at_end()
    connection.close()


async def test_a_body_that_trickles_is_408_too(served: Served) -> None:
    connection = await served.connect()
    await connection.send("POST", "/chat", headers={**JSON, "Content-Length": "500"}, length=False)

    async def trickle() -> None:
        while True:
            await connection.write(b" ")
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    async with asyncio.timeout(2):
        await connection.read_head()
    trickling.cancel()
    connection.close()
    assert connection.status == 408


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await served.connect()
    await connection.send("POST", "/chat", headers={**JSON, "Content-Length": "500"}, length=False)
    await asyncio.sleep(0.05)
    connection.vanish()
    await asyncio.sleep(0.05)
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_chat_takes_posts_only(served: Served, method: str) -> None:
    answer = await served.client.request(method, "/chat")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    if method != "HEAD":
        assert problem_of(405, answer.content)["code"] == "method_not_allowed"


async def test_no_other_site_is_let_in(served: Served) -> None:
    for origin in ("https://evil.test", "null"):
        preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        for answer in (
            await served.client.options("/chat", headers=preflight),
            await served.client.post("/chat", content=asked(), headers={**JSON, "Origin": origin}),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/nowhere", "/chat/x", "/ui/nothing.js", "/ui/../settings.py", "/threads/a/b"])
async def test_an_unknown_route_is_404_in_the_same_shape(served: Served, path: str) -> None:
    answer = await served.client.get(path)
    assert (answer.status_code, problem_of(404, answer.content)["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", [f"/threads/t?skill={'s' * 65}", f"/sources/p?q={'q' * 4001}"])
async def test_a_bad_parameter_is_422_in_the_same_shape_and_named(served: Served, path: str) -> None:
    answer = await served.client.get(path)
    error = problem_of(answer.status_code, answer.content)
    assert (answer.status_code, error["code"]) == (422, "invalid_request")
    assert error["message"] in ("Not valid: skill.", "Not valid: q.")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"title":""}', b'{"title":"  "}', b'{"title":1}', b'{"title":null}', b'{"title":"a","x":1}']
)
async def test_a_bad_rename_is_422(served: Served, body: bytes) -> None:
    await served.frames(thread_id="named")
    answer = await served.client.patch("/threads/named", content=body, headers=JSON)
    assert (answer.status_code, problem_of(422, answer.content)["code"]) == (422, "invalid_request")
    assert (await served.client.get("/threads/named")).json()["title"] == "How long must record 1 be kept?"


async def test_a_rename_that_is_too_long_is_422(served: Served) -> None:
    await served.frames(thread_id="long")
    renamed = [await served.client.patch("/threads/long", json={"title": "é" * size}) for size in (200, 201)]
    assert [answer.status_code for answer in renamed] == [200, 422]
