"""A judge that hangs, fails, babbles or is not there: no stream changes, nothing waits, all of it is counted."""

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.observe.judging.judge import connect
from service.observe.judging.metrics import DeepEvalScorer
from service.observe.scorable import scorable_of
from service.observe.scoring import Scoring
from tests.audit.logs import audit_log, bodies
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.messages_server import (
    Asked,
    Behaviour,
    MessagesServer,
    fails,
    falls_silent,
    running_messages_server,
    says,
    sends,
)
from tests.observe.judges import judge_by_containment
from tests.running import House
from tests.served import eventually
from tests.wire import Frame

CHANGING = re.compile(r"(_at|ms|timings|run_id|total)$")
METRICS = ["answer_relevancy", "citation_support", "contextual_relevancy", "faithfulness"]


def normalised(value: Any) -> Any:
    """Ids and times aside."""
    if isinstance(value, dict):
        return {key: normalised(item) for key, item in value.items() if not CHANGING.search(key)}
    if isinstance(value, list):
        return [normalised(item) for item in value]
    return value


@dataclass
class Judged:
    house: House
    scoring: Scoring
    folder: Path

    def recorded(self) -> list[dict[str, Any]]:
        return bodies(self.folder, "score")


@asynccontextmanager
async def judged(
    tmp_path: Path,
    url: str,
    model: Callable[[], ScriptedModel] = ScriptedModel,
    *,
    timeout_s: float = 20.0,
    queue_size: int = 32,
) -> AsyncIterator[Judged]:
    parts = services(tmp_path / "snapshots", knowledge=FixedKnowledge([passage(n) for n in range(1, 3)]))
    async with audit_log(tmp_path / "audit") as audit:
        scoring = Scoring(
            DeepEvalScorer(connect("key", url, timeout_s), "a-judge", lambda *_: 0.0),
            partial(scorable_of, snapshots=parts.snapshots, mask=str),
            audit=audit,
            sample_rate=1.0,
            queue_size=queue_size,
            timeout_s=timeout_s,
            masked=False,
        )
        try:
            yield Judged(House(parts, model, audit=audit, observers=[scoring]), scoring, tmp_path / "audit")
        finally:
            began = time.monotonic()
            await scoring.close()
            assert time.monotonic() - began < 8, "the end of the service waited for a judge"


@pytest.fixture
async def peer() -> AsyncIterator[MessagesServer]:
    async with running_messages_server() as server:
        server.respond = judge_by_containment
        yield server


async def streams(house: House) -> list[list[Frame]]:
    return [await house.ask(thread=f"t{n}") for n in range(3)]


async def unjudged(tmp_path: Path) -> list[list[Frame]]:
    parts = services(tmp_path / "plain", knowledge=FixedKnowledge([passage(n) for n in range(1, 3)]))
    async with audit_log(tmp_path / "plain audit") as audit:
        return await streams(House(parts, ScriptedModel, audit=audit))


FAULTS: dict[str, tuple[Callable[[Asked], Behaviour], str]] = {
    "hangs": (lambda _: falls_silent(head=False), "timeout"),
    "hangs in the middle": (lambda _: falls_silent(2), "timeout"),
    "answers 500": (lambda _: fails(500), "unavailable"),
    "is overloaded": (lambda _: fails(529), "unavailable"),
    "answers garbage": (lambda _: says("\x00 I am a teapot {{{"), "unusable"),
    "answers no message": (lambda _: sends(b"<html>502</html>", "text/html"), "unusable"),
    "answers another JSON": (lambda _: sends(b'{"ok": true}', "application/json"), "unusable"),
}


@pytest.mark.parametrize(("respond", "code"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_judge_that_is_at_fault_changes_no_stream_and_gives_no_score(
    tmp_path: Path, peer: MessagesServer, respond: Callable[[Asked], Behaviour], code: str
) -> None:
    peer.respond = respond
    async with judged(tmp_path, peer.url, timeout_s=1.5) as home:
        seen = await streams(home.house)
        await eventually(lambda: home.scoring.failed >= 1, 20)
        assert home.scoring.state().ok
        assert code in home.scoring.state().warning
        [first, *_] = home.recorded()
    assert normalised(seen) == normalised(await unjudged(tmp_path))
    assert first["scores"] == []
    assert [(none["name"], none["code"]) for none in first["missing"]] == [(name, code) for name in METRICS]


async def test_a_judge_that_is_not_there_changes_no_stream(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with judged(tmp_path, url) as home:
        seen = await streams(home.house)
        await eventually(lambda: home.scoring.failed >= 1, 20)
        assert "unavailable" in home.scoring.state().warning
    assert normalised(seen) == normalised(await unjudged(tmp_path))


async def test_a_judge_that_hangs_under_thirty_answers_is_left_and_every_answer_is_accounted_for(
    tmp_path: Path, peer: MessagesServer
) -> None:
    peer.respond = lambda _: falls_silent(head=False)
    async with judged(tmp_path, peer.url, timeout_s=60, queue_size=4) as home:
        ended = await asyncio.wait_for(asyncio.gather(*(home.house.ask(thread=f"t{n}") for n in range(30))), 60)
        assert [frames[-1]["status"] for frames in ended] == ["answered"] * 30
    assert home.scoring.dropped == 30
    assert home.recorded() == []


def of_number(number: int) -> ScriptedModel:
    """Cites a true sentence; an answer with an odd number says something besides that no source says."""
    lie = f"Nobody keeps record {number} [[1]]. " if number % 2 else ""
    return ScriptedModel(draft=lambda _, sources: f"{lie}{passage(1).text} [[{sources[0].n}]]")


async def test_each_score_is_of_the_very_answer_that_it_stands_beside(tmp_path: Path, peer: MessagesServer) -> None:
    """Twelve runs at once: what the judge says against an answer names the number in that answer, and no other."""
    numbers = iter(range(1, 13))
    async with judged(tmp_path, peer.url, lambda: of_number(next(numbers))) as home:
        ended = await asyncio.gather(*(home.house.ask(thread=f"t{n}") for n in range(12)))
        await eventually(lambda: home.scoring.scored == 12, 60)
        records = {record["run_id"]: record for record in home.recorded()}
    answers = {frames[-1]["run_id"]: str(frames[-1]["answer"]) for frames in ended}
    assert records.keys() == answers.keys()
    for run_id, answer in answers.items():
        scores = {score["name"]: score for score in records[run_id]["scores"]}
        lies = re.findall(r"Nobody keeps record \d+", answer)
        for name in ("faithfulness", "citation_support"):
            assert scores[name]["value"] == (0.5 if lies else 1.0)
            assert re.findall(r"Nobody keeps record \d+", scores[name]["words"]) == lies
