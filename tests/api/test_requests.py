"""One id through everything that a request causes, and a line for each request that quotes nothing of it."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from service.api.access import Access
from service.logs import log_to
from service.sessions import Sessions
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import NOWHERE, serving

GIVEN = "4f9a1c2b7d8e4f9a1c2b7d8e4f9a1c2b"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    log_to(stream, logging.INFO, "json")
    yield stream
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


def logged(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def requests(log: io.StringIO) -> list[dict[str, Any]]:
    return [line for line in logged(log) if line["logger"] == "service.api.requests"]


def behind(*proxies: str) -> Access:
    return Access(Sessions(NOWHERE, hours=1), anonymous=True, proxies=tuple(map(ip_network, proxies)))


async def test_each_line_of_a_run_carries_its_request_and_its_run(tmp_path: Path, log: io.StringIO) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        answers = await asyncio.gather(*(served.answer(thread_id=f"t{n}") for n in range(5)))
    run_of = {answer.headers["x-request-id"]: answer.json()["run_id"] for answer in answers}
    assert len(run_of) == 5
    nodes = [line for line in logged(log) if line["message"].startswith("node ")]
    assert len(nodes) >= 5 * 8
    for line in [*nodes, *requests(log)]:
        assert run_of[line["request_id"]] == line["run_id"]
    assert {line["run_id"] for line in nodes} == set(run_of.values())


async def test_a_request_leaves_one_line_with_its_route_and_nothing_that_its_sender_chose(
    tmp_path: Path, log: io.StringIO
) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        await served.answer("marmalade?", thread_id="marmalade")
        await served.client.get("/threads/marmalade?skill=marmalade")
        await served.client.get("/sources/marmalade?q=marmalade", headers={"User-Agent": "marmalade"})
        await served.client.get("/marmalade")
        await served.client.request("MARMALADE", "/skills")
        await served.client.get("/ui/chat.js")
        await served.client.get("/healthz")
        await served.client.get("/metrics")
    found = [(line["method"], line["route"], line["status"]) for line in requests(log)]
    assert found == [
        ("POST", "/chat", 200),
        ("GET", "/threads/{thread_id}", 404),
        ("GET", "/sources/{passage_id}", 404),
        ("GET", "-", 404),
        ("-", "/skills", 405),
        ("GET", "/ui/*", 200),
    ]
    assert all(line["client"] == "127.0.0.1" and line["ms"] > 0 for line in requests(log))
    assert "marmalade" not in log.getvalue().lower()


async def test_a_stream_that_its_reader_leaves_has_its_line_as_well(tmp_path: Path, log: io.StringIO) -> None:
    async with serving(House(services(tmp_path), ScriptedModel(delay_s=5))) as served:
        async with served.asking() as stream:
            await stream.until(lambda frame: frame["type"] == "run")
        await asyncio.sleep(0.2)
        [line] = requests(log)
    assert (line["route"], line["status"]) == ("/chat", 200)


async def test_an_id_is_made_where_nobody_may_give_one_and_no_two_are_alike(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        seen = {
            (await served.client.get(path, headers={"X-Request-ID": GIVEN})).headers["x-request-id"]
            for path in ("/healthz", "/nothing", "/chat", "/", "/ui/chat.js")
        }
    assert GIVEN not in seen
    assert len(seen) == 5
    assert all(len(made) == 32 for made in seen)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (GIVEN, True),
        ("123e4567-e89b-12d3-a456-426614174000", True),
        ("sk-ant-api03-0123456789-0123456", False),
        ("4929123456789012", False),
        ("short", False),
        ("a" * 33, False),
        ("x" * 4000, False),
        ('{"a": "quoted"}', False),
        ("\x1b[31mred-red-red", False),
        ("john.roe@client.test", False),
        ("GB82 WEST 1234 5698 7654 32", False),
        ("ümläut-ümläut", False),
    ],
)
async def test_a_configured_proxy_may_give_the_id_if_it_is_one(
    tmp_path: Path, log: io.StringIO, given: str, taken: bool
) -> None:
    async with serving(House(services(tmp_path), ScriptedModel()), access=behind("127.0.0.1")) as served:
        answer = await served.client.get("/skills", headers=[(b"X-Request-ID", given.encode("latin-1"))])
    assert (answer.headers["x-request-id"] == given) is taken
    assert requests(log)[0]["request_id"] == answer.headers["x-request-id"]


async def test_two_ids_are_none(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel()), access=behind("127.0.0.0/8")) as served:
        both = [("X-Request-ID", GIVEN), ("X-Request-ID", GIVEN[::-1])]
        answer = await served.client.get("/skills", headers=both)
    assert answer.headers["x-request-id"] not in (GIVEN, GIVEN[::-1])


async def test_the_next_request_of_a_connection_is_of_no_run(tmp_path: Path, log: io.StringIO) -> None:
    """Sent together, so that the second begins in the task of the first."""
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        connection = await served.connect()
        body = json.dumps({"question": "How long must record 1 be kept?"}).encode()
        ask = f"POST /chat HTTP/1.1\r\nHost: x.localhost\r\nContent-Length: {len(body)}\r\n".replace(
            "x.localhost", "127.0.0.1"
        )
        head = "Content-Type: application/json\r\nAccept: application/json\r\n\r\n"
        await connection.write(f"{ask}{head}".encode() + body + b"GET /skills HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await connection.read_head()
        await connection.read_body()
        await connection.read_head()
        await connection.read_body()
        connection.close()
    asked, listed = requests(log)
    assert (asked["route"], listed["route"]) == ("/chat", "/skills")
    assert "run_id" in asked
    assert "run_id" not in listed
    assert asked["request_id"] != listed["request_id"]
