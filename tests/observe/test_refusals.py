"""What a collector refuses of a batch costs that alone: not the runs beside it, and no run without its reason."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from service.model import Source
from service.observe.delivery import LONGEST_WAIT_S, seconds_of
from service.observe.langfuse import LangfuseTraces
from service.observe.spans import CUT, trace_id_of
from service.record import RunRecord
from tests.fakes import ScriptedModel, cite_first, services
from tests.observe.collector import Answer, Collector, collecting, wait_until
from tests.observe.tracing import IBAN, assert_whole, planted_in, traced
from tests.running import House
from tests.served import eventually

RUNS = 8
PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Kept:
    """Keeps the records of runs, to be handed over all at once: they make one batch."""

    def __init__(self) -> None:
        self.records: list[RunRecord] = []

    def ended(self, record: RunRecord) -> None:
        self.records.append(record)


async def records(folder: Path, *answers: str) -> list[RunRecord]:
    """One run for each answer, which is what the model adds to a sentence with its source."""
    kept = Kept()
    for number, answer in enumerate(answers):
        model = ScriptedModel(draft=partial(drafted, answer))
        await House(services(folder / str(number)), model, observers=[kept]).ask(thread=f"t{number}")
    return kept.records


def drafted(said: str, _: int, sources: Sequence[Source]) -> str:
    return f"{cite_first(sources)} {said}"


def hand_over(traces: LangfuseTraces, batch: list[RunRecord]) -> None:
    for record in batch:
        traces.ended(record)


def arrived(collector: Collector, batch: list[RunRecord]) -> list[bool]:
    return [trace_id_of(record["run_id"]) in collector.traces() for record in batch]


def holds_no_more_than(most_bytes: int) -> Callable[[str, bytes], Answer | None]:
    return lambda _, body: (413, b"", {}) if len(body) > most_bytes else None


def refuses(word: str, status: int = 400) -> Callable[[str, bytes], Answer | None]:
    return lambda _, body: (status, b"no", {}) if word.encode() in body else None


async def test_a_batch_that_is_too_large_is_sent_in_parts_and_no_run_is_lost(tmp_path: Path) -> None:
    batch = await records(tmp_path, *["Well."] * RUNS)
    with collecting() as collector:
        with traced(collector.url) as whole:
            hand_over(whole, batch)
            await asyncio.to_thread(wait_until, collector, RUNS)
        most = max(len(body) for body in collector.bodies)
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = holds_no_more_than(most // 3)
        hand_over(traces, batch)
        await asyncio.to_thread(wait_until, collector, RUNS)
        assert traces.state().warning == ""
    assert all(assert_whole(trace) for trace in collector.traces().values())
    assert "cut_to_characters" not in str(collector.bodies)
    assert traces.dropped == 0


async def test_a_run_that_alone_is_too_large_is_sent_with_its_texts_cut_and_marked(tmp_path: Path) -> None:
    batch = await records(tmp_path, "Short.", "So it is. " * 4_000, "Brief.")
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = holds_no_more_than(60_000)
        hand_over(traces, batch)
        await asyncio.to_thread(wait_until, collector, 3)
    roots = [assert_whole(collector.traces()[trace_id_of(record["run_id"])]) for record in batch]
    answers = [root.attributes["langfuse.observation.output"] for root in roots]
    assert [answer.endswith(CUT) for answer in answers] == [False, True, False]
    assert len(answers[1]) == 2_000 + len(CUT)
    assert roots[1].metadata("cut_to_characters") == 2_000
    assert traces.dropped == 0


async def test_a_text_is_cut_after_it_is_masked(tmp_path: Path) -> None:
    """An IBAN across the cut would leave by its first half otherwise."""
    [record] = await records(tmp_path, "x " * 100)
    record["answer"] = "x" * 1_990 + f" {IBAN} " + "y" * 50_000
    with collecting() as collector, traced(collector.url) as traces:
        collector.respond = holds_no_more_than(40_000)
        traces.ended(record)
        await asyncio.to_thread(wait_until, collector, 1)
    assert CUT.encode() in b"".join(collector.bodies)
    assert b"DE89" not in b"".join(collector.bodies)
    assert planted_in(collector) == []


async def test_a_run_that_is_too_large_even_when_it_is_cut_is_dropped_with_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch = await records(tmp_path, "Short.", "Longer.")
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = refuses(batch[1]["run_id"], 413)  # which no cut takes away
        hand_over(traces, batch)
        await eventually(lambda: traces.dropped == 1, within_s=10)
        state = traces.state()
    assert arrived(collector, batch) == [True, False]
    assert "1 sent, 0 waiting, 1 dropped (1: HTTP 413: too large for the server; raise the limit" in state.detail
    assert state.warning.startswith("Not every trace arrives: HTTP 413: too large")
    assert "traces: refused: HTTP 413: too large for the server; raise the limit" in caplog.text


@pytest.mark.parametrize("status", [400, 422])
async def test_a_run_that_cannot_be_used_costs_no_run_beside_it(tmp_path: Path, status: int) -> None:
    batch = await records(tmp_path, *["Fine."] * 5, "Poison.", *["Fine."] * 2)
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = refuses("Poison", status)
        hand_over(traces, batch)
        await eventually(lambda: traces.dropped == 1, within_s=10)
        await asyncio.to_thread(wait_until, collector, RUNS - 1)
        assert f"1: HTTP {status}: the server cannot use what was sent" in traces.state().detail
    assert arrived(collector, batch) == [True] * 5 + [False] + [True] * 2


async def test_a_refused_score_costs_neither_its_neighbours_nor_the_runs_of_the_batch(tmp_path: Path) -> None:
    batch = await records(tmp_path, "Fine.")
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = refuses("poison")
        for number in range(6):
            traces.score(f"r{number}", "poison" if number == 2 else "faithfulness", 1.0)
        hand_over(traces, batch)
        await eventually(lambda: len(collector.scores) == 5, within_s=10)
        await asyncio.to_thread(wait_until, collector, 1)
        await eventually(lambda: traces.dropped == 1, within_s=10)
    assert len(collector.spans) == len(collector.traces()[trace_id_of(batch[0]["run_id"])])  # sent once


async def test_a_fault_of_our_own_in_one_item_costs_that_item_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body = LangfuseTraces._body
    monkeypatch.setattr(
        LangfuseTraces, "_body", lambda self, score: 1 / 0 if score.name == "bad" else body(self, score)
    )
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        for name in ("good", "bad", "fine"):
            traces.score("r1", name, 1.0)
        await eventually(lambda: (len(collector.scores), traces.dropped) == (2, 1), within_s=10)
    assert caplog.text.count("ZeroDivisionError") == 1


async def test_a_text_that_is_no_unicode_spoils_no_other_run(tmp_path: Path) -> None:
    batch = await records(tmp_path, "One.", "Two.", "Three.")
    batch[1]["answer"] = "a lone surrogate \ud800"
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        hand_over(traces, batch)
        await asyncio.to_thread(wait_until, collector, 3)
    assert traces.dropped == 0


@pytest.mark.parametrize("form", ["json", "protobuf"])
async def test_spans_that_a_success_leaves_out_are_counted_and_not_sent_again(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    batch = await records(tmp_path, "One.", "Two.")
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = lambda path, _: partly(3, form) if path.endswith("/traces") else None
        hand_over(traces, batch)
        await eventually(lambda: traces.state().warning != "", within_s=10)
        state = traces.state()
        assert collector.tries == 1
    assert "2 sent, 0 waiting, 0 dropped, 3 single spans refused" in state.detail
    assert state.warning.startswith("Not every trace arrives: 3 of ")
    assert "Langfuse's own log says why" in caplog.text


def partly(refused: int, form: str) -> Answer:
    """A partial success (OTLP/HTTP). 64-bit numbers are texts in its JSON."""
    if form == "json":
        return 200, json.dumps({"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": "no"}}).encode(), {}
    partial = ExportTracePartialSuccess(rejected_spans=refused, error_message="no")
    return 200, ExportTraceServiceResponse(partial_success=partial).SerializeToString(), PROTOBUF


async def test_a_success_that_takes_no_span_at_all_is_none(tmp_path: Path) -> None:
    batch = await records(tmp_path, "One.")
    with collecting() as collector, traced(collector.url) as traces:
        collector.respond = lambda *_: partly(10_000, "json")
        hand_over(traces, batch)
        await eventually(lambda: traces.dropped == 1, within_s=10)
        assert "0 sent, 0 waiting, 1 dropped (1: every span" in traces.state().detail


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{}", {}),
        (b'{"partialSuccess": {}}', {}),
        (b'{"partialSuccess": {"rejectedSpans": -4}}', {}),
        (b'{"partialSuccess": "no"}', {}),
        (b"\xff\xff\xff", PROTOBUF),
        (b"", PROTOBUF),
        (b"accepted", {"Content-Type": "text/plain"}),
    ],
)
async def test_a_success_that_says_nothing_of_refused_spans_is_whole(
    tmp_path: Path, body: bytes, headers: dict[str, str]
) -> None:
    batch = await records(tmp_path, "One.")
    with collecting() as collector, traced(collector.url) as traces:
        collector.respond = lambda *_: (200, body, headers)
        hand_over(traces, batch)
        await eventually(lambda: "1 sent" in traces.state().detail, within_s=10)
        assert (traces.dropped, traces.refused_spans, traces.state().warning) == (0, 0, "")


@pytest.mark.parametrize(
    ("body", "lost"), [(b'{"accepted": 3, "rejected": 2, "errors": []}', 2), (b"not what it says", 1)]
)
async def test_scores_that_a_207_leaves_out_are_counted_and_not_sent_again(body: bytes, lost: int) -> None:
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.respond = lambda *_: (207, body, {})
        for number in range(5):
            traces.score(f"r{number}", "faithfulness", 1.0)
        await eventually(lambda: traces.dropped == lost, within_s=10)
        assert f"{5 - lost} sent, 0 waiting, {lost} dropped" in traces.state().detail
        assert collector.tries == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_server_that_asks_for_patience_is_asked_again_no_sooner(tmp_path: Path, status: int) -> None:
    batch = await records(tmp_path, "One.")
    asked: list[float] = []

    def later(*_: object) -> Answer | None:
        asked.append(time.monotonic())
        return (status, b"", {"Retry-After": "1"}) if len(asked) == 1 else None

    with collecting() as collector, traced(collector.url, pauses_s=(0.01,)) as traces:
        collector.respond = later
        hand_over(traces, batch)
        await asyncio.to_thread(wait_until, collector, 1)
    assert asked[1] - asked[0] >= 1
    assert traces.dropped == 0


def test_how_long_a_server_asks_to_wait_is_read_and_bounded() -> None:
    assert seconds_of("7") == 7
    assert seconds_of("86400") == LONGEST_WAIT_S
    assert [seconds_of(nonsense) for nonsense in ("", "-3", "soon", "1e9", "²", "9" * 400)] == [0, 0, 0, 0, 0, 60]
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < seconds_of(soon) <= 30
    assert seconds_of("Sun, 06 Nov 1994 08:49:37 GMT") == 0


async def test_a_server_that_refuses_before_it_has_read_everything_is_understood(tmp_path: Path) -> None:
    """A proxy answers 413 by the length alone, and closes."""
    batch = await records(tmp_path, "Short.", "Brief.")
    with collecting() as collector, traced(collector.url, linger_s=0.2) as traces:
        collector.unread_over = 2_000
        hand_over(traces, batch)
        await eventually(lambda: traces.dropped == 2, within_s=10)
        assert "2: HTTP 413: too large" in traces.state().detail
