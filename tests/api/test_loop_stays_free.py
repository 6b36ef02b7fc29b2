"""Reranking and rendering compute in threads: other requests' tokens keep flowing, and the service stays alive.

No clock decides: the work goes on until the tokens of another request have been read meanwhile, or until it gives up.
The reader is a thread with a blocking socket, so that it does not stand still with the server's loop.
"""

import asyncio
import hashlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
LONG_DRAFT = "word " * 2000 + "[[1]]."
ENOUGH = 20
"""Tokens: more than can have lain in the sockets' buffers unread when the rerank began."""
GIVES_UP_S = 20.0
BLOCKS_FOR_S = 0.6


@dataclass
class UnderWay:
    """Work that goes on until `enough` is set; `seen` counts what was answered to others meanwhile."""

    gives_up_s: float = GIVES_UP_S
    enough: threading.Event = field(default_factory=threading.Event)
    going: threading.Event = field(default_factory=threading.Event)
    seen: int = 0

    def note(self) -> None:
        """Something was answered to another request."""
        if self.going.is_set():
            self.seen += 1
            if self.seen >= ENOUGH:
                self.enough.set()

    def go_on(self, step: Callable[[], object]) -> None:
        """Take step after step until others have had enough, or for `gives_up_s`."""
        until = time.monotonic() + self.gives_up_s
        while not self.enough.is_set() and time.monotonic() < until:
            step()


def burn() -> None:
    """Keep a processor busy for some milliseconds as a model does: in C, without the interpreter's lock."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 4000)


@dataclass
class BurningReranker:
    """Keeps a processor busy for the heavy question; `inline` does it on the event loop."""

    rerank: UnderWay
    inline: bool = False
    name: str = "burning"

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if query == HEAVY:
            self.rerank.going.set()
            if self.inline:
                self.rerank.go_on(burn)
            else:
                await asyncio.to_thread(self.rerank.go_on, burn)
            self.rerank.going.clear()
        return [0.9] * len(texts)

    def state(self) -> ComponentState:
        return ComponentState("reranker", True, self.name)


@dataclass
class SlowCrossEncoder:
    """The real adapter over a tiny model; the batches of the heavy question are predicted over and over."""

    ranker: CrossEncoderReranker
    rerank: UnderWay
    name: str = "tiny"

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if query == HEAVY:
            self.rerank.going.set()
        found = await self.ranker.scores(query, texts)
        self.rerank.going.clear()
        return found

    def state(self) -> ComponentState:
        return self.ranker.state()


def read_tokens(port: int, stop: threading.Event, seen: Callable[[], None]) -> None:
    """Read the quick question's stream line by line."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("POST", "/chat", json.dumps({"question": QUICK}), {"Content-Type": "application/json"})
    for line in connection.getresponse():
        if line == b"event: token\n":
            seen()
        if stop.is_set():
            break
    connection.close()


async def read_beside_a_rerank(folder: Path, reranker: Reranker, rerank: UnderWay) -> None:
    """Let one request's tokens flow, and rerank 40 passages for another one meanwhile."""
    knowledge = FixedKnowledge([passage(n) for n in range(1, 41)])
    model = ScriptedModel(draft=lambda *_: LONG_DRAFT, piece=5, delay_s=0.1)
    home = House(services(folder, knowledge=knowledge, reranker=reranker), model)
    async with serving(home) as served:
        stop = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(read_tokens, served.port, stop, rerank.note))
        await eventually(lambda: model.count("answer") == 1)
        await ask_until_reranked(served)
        stop.set()
        await reading


async def ask_until_reranked(served: Served) -> None:
    """Ask the heavy question and leave when its rerank is done."""
    async with served.asking(HEAVY) as stream:
        await stream.until(
            lambda frame: frame["type"] == "stage" and (frame["node"], frame["state"]) == ("rerank_vector", "end")
        )


async def test_tokens_of_another_request_flow_while_forty_passages_are_reranked(tmp_path: Path) -> None:
    rerank = UnderWay()
    await read_beside_a_rerank(tmp_path, BurningReranker(rerank), rerank)
    assert rerank.seen >= ENOUGH


