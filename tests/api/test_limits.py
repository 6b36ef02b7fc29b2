"""The limit on a client alone: its headers, what counts, and the tricks that change nothing."""

import asyncio
from pathlib import Path

import httpx
import pytest

from service.ratelimit.memory import MemoryLimiter
from tests.api.guarded import ALICE, BOB, access, bearer, guarded
from tests.api.stalling import stalling
from tests.fakes import ScriptedModel
from tests.ratelimit.test_memory import Clock
from tests.running import House
from tests.served import HOST, QUESTION, Served, eventually, serving

LIMIT = 4
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
BODY = b'{"question": "How long must record 1 be kept?"}'


async def ask(served: Served, headers: dict[str, str] | None = None, path: str = "/chat") -> httpx.Response:
    return await served.client.post(path, content=BODY, headers={**JSON, **(headers or {})})


async def admitted(served: Served, headers: list[dict[str, str]]) -> int:
    statuses = [(await ask(served, each)).status_code for each in headers]
    assert set(statuses) <= {200, 429}
    assert statuses == sorted(statuses)
    return statuses.count(200)


async def test_each_answer_tells_what_is_left_and_the_last_how_long_to_wait(tmp_path: Path) -> None:
    clock = Clock()
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT, clock)) as served:
        answers = []
        for _ in range(LIMIT + 1):
            answers.append(await ask(served, bearer(ALICE)))
            clock.now += 5.5
        left = [answer.headers["ratelimit-remaining"] for answer in answers]
        assert left == ["3", "2", "1", "0", "0"]
        assert {answer.headers["ratelimit-limit"] for answer in answers} == {"4"}
        assert {answer.headers["ratelimit-policy"] for answer in answers} == {"4;w=60"}
        assert [answer.headers["ratelimit-reset"] for answer in answers] == ["60", "55", "49", "44", "38"]
        refused = answers[-1]
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "38")
        assert refused.json() == {
            "error": {
                "code": "rate_limited",
                "message": "You may ask 4 times a minute. Try again in 38 s.",
                "retryable": True,
            }
        }
        assert "retry-after" not in answers[0].headers
        clock.now += 38 - 5.5
        assert (await ask(served, bearer(ALICE))).status_code == 200


async def test_a_stream_carries_the_headers_too(tmp_path: Path) -> None:
    async with (
        guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served,
        served.asking(headers=bearer(ALICE)) as stream,
    ):
        assert stream.connection.headers["ratelimit-remaining"] == "3"


async def test_each_client_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        assert await admitted(served, [bearer(ALICE)] * 9) == LIMIT
        assert await admitted(served, [bearer(BOB)] * 9) == LIMIT


