"""Reranking computes in a thread: other requests' tokens keep flowing, and the service stays alive.

The reader of the tokens is a thread with a blocking socket, so that its clock does not stop with the server's loop.
"""

import asyncio
import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from service.api.events import Answer
from service.api.present import Presenter
from service.model import ComponentState, StoredSource, Turn
from service.ports import Reranker
from service.rerank.cross_encoder import CrossEncoderReranker
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import HOST, Served, eventually, serving

HEAVY = "heavy question"
QUICK = "quick question"
LONG_DRAFT = "word " * 600 + "[[1]]."


def burn(seconds: float) -> None:
    """Keep a processor busy as a model does: in C, without the interpreter's lock."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 4000)


@dataclass
class BurningReranker:
    """Takes 15 ms of a processor for each text of the heavy question; `inline` does it on the event loop."""

    inline: bool = False
    name: str = "burning"
    spans: list[tuple[float, float]] = field(default_factory=list)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if query == HEAVY:
            await self._work(len(texts))
        return [0.9] * len(texts)

    async def _work(self, count: int) -> None:
        began = time.monotonic()
        if self.inline:
            burn(0.015 * count)
        else:
            await asyncio.to_thread(burn, 0.015 * count)
        self.spans.append((began, time.monotonic()))

    def state(self) -> ComponentState:
        return ComponentState("reranker", True, self.name)


@dataclass
class SlowCrossEncoder:
    """The real adapter over a tiny model; each batch of the heavy question is predicted over and over for 150 ms."""

    ranker: CrossEncoderReranker
    name: str = "tiny"
    spans: list[tuple[float, float]] = field(default_factory=list)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        began = time.monotonic()
        found = await self.ranker.scores(query, texts)
        if query == HEAVY:
            self.spans.append((began, time.monotonic()))
        return found

    def state(self) -> ComponentState:
        return self.ranker.state()


def token_times(port: int, stop: threading.Event) -> list[float]:
    """Read the quick question's stream line by line; return when each token was there (monotonic, s)."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request("POST", "/chat", json.dumps({"question": QUICK}), {"Content-Type": "application/json"})
    times = []
    for line in connection.getresponse():
        if line == b"event: token\n":
            times.append(time.monotonic())
        if stop.is_set():
            break
    connection.close()
    return times


async def read_beside_a_rerank(folder: Path, reranker: Reranker) -> list[float]:
    """Let one request's tokens flow, rerank 40 passages for another one meanwhile; return the tokens' times."""
    knowledge = FixedKnowledge([passage(n) for n in range(1, 41)])
    model = ScriptedModel(draft=lambda *_: LONG_DRAFT, piece=5, delay_s=0.1)
    home = House(services(folder, knowledge=knowledge, reranker=reranker), model)
    async with serving(home) as served:
        stop = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(token_times, served.port, stop))
        await eventually(lambda: model.count("answer") == 1, within_s=5)
        await asyncio.sleep(0.2)
        await ask_until_reranked(served)
        await asyncio.sleep(0.2)
        stop.set()
        return await reading


async def ask_until_reranked(served: Served) -> None:
    """Ask the heavy question and leave when its rerank is done."""
    async with served.asking(HEAVY) as stream:
        await stream.until(
            lambda frame: frame["type"] == "stage" and (frame["node"], frame["state"]) == ("rerank_vector", "end")
        )


def assert_tokens_flow(times: Sequence[float], span: tuple[float, float]) -> None:
    """Tokens came during the span, and no silence between two was longer than half of it."""
    began, ended = span
    near = [at for at in times if began - 0.1 <= at <= ended + 0.1]
    assert sum(began < at < ended for at in near) >= 5
    assert max(later - earlier for earlier, later in pairwise(near)) < (ended - began) / 2


async def test_tokens_of_another_request_flow_while_forty_passages_are_reranked(tmp_path: Path) -> None:
    reranker = BurningReranker()
    times = await read_beside_a_rerank(tmp_path, reranker)
    [span] = reranker.spans
    assert span[1] - span[0] > 0.5
    assert_tokens_flow(times, span)


async def test_tokens_of_another_request_flow_while_a_long_thread_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(draft=lambda count, _: LONG_DRAFT if count else "It is so [[1]].", piece=5)
    home = House(services(tmp_path), model)
    await home.ask(thread="long", client=HOST)
    model.delay_s = 0.1
    spans: list[tuple[float, float]] = []
    render = Presenter.answer

    def burning(presenter: Presenter, turn: Turn, sources: Iterable[StoredSource]) -> Answer:
        began = time.monotonic()
        burn(1.5)
        spans.append((began, time.monotonic()))
        return render(presenter, turn, sources)

    monkeypatch.setattr(Presenter, "answer", burning)
    async with serving(home) as served:
        stop = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(token_times, served.port, stop))
        await eventually(lambda: model.count("answer") == 2, within_s=5)
        await asyncio.sleep(0.2)
        detail = await served.client.get("/threads/long")
        await asyncio.sleep(0.2)
        stop.set()
        times = await reading
    assert detail.headers["content-type"] == "application/json"
    assert detail.json()["items"][0]["answer"] == "It is so [[1]]."
    assert_tokens_flow(times, spans[0])


