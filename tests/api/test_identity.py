"""Who asks: keys, sign-ins, addresses; and what a client may see of another: nothing (acceptance 1)."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import Op, Result
from langgraph.store.memory import InMemoryStore

from service.graph.run import Request
from service.keys import make_key
from service.threads import ThreadRef
from tests.api.guarded import ALICE, BOB, KEYS, access, bearer, guarded
from tests.api.stalling import stalling
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, QUESTION, Served, eventually, serving
from tests.wire import Frame

CLOSED = [
    "/threads",
    "/threads/t",
    "/sources/p000000000000001",
    "/skills",
    "/nowhere",
    "/chat/",
    "/CHAT",
    "/ui",
    "/ui.js",
]


async def ask(served: Served, key: str, question: str = QUESTION, thread: str = "t1") -> httpx.Response:
    headers = {**bearer(key), "Accept": "application/json"}
    return await served.client.post("/chat", json={"question": question, "thread_id": thread}, headers=headers)


async def seen(served: Served, key: str, path: str, method: str = "GET") -> httpx.Response:
    return await served.client.request(method, path, headers=bearer(key))


# Two clients


async def test_neither_of_two_clients_sees_a_trace_of_the_other_on_the_same_thread_id(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with guarded(tmp_path, model) as served:
        await ask(served, ALICE, "alice asks about the Mirabelle account")
        done = (await ask(served, BOB, "what did I ask before?")).json()
        await ask(served, BOB, "and before that?")
        assert not any("Mirabelle" in call.asked for call in model.calls if "alice asks" not in call.asked)
        assert model.count("condense") == 1  # Bob's first turn had no history
        thread = (await seen(served, BOB, "/threads/t1")).json()
        assert [item["question"] for item in thread["items"]] == ["what did I ask before?", "and before that?"]
        assert "Mirabelle" not in (await seen(served, BOB, "/threads")).text + str(done) + str(thread)
        assert [item["title"] for item in (await seen(served, ALICE, "/threads")).json()["threads"]] == [
            "alice asks about the Mirabelle account"
        ]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_a_foreign_thread_answers_as_an_unknown_one_and_stays(tmp_path: Path, method: str) -> None:
    async with guarded(tmp_path) as served:
        await ask(served, ALICE, thread="alices")
        for thread in ("alices", "nobodys", "../alices", "x" * 65):
            body = {"json": {"title": "mine now"}} if method == "PATCH" else {}
            answer = await served.client.request(method, f"/threads/{thread}", headers=bearer(BOB), **body)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert (await seen(served, ALICE, "/threads/alices")).json()["title"] == QUESTION


async def test_a_foreign_run_cannot_be_stopped_and_answers_as_an_unknown_one(tmp_path: Path) -> None:
    world, model, stall = stalling(tmp_path)
    async with serving(House(world, model), access=access(tmp_path, *KEYS)) as served:
        run = served.house.runs.start(Request(ThreadRef("alice", "t"), "stall in grading"))
        await eventually(lambda: bool(stall.reached))
        foreign, unknown = [await seen(served, BOB, f"/runs/{name}", "DELETE") for name in (run.run_id, "r_unknown")]
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
        assert stall.left == []
        assert (await seen(served, ALICE, f"/runs/{run.run_id}", "DELETE")).status_code == 202
        await run.ended()


class NotedStore(InMemoryStore):
    """Notes what it is asked, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Op] = []

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        listed = list(ops)
        self.asked += listed
        return await super().abatch(listed)


