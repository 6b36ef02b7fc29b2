"""Streams through nginx with the shipped configuration: D01 to D03, rows 13 and 14 of the complaints."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from service.api.access import Access
from service.model import Source
from service.sessions import Sessions
from service.usage import Usage
from tests.api.stalling import PHASES, stalling
from tests.deploy.nginx import Nginx, running_nginx
from tests.fakes import FixedKnowledge, ScriptedModel, services
from tests.running import House
from tests.served import NOWHERE, Ended, Served, eventually, serving
from tests.wire import assert_grammar, of

pytestmark = pytest.mark.slow


@dataclass
class SilentWriter(ScriptedModel):
    """Says nothing for `silent_s` before its first token."""

    silent_s: float = 0.0

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        await asyncio.sleep(self.silent_s)
        async for text in super().answer(question, sources, feedback, usage, instructions):
            yield text


@asynccontextmanager
async def behind_nginx(
    house: House, *, ping_s: float = 15.0, read_timeout: str = "60s", access: Access | None = None
) -> AsyncIterator[tuple[Served, Nginx]]:
    """The house as a reader outside sees it: every byte goes through nginx."""
    async with serving(house, ping_s=ping_s, access=access) as served:
        with running_nginx(served.port, read_timeout=read_timeout) as nginx:
            base = f"http://127.0.0.1:{nginx.port}"
            async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=20) as client:
                yield replace(served, port=nginx.port, client=client), nginx


async def test_D01_the_first_byte_leaves_at_once_while_the_search_is_still_going(tmp_path: Path) -> None:
    knowledge = FixedKnowledge(delay_s=1.0)
    async with (
        behind_nginx(House(services(tmp_path, knowledge=knowledge), ScriptedModel())) as (served, _),
        served.asking() as stream,
    ):
        [run] = await stream.until(lambda frame: frame["type"] == "run")
        assert run["seq"] == 1
        seen = [run, *(await stream.until(lambda frame: frame["type"] == "done"))]
        began, first_passage = (
            stream.blocks[0][0],
            next(at for at, block in stream.blocks if b'"node":"rerank_vector"' in block),
        )
        assert first_passage - began > 0.5, "the run event waited for the search"
    assert_grammar(seen)


async def test_D01_tokens_come_as_they_are_written_not_in_one_lump(tmp_path: Path) -> None:
    model = ScriptedModel(delay_s=0.5)
    async with behind_nginx(House(services(tmp_path), model)) as (served, _), served.asking() as stream:
        await stream.until(lambda frame: frame["type"] == "token")
        assert model.closed == 0, "the first token came after the last was written"
        await stream.until(lambda frame: frame["type"] == "done")
        times = [at for at, block in stream.blocks if b"event: token" in block]
    assert len(times) > 5
    assert times[-1] - times[0] > 0.2


async def test_D01_a_silent_model_is_bridged_by_pings(tmp_path: Path) -> None:
    """40 s of silence and a ping every 15 s against nginx's 60 s, shortened: 2 s, 0.3 s and 1 s."""
    model = ScriptedModel(delay_s=2.0, piece=1000)
    house = House(services(tmp_path), model)
    async with behind_nginx(house, ping_s=0.3, read_timeout="1s") as (served, _):
        async with served.asking() as stream:
            frames = [frame async for frame in stream.frames]
        assert_grammar(frames)
        assert frames[-1]["type"] == "done"
        assert len(stream.comments) >= 5
        assert set(stream.comments) == {b": ping"}


async def test_D01_U13_forty_seconds_of_silence_are_bridged_with_everything_as_it_ships(tmp_path: Path) -> None:
    """No time is shortened here: nginx's 60 s, a ping after 15 s, a model that is silent for 40 s."""
    house = House(services(tmp_path), SilentWriter(silent_s=40.0), deadline_s=120)
    async with behind_nginx(house) as (served, _), served.asking() as stream:
        frames = [frame async for frame in stream.frames]
    assert_grammar(frames)
    assert (frames[-1]["type"], frames[-1]["status"]) == ("done", "answered")
    assert len(stream.comments) >= 2
    times = [at for at, _ in stream.blocks]
    assert max(later - sooner for sooner, later in pairwise(times)) < 20
    assert times[-1] - times[0] > 40


