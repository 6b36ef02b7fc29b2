"""Scores stand beside the trace of their run: thumbs, and whatever a judge says of an answer."""

import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.observe.null import NoTraces
from service.observe.spans import trace_id_of
from service.ports import FeedbackObserver, Reporting, RunObserver, ScoreSink
from service.record import FeedbackRecord
from tests.audit.logs import audit_log
from tests.fakes import ScriptedModel, services
from tests.observe.collector import collecting
from tests.observe.tracing import PRIVATE, planted_in, traced
from tests.running import House
from tests.served import Served, eventually, serving


async def test_a_thumb_is_a_score_of_the_run_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    with collecting() as collector, traced(collector.url) as traces:
        async with recorded(tmp_path, traces) as served:
            run_id = (await served.frames(thread_id="t"))[-1]["run_id"]
            for thumbs in ("up", "down"):
                body = {"thumbs": thumbs, "comment": PRIVATE}
                assert (await served.client.post(f"/runs/{run_id}/feedback", json=body)).status_code == 201
            await eventually(lambda: len(collector.scores) == 2, within_s=5)
    assert [(score["traceId"], score["name"], score["value"]) for score in collector.scores] == [
        (trace_id_of(run_id), "thumbs", 1.0),
        (trace_id_of(run_id), "thumbs", 0.0),
    ]
    assert len({score["id"] for score in collector.scores}) == 1
    assert planted_in(collector) == []


class Broken:
    def feedback(self, record: FeedbackRecord) -> None:
        raise RuntimeError(f"no room for {record['run_id']}")


@asynccontextmanager
async def recorded(folder: Path, observer: FeedbackObserver) -> AsyncIterator[Served]:
    """A served house with an audit log, whose feedback one observer is told of."""
    async with audit_log(folder / "audit") as audit:
        home = House(services(folder), ScriptedModel(), audit=audit)
        async with serving(home, feedback_observers=[observer]) as served:
            yield served


async def test_feedback_that_an_observer_chokes_on_is_kept_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with recorded(tmp_path, Broken()) as served:
        run_id = (await served.frames(thread_id="t"))[-1]["run_id"]
        given = await served.client.post(f"/runs/{run_id}/feedback", json={"thumbs": "up"})
    assert given.json() == {"run_id": run_id, "kept": True}
    assert "feedback not observed" in caplog.text


async def test_scores_from_many_threads_each_reach_their_own_run() -> None:
    with collecting() as collector, traced(collector.url) as traces:
        sink: ScoreSink = traces

        def judge(number: int) -> None:
            for name in ("faithfulness", "relevancy"):
                sink.score(f"r{number}", name, number / 100, f"of run {number}")

        judges = [threading.Thread(target=judge, args=(number,)) for number in range(30)]
        for thread in judges:
            thread.start()
        for thread in judges:
            thread.join()
        await eventually(lambda: len(collector.scores) == 60, within_s=5)
    assert {(score["traceId"], score["value"], score["comment"]) for score in collector.scores} == {
        (trace_id_of(f"r{number}"), number / 100, f"of run {number}") for number in range(30)
    }


def test_a_score_that_is_no_number_is_left_out_and_raises_nothing() -> None:
    with collecting() as collector, traced(collector.url) as traces:
        traces.score("r1", "faithfulness", math.nan)
        traces.score("r1", "relevancy", 0.25)
    assert [score["name"] for score in collector.scores] == ["relevancy"]


def test_traces_that_are_off_take_everything_and_say_so() -> None:
    off = NoTraces("off", "a warning")
    assert all(isinstance(off, port) for port in (FeedbackObserver, Reporting))
    observer: RunObserver = off
    assert observer is off
    off.score("r1", "faithfulness", 1.0)
    assert (off.state().ok, off.state().detail, off.state().warning) == (True, "off", "a warning")
