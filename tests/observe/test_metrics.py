"""The numbers that Prometheus reads: what runs leave in them, and that nobody's name or words do."""

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from service.errors import KnowledgeBaseError
from service.graph.state import Limits
from service.model import Grade
from service.observe.loop_lag import LoopLag
from service.observe.metrics import Metrics
from service.observe.route import path_of, paths_by_status, status_of
from service.ports import WebFindings
from tests.fakes import ERROR, FAIL, PASS, FixedKnowledge, ScriptedModel, ScriptedWeb, services
from tests.observe.scraped import above_zero, labels_by_name, read, value
from tests.running import House
from tests.served import eventually

NO = Grade("fail", "off topic")


def metered(tmp_path: Path, model: ScriptedModel, **world: Any) -> tuple[House, Metrics]:
    metrics = Metrics()
    return House(services(tmp_path, **world), model, observers=[metrics]), metrics


@pytest.mark.parametrize(
    ("model", "status", "path"),
    [
        (ScriptedModel(), "answered", "direct"),
        (ScriptedModel(grounded=lambda n: FAIL if n == 0 else PASS), "answered", "regenerated"),
        (ScriptedModel(answering=lambda n: FAIL if n == 0 else PASS), "answered", "rewritten"),
        (ScriptedModel(grading=lambda _, __: NO), "refused", "rewritten+gave_up"),
        (ScriptedModel(grounded=lambda _: FAIL), "partial", "regenerated"),
        (
            ScriptedModel(answering=lambda n: FAIL if n == 0 else PASS, grounded=lambda n: FAIL if n == 1 else PASS),
            "answered",
            "rewritten+regenerated",
        ),
        (ScriptedModel(draft=lambda _, __: "[[abstain]]"), "refused", "gave_up"),
        (ScriptedModel(grading=lambda _, __: Grade("error")), "error", "unfinished"),
    ],
)
async def test_a_run_is_counted_under_its_outcome_and_the_way_it_took(
    tmp_path: Path, model: ScriptedModel, status: str, path: str
) -> None:
    home, metrics = metered(tmp_path, model)
    await home.ask()
    assert above_zero(read(metrics), "gatehouse_runs_total") == {frozenset({("status", status), ("path", path)}): 1}
    assert (status, path) in paths_by_status()


async def test_a_run_with_the_web_says_so_in_its_path_and_counts_how_the_search_went(tmp_path: Path) -> None:
    web = ScriptedWeb(WebFindings("", "unavailable", warning="blocked"))
    home, metrics = metered(tmp_path, ScriptedModel(), web=web)
    await home.ask(web_search=True)
    await home.ask(thread="t2")
    found = read(metrics)
    assert value(found, "gatehouse_runs_total", status="answered", path="web+direct") == 1
    assert value(found, "gatehouse_runs_total", status="answered", path="direct") == 1
    assert above_zero(found, "gatehouse_web_status_total") == {frozenset({("status", "unavailable")}): 1}


async def test_loops_gates_nodes_and_model_calls_are_counted(tmp_path: Path) -> None:
    model = ScriptedModel(answering=lambda n: FAIL if n == 0 else PASS, grounded=lambda n: ERROR if n else PASS)
    home, metrics = metered(tmp_path, model, limits=Limits(top_n=2, handoff_text="Ask."))
    await home.ask()
    found = read(metrics)
    assert value(found, "gatehouse_rewrites_total") == 1
    assert value(found, "gatehouse_regens_total") == 0
    assert value(found, "gatehouse_gate_results_total", gate="grounded", result="error") == 1
    assert value(found, "gatehouse_gate_results_total", gate="answers", result="fail") == 1
    assert value(found, "gatehouse_node_seconds_count", node="generate") == 2
    assert value(found, "gatehouse_model_calls_total", call="answer") == 2
    assert value(found, "gatehouse_run_seconds_count") == 1


async def test_D15_each_grade_that_cannot_be_believed_is_counted_once(tmp_path: Path) -> None:
    """The passage that stays graded through a second pass is not counted again."""
    model = ScriptedModel(
        grading=lambda _, item: Grade("error", "garbage") if item.passage_id.endswith("1") else Grade("pass"),
        answering=lambda n: FAIL if n == 0 else PASS,
    )
    home, metrics = metered(tmp_path, model, limits=Limits(top_n=3, handoff_text="Ask."))
    await home.ask()
    found = read(metrics)
    assert value(found, "gatehouse_gate_results_total", gate="documents", result="error") == 1
    assert value(found, "gatehouse_gate_results_total", gate="documents", result="pass") == 2