async def test_without_pings_nginx_would_have_cut_the_silent_stream(tmp_path: Path) -> None:
    """What the test before this one shows is the pings' doing."""
    house = House(services(tmp_path), ScriptedModel(delay_s=2.0))
    async with behind_nginx(house, read_timeout="1s") as (served, _), served.asking() as stream:
        with pytest.raises((Ended, AssertionError)):
            await stream.until(lambda frame: frame["type"] in ("done", "error"))


async def test_D02_a_stream_is_never_compressed_and_the_page_is(tmp_path: Path) -> None:
    asked = {"Accept-Encoding": "gzip, br"}
    async with behind_nginx(House(services(tmp_path), ScriptedModel())) as (served, _):
        async with served.asking(headers=asked) as stream:
            await stream.until(lambda frame: frame["type"] == "done")
            headers = stream.connection.headers
        script = await served.client.get("/ui/chat.js", headers=asked)
    assert "content-encoding" not in headers
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert script.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("where", PHASES)
async def test_D03_a_reader_who_vanishes_is_seen_upstream(tmp_path: Path, where: str) -> None:
    world, model, stall = stalling(tmp_path)
    house = House(world, model)
    async with behind_nginx(house) as (served, _):
        connection = await served.connect()
        await connection.ask({"question": f"stall in {where}", "thread_id": "t"})
        await eventually(lambda: bool(stall.reached), within_s=5)
        connection.vanish()
        await eventually(lambda: bool(stall.left), within_s=2)
        again = await served.answer("cobalt", thread_id="t")
    assert again.status_code == 200


async def test_errors_come_through_in_the_services_own_words(tmp_path: Path) -> None:
    async with behind_nginx(House(services(tmp_path), ScriptedModel(delay_s=0.2))) as (served, _):
        async with served.asking("amber", thread_id="t") as stream:
            await stream.until(lambda frame: frame["type"] == "run")
            busy = await served.answer("cobalt", thread_id="t")
        large = await served.client.post("/chat", json={"question": "x" * 100_000})
        metrics = await served.client.get("/metrics")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "thread_busy")
    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    assert (metrics.status_code, metrics.text.count("gatehouse_")) == (404, 0)


async def test_a_request_has_one_id_in_both_logs_and_in_its_answer(tmp_path: Path) -> None:
    """What a client sends under the name of the id is replaced by nginx, and believed by the service from there."""
    access = Access(Sessions(NOWHERE, hours=1), anonymous=True, proxies=(ip_network("127.0.0.1"),))
    async with behind_nginx(House(services(tmp_path), ScriptedModel()), access=access) as (served, nginx):
        answer = await served.client.get("/skills", headers={"X-Request-ID": "0" * 32})
        await asyncio.sleep(0.1)
        log = nginx.access_log()
    given = answer.headers["x-request-id"]
    assert given != "0" * 32
    assert given in log


async def test_the_access_log_holds_no_question_and_names_the_replica(tmp_path: Path) -> None:
    async with behind_nginx(House(services(tmp_path), ScriptedModel())) as (served, nginx):
        await served.answer("amber", thread_id="t")
        await served.client.get("/threads/t?skill=cobalt")
        await asyncio.sleep(0.1)
        log = nginx.access_log()
    assert '"POST /chat" 200' in log
    assert '"GET /threads/t"' in log
    assert "127.0.0.1:" in log
    assert "amber" not in log
    assert "cobalt" not in log


async def test_a_replica_that_is_down_is_passed_over(tmp_path: Path) -> None:
    async with serving(House(services(tmp_path), ScriptedModel())) as served:
        with running_nginx(1, served.port) as nginx:
            base = f"http://127.0.0.1:{nginx.port}"
            async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=20) as client:
                for _ in range(4):
                    assert (await client.get("/healthz")).status_code == 200
                through = replace(served, port=nginx.port, client=client)
                assert of(await through.frames(), "done")