async def test_by_key_and_by_cookie_one_limit_counts(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        await served.client.post("/session", json={"key": ALICE})
        assert await admitted(served, [{}, bearer(ALICE)] * 4) == LIMIT


TRICKS: dict[str, list[dict[str, str]]] = {
    "made-up addresses": [{"X-Forwarded-For": f"10.0.0.{number}"} for number in range(9)],
    "two addresses": [{"X-Forwarded-For": f"1.2.3.{number}, 5.6.7.{number}"} for number in range(9)],
    "junk": [{"X-Forwarded-For": f"junk-{number}"} for number in range(9)],
    "with a port": [{"X-Forwarded-For": f'"[::1]:{number}"'} for number in range(9)],
    "8 KiB": [{"X-Forwarded-For": f"10.0.0.{number}," * 580} for number in range(9)],
    "X-Real-IP": [{"X-Real-IP": f"1.2.3.{number}"} for number in range(9)],
    "Forwarded": [{"Forwarded": f"for=1.2.3.{number};proto=https"} for number in range(9)],
    "of a CDN": [{"True-Client-IP": f"1.2.3.{number}", "CF-Connecting-IP": f"1.2.3.{number}"} for number in range(9)],
    "another agent": [{"User-Agent": f"agent {number}"} for number in range(9)],
    "cookies": [{"Cookie": f"gatehouse={number}; other={number}"} for number in range(9)],
    "basic": [{"Authorization": f"Basic {number}"} for number in range(9)],
}


@pytest.mark.parametrize("headers", TRICKS.values(), ids=TRICKS)
async def test_no_header_makes_a_new_client(tmp_path: Path, headers: list[dict[str, str]]) -> None:
    """D12."""
    rules = access(tmp_path, anonymous=True)
    async with guarded(tmp_path, rules=rules, limiter=MemoryLimiter(LIMIT)) as served:
        assert await admitted(served, headers) == LIMIT


async def test_two_forwarded_headers_make_no_new_client(tmp_path: Path) -> None:
    """D12."""
    rules = access(tmp_path, anonymous=True)
    async with guarded(tmp_path, rules=rules, limiter=MemoryLimiter(LIMIT)) as served:
        statuses = []
        for number in range(9):
            twice = [("X-Forwarded-For", f"1.2.3.{number}"), ("X-Forwarded-For", f"5.6.7.{number}"), *JSON.items()]
            statuses.append((await served.client.post("/chat", content=BODY, headers=twice)).status_code)
        assert statuses.count(200) == LIMIT


async def test_behind_a_trusted_proxy_readers_have_limits_of_their_own_and_an_ipv6_network_has_one(
    tmp_path: Path,
) -> None:
    """D12."""
    rules = access(tmp_path, anonymous=True, proxies=f"{HOST}/32")
    async with guarded(tmp_path, rules=rules, limiter=MemoryLimiter(LIMIT)) as served:
        assert await admitted(served, [{"X-Forwarded-For": "203.0.113.1"}] * 9) == LIMIT
        made_up = [{"X-Forwarded-For": f"10.9.8.{number}, 203.0.113.2"} for number in range(9)]
        assert await admitted(served, made_up) == LIMIT
        one_network = [{"X-Forwarded-For": f"2001:db8:1:2::{number:x}"} for number in range(9)]
        assert await admitted(served, one_network) == LIMIT
        in_other_clothes = [{"X-Forwarded-For": "::ffff:203.0.113.1"}]
        assert await admitted(served, in_other_clothes) == 0


async def test_a_fresh_thread_for_each_request_changes_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        headers = {**JSON, **bearer(ALICE)}
        statuses = []
        for number in range(9):
            body = {"question": QUESTION, "thread_id": f"t{number}"}
            statuses.append((await served.client.post("/chat", json=body, headers=headers)).status_code)
        assert statuses == [200] * LIMIT + [429] * 5


async def test_every_spelling_of_the_path_counts_or_asks_nothing(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with guarded(tmp_path, model, limiter=MemoryLimiter(LIMIT)) as served:
        paths = ["/chat", "/%63hat", "/chat?x=1", "/./chat", "//chat", "/chat/", "/CHAT", "/chat%2f", "/ui/../chat"]
        for _ in range(3):
            for path in paths:
                connection = await served.connect()
                await connection.send("POST", path, BODY, {**JSON, **bearer(ALICE)})
                await connection.read_head()
                connection.close()
                assert connection.status in (200, 307, 404, 405, 429), path
    assert model.count("answer") <= LIMIT


async def test_reading_and_asking_how_to_ask_count_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        for method, path in [("HEAD", "/chat"), ("OPTIONS", "/chat"), ("GET", "/threads"), ("GET", "/sources/x")] * 5:
            answer = await served.client.request(method, path, headers=bearer(ALICE))
            assert "ratelimit-limit" not in answer.headers
        assert await admitted(served, [bearer(ALICE)] * 5) == LIMIT


async def test_a_request_that_is_not_valid_counts_as_one(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        headers = {**JSON, **bearer(ALICE)}
        bad = [
            await served.client.post("/chat", content=b"{", headers=headers),
            await served.client.post("/chat", content=b"x=1", headers=bearer(ALICE)),
            await served.client.post("/chat", content=b" " * 70_000, headers=headers),
        ]
        assert [answer.status_code for answer in bad] == [422, 415, 413]
        assert [answer.headers["ratelimit-remaining"] for answer in bad] == ["3", "2", "1"]
        assert await admitted(served, [bearer(ALICE)] * 3) == 1


async def test_a_request_whose_reader_leaves_at_once_counts_as_one(tmp_path: Path) -> None:
    world, model, _ = stalling(tmp_path)
    limiter = MemoryLimiter(LIMIT)
    rules = access(tmp_path, anonymous=True)
    async with serving(House(world, model), access=rules, limiter=limiter) as served:
        for number in range(LIMIT):
            connection = await served.connect()
            await connection.ask({"question": f"stall in retrieval {number}"})
            await eventually(lambda number=number: len(limiter._taken.get(HOST, [])) > number)  # type: ignore[misc]
            connection.vanish()
        assert await admitted(served, [{}]) == 0


async def test_a_client_without_a_key_takes_nothing_from_one_with(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        for _ in range(9):
            assert (await ask(served)).status_code == 401
        assert await admitted(served, [bearer(ALICE)] * 9) == LIMIT


async def test_attempts_to_sign_in_are_limited_by_address(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        answers = [await served.client.post("/session", json={"key": f"guess {n}"}) for n in range(6)]
        assert [answer.status_code for answer in answers] == [401] * LIMIT + [429] * 2
        said = answers[-1].json()["error"]["message"]
        assert said.startswith("You may try to sign in 4 times a minute. Try again in ")
        assert await admitted(served, [bearer(ALICE)] * 9) == LIMIT


async def test_a_sign_in_with_a_known_key_spends_no_attempt(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:

        async def attempt(key: str) -> httpx.Response:
            return await served.client.post("/session", json={"key": key})

        good = [await attempt(ALICE) for _ in range(LIMIT * 3)]
        assert {answer.status_code for answer in good} == {200}
        assert {answer.headers["RateLimit-Remaining"] for answer in good} == {str(LIMIT)}
        mixed = [(await attempt(key)).status_code for key in ("guess", ALICE) * LIMIT]
        assert mixed == [401, 200] * (LIMIT - 1) + [401, 429]
        assert (await attempt("guess")).status_code == 429


async def test_guesses_that_arrive_together_are_each_counted_before_any_is_looked_at(tmp_path: Path) -> None:
    async with guarded(tmp_path, limiter=MemoryLimiter(LIMIT)) as served:
        guesses = [served.client.post("/session", json={"key": key}) for key in ["guess"] * 10 + [ALICE]]
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*guesses))
        assert statuses.count(401) <= LIMIT


async def test_one_client_cannot_take_every_run(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    rules = access(tmp_path, anonymous=True, proxies=f"{HOST}/32")
    async with serving(House(world, model, max_runs_per_client=2), access=rules) as served:
        alice, bob = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
        open_ones = []
        for number in range(2):
            connection = await served.connect()
            await connection.ask({"question": f"stall in grading {number}"}, alice)
            open_ones.append(connection)
        await eventually(lambda: len(set(stall.reached)) == 2, within_s=5)
        refused = await ask(served, alice)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_runs")
        assert refused.json()["error"]["retryable"] is True
        assert (await ask(served, bob)).status_code == 200
        for connection in open_ones:
            connection.vanish()
        await eventually(lambda: not served.house.runs._active, within_s=5)
        assert (await ask(served, alice)).status_code == 200
