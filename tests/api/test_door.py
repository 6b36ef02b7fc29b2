"""Under which name, from which page: DNS rebinding and other sites, and the headers of every answer."""

import asyncio
from pathlib import Path

import httpx
import pytest

from service.serve import TimedHead
from tests.api.guarded import ALICE, KEYS, access, bearer, guarded
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, QUESTION, Connection, Ended, Served, serving

PUBLIC = "https://gatehouse.example.test"


async def answer_to(served: Served, method: str, path: str, headers: dict[str, str]) -> int:
    connection = await served.connect()
    await connection.send(method, path, headers=headers)
    await connection.read_head()
    connection.close()
    return connection.status


OWN = ["localhost", "localhost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]:8000", "192.0.2.7", "gatehouse.example.test"]
OWN += ["GATEHOUSE.example.test:443", "gatehouse.example.test.", "a.inside.test", "b.a.inside.test:80"]
FOREIGN = ["evil.test", "evil.test:80", "gatehouse.example.test.evil.test", "inside.test", "evilinside.test", "", " "]
FOREIGN += ["127.0.0.1.evil.test", "localhost.evil.test", "evil.test@127.0.0.1", "127.0.0.1/evil.test", "[::1", "*"]


@pytest.mark.parametrize("host", OWN)
async def test_the_servers_own_names_and_addresses_are_answered(tmp_path: Path, host: str) -> None:
    rules = access(tmp_path, anonymous=True, hosts=("*.inside.test",), public_url=PUBLIC)
    async with guarded(tmp_path, rules=rules) as served:
        assert await answer_to(served, "GET", "/threads", {"Host": host}) == 200


@pytest.mark.parametrize("host", FOREIGN)
async def test_any_other_name_is_400_on_every_path(tmp_path: Path, host: str) -> None:
    rules = access(tmp_path, anonymous=True, hosts=("*.inside.test",), public_url=PUBLIC)
    async with guarded(tmp_path, rules=rules) as served:
        for path in ("/threads", "/", "/healthz", "/ui/chat.js", "/nowhere"):
            assert await answer_to(served, "GET", path, {"Host": host}) == 400


async def test_a_star_answers_to_every_name(tmp_path: Path) -> None:
    async with guarded(tmp_path, rules=access(tmp_path, anonymous=True, hosts=("*",))) as served:
        assert await answer_to(served, "GET", "/threads", {"Host": "any.test"}) == 200


ORIGINS = ["https://evil.test", "null", "http://127.0.0.1:1", "http://localhost", "", "file://", "chrome-extension://x"]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_a_page_of_another_site_may_change_nothing(tmp_path: Path, origin: str) -> None:
    model = ScriptedModel()
    async with guarded(tmp_path, model) as served:
        for method, path in (("POST", "/chat"), ("POST", "/session"), ("DELETE", "/session"), ("DELETE", "/threads/t")):
            headers = {**bearer(ALICE), "Origin": origin}
            answer = await served.client.request(method, path, json={"question": QUESTION}, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
            assert not [name for name in answer.headers if name.startswith("access-control")]
    assert model.calls == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_browser_that_names_no_origin_still_says_that_it_is_another_site(tmp_path: Path, site: str) -> None:
    async with guarded(tmp_path) as served:
        headers = {**bearer(ALICE), "Sec-Fetch-Site": site}
        assert (await served.client.delete("/session", headers=headers)).status_code == 403


async def test_the_servers_own_page_and_programs_are_let_through(tmp_path: Path) -> None:
    rules = access(tmp_path, *KEYS, public_url=PUBLIC)
    async with guarded(tmp_path, rules=rules) as served:
        for extra in (
            {},
            {"Origin": f"http://{HOST}:{served.port}"},
            {"Origin": PUBLIC},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "none"},
        ):
            headers = {**bearer(ALICE), "Accept": "application/json", **extra}
            answer = await served.client.post("/chat", json={"question": QUESTION}, headers=headers)
            assert answer.status_code == 200, extra


async def test_every_answer_carries_the_security_headers_a_fault_of_ours_included(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path) as served:
        served.house.history.threads = None  # type: ignore[method-assign, assignment]
        headers = {**bearer(ALICE), "Host": HOST}
        answers: list[httpx.Response] = [
            await served.client.get("/threads", headers=headers),
            await served.client.get("/threads", headers={"Host": "evil.test"}),
            await served.client.post("/chat", headers={"Origin": "https://evil.test"}),
            await served.client.get("/threads"),
            await served.client.get("/nowhere", headers=headers),
            await served.client.post("/chat", content=b"{", headers={**headers, "Content-Type": "application/json"}),
            await served.client.get("/", headers=headers),
        ]
    assert [answer.status_code for answer in answers] == [500, 400, 403, 401, 404, 422, 200]
    assert answers[0].json()["error"]["code"] == "internal"
    assert "NoneType" in caplog.text
    assert "NoneType" not in answers[0].text
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


# Limits of a request's head


async def closes_within(connection: Connection, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await connection.at_end()
    except (TimeoutError, Ended, ConnectionResetError):
        return False


@pytest.mark.parametrize("first", [b"", b"GET", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A"], ids=str)
async def test_a_head_that_does_not_come_is_waited_for_no_longer_than_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(TimedHead, "timeout_head_s", 0.2)
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        connection = await served.connect()
        await connection.write(first)
        assert await closes_within(connection, 5)


async def test_a_head_that_trickles_gains_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedHead, "timeout_head_s", 0.3)
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        connection = await served.connect()
        await connection.write(b"GET /healthz HTTP/1.1\r\n")

        async def trickle() -> None:
            for number in range(200):
                await connection.write(f"X-{number}: 1\r\n".encode())
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        closed = await closes_within(connection, 5)
        trickling.cancel()
        await asyncio.wait([trickling])
        assert closed


async def test_the_time_of_a_head_ends_no_answer_and_no_second_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimedHead, "timeout_head_s", 0.2)
    async with serving(House(services(tmp_path), ScriptedModel(delay_s=0.15))) as served:
        connection = await served.connect()
        for _ in range(2):
            await connection.ask({"question": QUESTION}, {"Accept": "application/json"})
            await connection.read_head()
            assert connection.status == 200
            assert b'"answered"' in await connection.read_body()
        await connection.write(b"GET /heal")  # and the next head has its time again
        assert await closes_within(connection, 5)


async def test_a_head_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        assert await answer_to(served, "GET", "/healthz", {"X-Large": "x" * 16_000}) == 200
        for size, parts in ((33_000, 1), (1_000, 40), (70_000, 1), (300_000, 1)):
            large = {f"X-Large-{number}": "x" * size for number in range(parts)}
            assert await answer_to(served, "GET", "/healthz", large) in (400, 431)
        assert await answer_to(served, "GET", "/healthz?" + "x" * 33_000, {}) == 431