async def test_a_run_that_a_restart_ends_is_no_error_of_the_service(tmp_path: Path) -> None:
    home, metrics = metered(tmp_path, ScriptedModel(delay_s=5))
    asking = asyncio.create_task(home.ask())
    await asyncio.sleep(0.05)
    await home.runs.close()
    await asking
    assert above_zero(read(metrics), "gatehouse_runs_total") == {
        frozenset({("status", "shutdown"), ("path", "unfinished")}): 1
    }


async def test_the_series_are_bounded_and_hold_no_client_thread_or_text(tmp_path: Path) -> None:
    home, metrics = metered(tmp_path, ScriptedModel())
    await home.ask()
    before = len(read(metrics))
    for number in range(5):
        await home.ask(f"What is marmalade {number}?", thread=f"thread-{number}", client=f"client-{number}")
    assert len(read(metrics)) == before
    text = metrics.text().decode()
    assert [word for word in ("marmalade", "thread-", "client-", "alice", "record 1") if word in text] == []


def test_every_run_is_a_series_from_the_start_so_that_the_first_error_is_seen() -> None:
    found = read(Metrics())
    for status, path in paths_by_status():
        assert value(found, "gatehouse_runs_total", status=status, path=path) == 0
    assert value(found, "gatehouse_gate_results_total", gate="documents", result="error") == 0
    assert value(found, "gatehouse_dropped_total", what="traces") == 0
    assert value(found, "gatehouse_limiter_fallbacks_total") == 0


def test_what_others_keep_is_read_when_prometheus_asks() -> None:
    metrics, kept = Metrics(), {"running": 3.0, "rerank": 2.0, "alone": 7.0, "traces": 5.0}
    metrics.running(lambda: kept["running"])
    metrics.queue("rerank", lambda: kept["rerank"])
    metrics.limited_alone(lambda: kept["alone"])
    metrics.dropped("traces", lambda: kept["traces"])
    found = read(metrics)
    assert value(found, "gatehouse_runs_under_way") == 3
    assert value(found, "gatehouse_queue_depth", queue="rerank") == 2
    assert value(found, "gatehouse_limiter_fallbacks_total") == 7
    assert value(found, "gatehouse_dropped_total", what="traces") == 5
    kept["alone"] = 8
    assert value(read(metrics), "gatehouse_limiter_fallbacks_total") == 8


def test_two_services_in_one_process_do_not_share_a_number() -> None:
    names = {family.name for family in REGISTRY.collect()}
    one, other = Metrics(), Metrics()
    one.limited_alone(lambda: 1)
    assert value(read(other), "gatehouse_limiter_fallbacks_total") == 0
    assert not any(name.startswith("gatehouse") for name in names)


def test_the_process_shows_its_memory_and_its_open_files() -> None:
    found = read(Metrics())
    assert value(found, "process_resident_memory_bytes") > 1_000_000
    assert value(found, "process_open_fds") > 2
    assert not any(name.endswith("_created") for name in labels_by_name(Metrics()))


async def test_a_blocked_event_loop_shows_as_lag_and_is_forgotten_after_the_window() -> None:
    lag = LoopLag(sample_s=0.01, window_s=0.3)
    lag.start()
    await asyncio.sleep(0.03)
    time.sleep(0.15)  # noqa: ASYNC251 - what the lag is measured for
    await asyncio.sleep(0.03)
    assert lag.worst() > 0.1
    await eventually(lambda: lag.worst() < 0.1, 20)
    await lag.aclose()


def test_the_lag_is_read_in_another_thread_while_it_is_measured() -> None:
    """METRICS_PORT has a thread of its own."""
    lag, measuring = LoopLag(), threading.Event()
    lag._late.extend((0.0, float(n)) for n in range(240))

    def measure() -> None:
        while not measuring.is_set():
            lag._late.append((0.0, 1.0))
            lag._late.popleft()

    thread = threading.Thread(target=measure)
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        assert all(lag.worst() >= 1.0 for _ in range(300))
    finally:
        measuring.set()
        thread.join()
        sys.setswitchinterval(switch_s)


def test_the_path_of_a_run_without_forks_is_unfinished() -> None:
    record: Any = {"ending": {"outcome": "cancelled", "stopped_by": "reader_left"}, "passes": [], "forks": []}
    assert (status_of(record), path_of(record)) == ("cancelled", "unfinished")


async def test_a_run_that_the_store_breaks_is_an_error(tmp_path: Path) -> None:
    knowledge = FixedKnowledge(failing=KnowledgeBaseError("away"))
    home, metrics = metered(tmp_path, ScriptedModel(), knowledge=knowledge)
    await home.ask()
    assert value(read(metrics), "gatehouse_runs_total", status="error", path="unfinished") == 1