async def test_tokens_of_another_request_flow_while_a_long_thread_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(draft=lambda count, _: LONG_DRAFT if count else "It is so [[1]].", piece=5)
    home = House(services(tmp_path), model)
    await home.ask(thread="long", client=HOST)
    model.delay_s = 0.1
    rendering = UnderWay()
    render = Presenter.answer

    def burning(presenter: Presenter, turn: Turn, sources: Iterable[StoredSource]) -> Answer:
        rendering.going.set()
        rendering.go_on(burn)
        rendering.going.clear()
        return render(presenter, turn, sources)

    monkeypatch.setattr(Presenter, "answer", burning)
    async with serving(home) as served:
        stop = threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(read_tokens, served.port, stop, rendering.note))
        await eventually(lambda: model.count("answer") == 2)
        detail = await served.client.get("/threads/long")
        stop.set()
        await reading
    assert detail.json()["items"][0]["answer"] == "It is so [[1]]."
    assert rendering.seen >= ENOUGH


async def test_a_rerank_on_the_event_loop_fails_the_same_check(tmp_path: Path) -> None:
    rerank = UnderWay(BLOCKS_FOR_S)
    await read_beside_a_rerank(tmp_path, BurningReranker(rerank, inline=True), rerank)
    assert rerank.seen < ENOUGH


@pytest.fixture
def cross_encoder(tmp_path: Path) -> CrossEncoderReranker:
    from tests.rerank.test_cross_encoder import write_model

    return CrossEncoderReranker.load(str(write_model(tmp_path / "tiny")), threads=1, max_concurrent=1)


def predicting(
    rerank: UnderWay, predict: Callable[[str, list[str]], list[float]]
) -> Callable[[str, list[str]], list[float]]:
    """Predict once, and for the heavy question over and over."""

    def again(query: str, texts: list[str]) -> list[float]:
        if query == HEAVY:
            rerank.go_on(lambda: predict(query, texts))
        return predict(query, texts)

    return again


@pytest.mark.slow
async def test_tokens_flow_while_the_real_cross_encoder_ranks_forty_passages(
    tmp_path: Path, cross_encoder: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rerank = UnderWay()
    monkeypatch.setattr(cross_encoder, "_predict_batch", predicting(rerank, cross_encoder._predict_batch))
    await read_beside_a_rerank(tmp_path / "house", SlowCrossEncoder(cross_encoder, rerank), rerank)
    assert rerank.seen >= ENOUGH


@pytest.mark.slow
async def test_the_real_cross_encoder_on_the_event_loop_fails_the_same_check(
    tmp_path: Path, cross_encoder: CrossEncoderReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rerank = UnderWay(BLOCKS_FOR_S / 5)  # five batches of eight
    monkeypatch.setattr(cross_encoder, "_predict_batch", predicting(rerank, cross_encoder._predict_batch))
    monkeypatch.setattr(cross_encoder, "scores", inline_scores(cross_encoder))
    await read_beside_a_rerank(tmp_path / "house", SlowCrossEncoder(cross_encoder, rerank), rerank)
    assert rerank.seen < ENOUGH


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
        await eventually(lambda: reranker.begun == 20)
        for path in ("/healthz", "/readyz", "/threads", "/skills"):
            assert (await served.client.get(path)).status_code == 200
        assert reranker.ended == 0
        reranker.gate.set()
        assert [frames[-1]["status"] for frames in await asyncio.gather(*asking)] == ["answered"] * 20


async def test_healthz_is_answered_again_and_again_while_the_processor_is_busy_with_a_rerank(tmp_path: Path) -> None:
    rerank = UnderWay()
    knowledge = FixedKnowledge([passage(n) for n in range(1, 41)])
    home = House(services(tmp_path, knowledge=knowledge, reranker=BurningReranker(rerank)), ScriptedModel())
    async with serving(home) as served:
        reranking = asyncio.create_task(ask_until_reranked(served))
        while not reranking.done():
            assert (await served.client.get("/healthz")).status_code == 200
            rerank.note()
        await reranking
    assert rerank.seen >= ENOUGH