class NotedSaver(InMemorySaver):
    """Counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        self.read += 1
        return await super().aget_tuple(config)


async def test_a_guess_takes_the_same_steps_whether_the_thread_is_unknown_or_foreign(tmp_path: Path) -> None:
    """Same words, same reads of the same rows: there is nothing that a clock could tell."""
    store, saver = NotedStore(), NotedSaver()
    home = House(services(tmp_path), ScriptedModel(), store=store, checkpointer=saver)
    async with serving(home, access=access(tmp_path, *KEYS)) as served:

        async def steps(key: str, thread: str, rest: str = "") -> tuple[int, bytes, list[str], int, list[str]]:
            store.asked, saver.read = [], 0
            answer = await seen(served, key, f"/threads/{thread}{rest}")
            row = ThreadRef("bob", thread, "none" if "skill" in rest else "").key
            asked = [str(op).replace(row, "the row") for op in store.asked]
            return answer.status_code, answer.content, sorted(answer.headers), saver.read, asked

        for number in range(5):
            await ask(served, ALICE, thread=f"alices{number}")
        for rest in ("", "/export", "?skill=none"):
            foreign = [await steps(BOB, f"alices{number}", rest) for number in range(5)]
            unknown = [await steps(BOB, f"nobodys{number}", rest) for number in range(5)]
            assert foreign == unknown == [foreign[0]] * 5
            status, *_, reads, [asked] = foreign[0]
            assert (status, reads) == (404, 0)
            assert asked.startswith("GetOp")
            assert "'the row'" in asked
        own = await steps(ALICE, "alices1")
        assert (own[0], own[3] > 0) == (200, True)  # what is there takes further steps, and they are seen here


async def test_a_source_of_the_index_is_open_to_every_client_and_any_other_to_those_it_was_shown(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path) as served:
        item = (await ask(served, ALICE)).json()["sources"][0]
        path = f"/sources/{item['passage_id']}?v={item['sha256']}"
        assert (await seen(served, BOB, path)).status_code == 200
        served.house.services.knowledge.passages = []  # type: ignore[attr-defined]
        assert (await seen(served, ALICE, path)).status_code == 200
        foreign, unknown = [await seen(served, BOB, name) for name in (path, f"/sources/x?v={'0' * 64}")]
        assert (foreign.status_code, foreign.content) == (404, unknown.content)


async def test_two_readers_behind_a_trusted_proxy_are_two_clients_and_without_it_one(tmp_path: Path) -> None:
    async def threads_of(served: Served, address: str) -> list[Frame]:
        answer = await served.client.get("/threads", headers={"X-Forwarded-For": f"198.51.100.1, {address}"})
        listed: list[Frame] = answer.json()["threads"]
        return listed

    for proxies, expected in ((f"{HOST}/32", 0), ("", 1)):
        rules = access(tmp_path, proxies=proxies, anonymous=True)
        async with guarded(tmp_path, rules=rules) as served:
            forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.1"}
            await served.client.post("/chat", json={"question": QUESTION, "thread_id": "t1"}, headers=forwarded)
            assert len(await threads_of(served, "203.0.113.1")) == 1
            assert len(await threads_of(served, "203.0.113.2")) == expected


async def test_whom_the_proxy_does_not_name_is_not_the_reader_at_the_servers_own_machine(tmp_path: Path) -> None:
    async with guarded(tmp_path, rules=access(tmp_path, proxies=f"{HOST}/32", anonymous=True)) as served:
        await served.client.post("/chat", json={"question": QUESTION, "thread_id": "t1"})
        assert (await served.client.get("/threads/t1")).status_code == 200
        for chain in ("unknown", "198.51.100.1,", "127.0.0.1, junk"):
            answer = await served.client.get("/threads/t1", headers={"X-Forwarded-For": chain})
            assert answer.status_code == 404
        assert (await served.client.get("/session", headers={"X-Forwarded-For": ""})).json()["client"] == "unknown:"


# Keys


@pytest.mark.parametrize("path", CLOSED)
async def test_what_is_not_open_needs_a_key(tmp_path: Path, path: str) -> None:
    async with guarded(tmp_path) as served:
        for headers in ({}, {"Authorization": "Bearer"}, bearer(make_key()), bearer(ALICE + "x"), bearer("x" * 5000)):
            answer = await served.client.get(path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_question_without_a_key_starts_nothing(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with guarded(tmp_path, model) as served:
        answer = await served.client.post("/chat", json={"question": QUESTION})
        assert (answer.status_code, model.calls) == (401, [])
        assert "ratelimit-limit" not in answer.headers


async def test_the_page_its_files_and_the_probes_are_open(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        for path in ("/", "/ui/chat.js", "/healthz", "/readyz", "/openapi.json", "/session"):
            assert (await served.client.get(path)).status_code == 200, path


async def test_the_scheme_is_read_in_any_case_and_others_are_a_proxys_own_affair(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        for value in (f"bearer {ALICE}", f"BEARER  {ALICE}"):
            answer = await served.client.get("/session", headers={"Authorization": value})
            assert answer.json() == {"client": "alice", "signed_in": False}
        basic = await served.client.get("/session", headers={"Authorization": "Basic dXNlcjpwYXNz"})
        assert basic.json() == {"client": None, "signed_in": False}


async def test_a_wrong_key_is_never_passed_over_for_the_address(tmp_path: Path) -> None:
    rules = access(tmp_path, *KEYS, anonymous=True)
    async with guarded(tmp_path, rules=rules) as served:
        assert (await served.client.get("/threads")).status_code == 200
        assert (await served.client.get("/threads", headers=bearer(make_key()))).status_code == 401


async def test_a_probe_without_a_key_sees_states_and_no_details(tmp_path: Path) -> None:
    home = House(stalling(tmp_path)[0], ScriptedModel())

    async def readiness() -> list[object]:
        return [replace(await home.services.knowledge.state(), detail="/srv/data", warning="disk")]

    async with serving(home, readiness=readiness, access=access(tmp_path, *KEYS)) as served:  # type: ignore[arg-type]
        closed = (await served.client.get("/readyz")).json()["dependencies"][0]
        opened = (await seen(served, ALICE, "/readyz")).json()["dependencies"][0]
    assert (closed["ok"], closed["detail"], closed["warning"]) == (True, "", "")
    assert (opened["ok"], opened["detail"], opened["warning"]) == (True, "/srv/data", "disk")


# Signing in


async def sign_in(served: Served, key: str, **headers: str) -> httpx.Response:
    return await served.client.post("/session", json={"key": key}, headers=headers)


async def test_a_sign_in_sets_a_cookie_that_scripts_and_other_sites_cannot_use(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        answer = await sign_in(served, ALICE)
        assert answer.json() == {"client": "alice", "signed_in": True}
        parts = [part.strip().lower() for part in answer.headers["set-cookie"].split(";")]
        assert {"httponly", "samesite=lax", "path=/", "max-age=3600"} <= set(parts)
        assert "secure" not in parts
        assert ALICE not in answer.headers["set-cookie"]
        assert (await served.client.get("/session")).json() == {"client": "alice", "signed_in": True}
        assert (await ask(served, ALICE)).json()["status"] == "answered"
        listed = (await served.client.get("/threads")).json()["threads"]
        assert [item["thread_id"] for item in listed] == ["t1"]  # one client, by its key and by its cookie


@pytest.mark.parametrize("way", ["public_url", "proxy"])
async def test_behind_https_the_cookie_is_secure_and_bound_to_this_host(tmp_path: Path, way: str) -> None:
    public = {"public_url": "https://gatehouse.test"} if way == "public_url" else {"proxies": f"{HOST}/32"}
    async with guarded(tmp_path, rules=access(tmp_path, *KEYS, **public)) as served:
        forwarded = {} if way == "public_url" else {"X-Forwarded-Proto": "https"}
        cookie = (await sign_in(served, ALICE, **forwarded)).headers["set-cookie"]
        assert cookie.startswith("__Host-gatehouse=")
        assert "; secure" in cookie.lower()
        assert "domain" not in cookie.lower()


async def test_no_one_else_can_say_that_it_is_https(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        cookie = (await sign_in(served, ALICE, **{"X-Forwarded-Proto": "https"})).headers["set-cookie"]
        assert cookie.startswith("gatehouse=")


async def test_a_sign_out_holds_for_every_copy_of_the_cookie(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        await sign_in(served, ALICE)
        token = served.client.cookies["gatehouse"]
        answer = await served.client.delete("/session")
        assert answer.json() == {"client": None, "signed_in": False}
        assert 'gatehouse="";' in answer.headers["set-cookie"]
        copied = await served.client.get("/threads", headers={"Cookie": f"gatehouse={token}"})
        assert copied.status_code == 401


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "../" + "a" * 40, "a" * 5000, "%2e%2e", '"', "alice"])
async def test_a_cookie_that_was_never_given_is_no_sign_in(tmp_path: Path, token: str) -> None:
    async with guarded(tmp_path) as served:
        await sign_in(served, ALICE)
        served.client.cookies.clear()
        answer = await served.client.get("/threads", headers={"Cookie": f"gatehouse={token}"})
        assert answer.status_code == 401


async def test_a_key_that_is_taken_away_ends_its_sign_ins_and_a_restart_does_not(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        await sign_in(served, ALICE)
        cookie = {"Cookie": f"gatehouse={served.client.cookies['gatehouse']}"}
    async with guarded(tmp_path) as served:
        assert (await served.client.get("/threads", headers=cookie)).status_code == 200
    async with guarded(tmp_path, rules=access(tmp_path, KEYS[1])) as served:
        assert (await served.client.get("/threads", headers=cookie)).status_code == 401


@pytest.mark.parametrize(
    "key", ["", make_key(), "x" * 201, "\x00", KEYS[0].digest], ids=["none", "unknown", "long", "control", "digest"]
)
async def test_a_wrong_key_signs_nobody_in(tmp_path: Path, key: str) -> None:
    async with guarded(tmp_path) as served:
        answer = await sign_in(served, key)
        assert answer.status_code in (401, 422)
        assert "set-cookie" not in answer.headers
        assert not (tmp_path / "sessions").exists()


async def test_a_link_that_needs_a_sign_in_opens_a_page_with_a_way_in(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        path = '/sources/p1?v=00&q="><script>alert(1)</script>'
        answer = await served.client.get(path, headers={"Accept": "text/html,*/*"})
        assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert 'href="/?next=%2Fsources%2Fp1%3Fv%3D00' in answer.text
        assert "<script" not in answer.text


async def test_the_questions_of_one_thread_may_come_by_key_and_by_cookie(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served:
        await sign_in(served, BOB)
        await served.client.post("/chat", json={"question": "first", "thread_id": "t"})
        assert (await ask(served, BOB, "second", "t")).json()["status"] == "answered"
        thread = (await served.client.get("/threads/t")).json()
        assert [item["question"] for item in thread["items"]] == ["first", "second"]