async def test_a_rerank_on_the_event_loop_fails_the_same_check(tmp_path: Path) -> None:
    reranker = BurningReranker(inline=True)
    times = await read_beside_a_rerank(tmp_path, reranker)
    [span] = reranker.spans
    assert len(times) > 5
    with pytest.raises(AssertionError):
        assert_tokens_flow(times, span)


@pytest.fixture
def cross_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrossEncoderReranker:
    from tests.rerank.test_cross_encoder import write_model

    folder = write_model(tmp_path / "tiny")
    ranker = CrossEncoderReranker.load(str(folder), threads=1, max_concurrent=1)
    monkeypatch.setattr(ranker, "_predict_batch", predicting_for(0.15, ranker._predict_batch))
    return ranker


def predicting_for(
    seconds: float, predict: Callable[[str, list[str]], list[float]]
) -> Callable[[str, list[str]], list[float]]:
    def again(query: str, texts: list[str]) -> list[float]:
        end = time.monotonic() + (seconds if query == HEAVY else 0)
        found = predict(query, texts)
        while time.monotonic() < end:
            found = predict(query, texts)
        return found

    return again


@pytest.mark.slow
async def test_tokens_flow_while_the_real_cross_encoder_ranks_forty_passages(
    tmp_path: Path, cross_encoder: CrossEncoderReranker
) -> None:
    reranker = SlowCrossEncoder(cross_encoder)
    times = await read_beside_a_rerank(tmp_path / "house", reranker)
    [span] = reranker.spans
    assert span[1] - span[0] > 0.5
    assert_tokens_flow(times, span)


@pytest.mark.slow
async def test_the_real_cross_encoder_on_the_event_loop_fails_the_same_check(
    tmp_path: Path, cross_encoder: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_encoder, "scores", inline_scores(cross_encoder))
    reranker = SlowCrossEncoder(cross_encoder)
    times = await read_beside_a_rerank(tmp_path / "house", reranker)
    [span] = reranker.spans
    with pytest.raises(AssertionError):
        assert_tokens_flow(times, span)


def inline_scores(ranker: CrossEncoderReranker) -> Callable[[str, Sequence[str]], object]:
    async def scores(query: str, texts: Sequence[str]) -> list[float]:
        return ranker._predict(query, texts, threading.Event())

    return scores


@dataclass
class HeldReranker:
    """Holds each rerank in its thread until the test lets go."""

    name: str = "held"
    gate: threading.Event = field(default_factory=threading.Event)
    begun: int = 0
    ended: int = 0

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG002 - the port's signature
        self.begun += 1
        await asyncio.to_thread(self.gate.wait, 20)
        self.ended += 1
        return [0.9] * len(texts)

    def state(self) -> ComponentState:
        return ComponentState("reranker", True, self.name)


async def test_healthz_answers_while_twenty_reranks_run(tmp_path: Path) -> None:
    """U17."""
    reranker = HeldReranker()
    async with serving(House(services(tmp_path, reranker=reranker), ScriptedModel())) as served:
        asking = [asyncio.create_task(served.frames()) for _ in range(20)]
        await eventually(lambda: reranker.begun == 20, within_s=5)
        for path in ("/healthz", "/readyz", "/threads", "/skills"):
            assert (await served.client.get(path)).status_code == 200
        assert reranker.ended == 0
        reranker.gate.set()
        assert [frames[-1]["status"] for frames in await asyncio.gather(*asking)] == ["answered"] * 20


async def test_healthz_is_quick_while_the_processor_is_busy_with_a_rerank(tmp_path: Path) -> None:
    reranker = BurningReranker()
    knowledge = FixedKnowledge([passage(n) for n in range(1, 41)])
    home = House(services(tmp_path, knowledge=knowledge, reranker=reranker), ScriptedModel())
    async with serving(home) as served:
        reranking = asyncio.create_task(ask_until_reranked(served))
        times = []
        while not reranker.spans:
            began = time.monotonic()
            assert (await served.client.get("/healthz")).status_code == 200
            times.append(time.monotonic() - began)
        await reranking
    [span] = reranker.spans
    assert sorted(times)[int(len(times) * 0.9)] < (span[1] - span[0]) / 4
