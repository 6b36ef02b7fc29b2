"""A collector that hangs, answers nonsense or is absent: nothing changes for the reader, and the end comes in time."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest

from service.observe.langfuse import CLOSING_S, LangfuseTraces
from service.observe.spans import trace_id_of
from service.ports import RunObserver
from tests.fakes import FAIL, PASS, ScriptedModel, services
from tests.observe.collector import Manner, collecting, wait_until
from tests.observe.tracing import assert_whole, traced
from tests.postgres_server import free_port
from tests.running import House
from tests.served import eventually
from tests.wire import Frame, assert_grammar

BROKEN = [manner for manner in get_args(Manner) if manner not in ("well", "trickling")]
CHATS = 8
OF_ONE_RUN = {"run_id", "ms", "timings", "asked_at", "fetched_at"}
MARGIN_S = 1.5  # for a machine that is busy; a flush without a limit takes 18 s


@contextmanager
def place(manner: str) -> Iterator[str]:
    """The address of a collector of this manner; `absent` is a port that nobody listens on."""
    if manner == "absent":
        yield f"http://127.0.0.1:{free_port()}"
        return
    with collecting(manner) as collector:  # type: ignore[arg-type]  # one of the manners
        yield collector.url


def normalised(frames: list[Frame]) -> list[Frame]:
    """Without what is of this run alone: its id and its times."""
    return [{key: value for key, value in frame.items() if key not in OF_ONE_RUN} for frame in frames]


async def streams(folder: Path, *observers: RunObserver) -> list[list[Frame]]:
    """Eight chats at once, each with a second draft."""
    grounded = ScriptedModel(grounded=lambda count: PASS if count else FAIL)
    home = House(services(folder), lambda: ScriptedModel(grounded=grounded.grounded), observers=observers)
    return await asyncio.gather(*(home.ask(f"How long is record {n} kept?", thread=f"t{n}") for n in range(CHATS)))


@pytest.mark.parametrize("manner", [*BROKEN, "trickling", "absent"])
async def test_a_broken_collector_changes_no_stream_and_ends_in_time(tmp_path: Path, manner: str) -> None:
    alone = await streams(tmp_path / "alone")
    with place(manner) as host, traced(host) as traces:
        watched = await streams(tmp_path / "watched", traces)
        began = time.monotonic()
        await asyncio.to_thread(traces.close)
        assert time.monotonic() - began < CLOSING_S + MARGIN_S
    assert [normalised(frames) for frames in watched] == [normalised(frames) for frames in alone]
    for frames in watched:
        assert_grammar(frames)
    if manner != "trickling":  # whose head says that the batch has arrived
        assert traces.dropped == CHATS


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("hanging", "no answer within"),
        ("failing", "HTTP 500"),
        ("refusing", "HTTP 401: are LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"),
        ("garbage", "cannot be reached (RemoteProtocolError)"),
        ("page", "answered with a web page; is LANGFUSE_HOST"),
        ("absent", "cannot be reached (ConnectError)"),
    ],
)
async def test_readyz_says_why_traces_do_not_arrive_and_how_many_were_dropped(
    tmp_path: Path, manner: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with place(manner) as host, traced(host, timeout_s=0.2, pauses_s=(0.01,)) as traces:
        assert traces.state().warning == ""
        await House(services(tmp_path), ScriptedModel(), observers=[traces]).ask()
        await eventually(lambda: traces.dropped == 1, within_s=5)
        state = traces.state()
        await House(services(tmp_path), ScriptedModel(), observers=[traces]).ask()
        await eventually(lambda: traces.dropped == 2, within_s=5)
    assert state.ok  # a question is answered without it
    assert why in state.warning
    assert "1 dropped" in state.detail
    assert "sk-test" not in f"{state} {caplog.text}"
    assert len([line for line in caplog.messages if line.startswith("traces: not sent: ")]) == 1  # of one outage


async def test_a_run_that_could_not_be_sent_at_first_is_sent_once_the_collector_is_back(tmp_path: Path) -> None:
    with collecting("failing") as collector, traced(collector.url, pauses_s=(0.05, 5.0)) as traces:
        await House(services(tmp_path), ScriptedModel(), observers=[traces]).ask()
        await eventually(lambda: collector.tries == 1, within_s=5)
        collector.manner = "well"
        await asyncio.to_thread(wait_until, collector, 1)
        await eventually(lambda: traces.state().warning == "", within_s=5)
    [trace] = collector.traces().values()
    assert_whole(trace)
    assert traces.dropped == 0


async def test_the_same_run_sent_twice_is_one_trace_with_the_same_spans(tmp_path: Path) -> None:
    seen: list[LangfuseTraces] = []
    with collecting() as collector, traced(collector.url) as one, traced(collector.url) as other:
        seen += [one, other]
        [*_, done] = await House(services(tmp_path), ScriptedModel(), observers=seen).ask()
        await eventually(lambda: len(collector.bodies) == 2, within_s=5)
    [(trace_id, trace)] = collector.traces().items()
    assert trace_id == trace_id_of(done["run_id"])
    assert len(collector.spans) == 2 * len(trace)


async def test_more_runs_than_may_wait_are_dropped_and_counted_and_none_waits(tmp_path: Path) -> None:
    with collecting("hanging") as collector, traced(collector.url, timeout_s=30, limit=4) as traces:
        home = House(services(tmp_path), ScriptedModel(), observers=[traces])
        await home.ask(thread="first")
        await eventually(lambda: collector.tries == 1, within_s=5)
        for number in range(10):
            assert (await home.ask(thread=f"t{number}"))[-1]["type"] == "done"
        assert traces.dropped == 6
        assert "4 waiting, 6 dropped" in traces.state().detail
    assert traces.dropped == 11


async def test_what_waits_at_the_end_is_sent_where_the_collector_answers(tmp_path: Path) -> None:
    with collecting() as collector:
        with traced(collector.url) as traces:
            home = House(services(tmp_path), ScriptedModel(), observers=[traces])
            for number in range(20):
                await home.ask(thread=f"t{number}")
        assert len(collector.traces()) == 20
    assert traces.dropped == 0


async def test_a_record_that_makes_no_trace_is_logged_and_hides_none_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with collecting() as collector, traced(collector.url) as traces:
        traces.ended({"run_id": "broken"})  # type: ignore[typeddict-item]  # that is the point
        await House(services(tmp_path), ScriptedModel(), observers=[traces]).ask()
        await asyncio.to_thread(wait_until, collector, 1)
    assert "run makes no trace run_id=broken" in caplog.text
    assert traces.dropped == 1


LEAVES_WITH_FIFTY = """
import sys
from tests.observe.tracing import traced
with traced(sys.argv[1], timeout_s=30) as traces:
    for number in range(50):
        traces.score(f"r{number}", "faithfulness", 1.0)
print(traces.dropped)
"""


@pytest.mark.slow
def test_D08_a_process_with_a_hanging_collector_ends_within_seconds() -> None:
    with collecting("hanging") as collector:
        command = [sys.executable, "-c", LEAVES_WITH_FIFTY, collector.url]
        loading = [sys.executable, "-c", "import tests.observe.tracing"]
        began = time.monotonic()
        subprocess.run(loading, check=True, timeout=60)
        loaded = time.monotonic()
        done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
        assert time.monotonic() - loaded < (loaded - began) + CLOSING_S + 2 * MARGIN_S
    assert done.stdout.strip() == "50"
