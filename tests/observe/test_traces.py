"""What the collector holds: one whole tree for each run, with the right session and user, and nothing private."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from service.model import Judgement
from service.observe.spans import trace_id_of
from service.observe.tree import NODE_OF
from service.record import FeedbackRecord
from tests.api.guarded import ALICE, BOB, KEYS, access, bearer
from tests.api.stalling import PHASES, Stall, stalling
from tests.fakes import FAIL, PASS, FixedKnowledge, ScriptedModel, cite_first, passage, services
from tests.observe.collector import collecting, wait_until
from tests.observe.tracing import MAIL, PRIVATE, Spending, assert_whole, below, planted_in, traced
from tests.running import House
from tests.served import Served, eventually, serving
from tests.skills.writing import skill

CHATS, LEAVING = 20, 5


async def chat(served: Served, stall: Stall, number: int) -> None:
    """Ask on a thread of one's own, alice and bob in turn; the first five vanish while their run stalls."""
    leaves = number < LEAVING
    question = f"stall in {PHASES[number]}" if leaves else f"How long is record {number} kept? {PRIVATE}"
    headers = bearer(BOB if number % 2 else ALICE)
    async with served.asking(question, headers=headers, thread_id=f"t{number}") as stream:
        if leaves:
            await eventually(lambda: question in stall.reached, within_s=10)
            stream.connection.vanish()
        else:
            assert [frame async for frame in stream.frames][-1]["type"] == "done"


async def test_D07_twenty_chats_at_once_make_twenty_whole_traces_though_five_readers_leave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, model, stall = stalling(tmp_path)
    model.draft = lambda _, sources: f"{cite_first(sources)} {PRIVATE}."
    model.grounded = lambda _: Judgement("pass", PRIVATE)
    with collecting() as collector, traced(collector.url) as traces:
        async with serving(House(world, model, observers=[traces]), access=access(tmp_path, *KEYS)) as served:
            await asyncio.gather(*(chat(served, stall, number) for number in range(CHATS)))
            await eventually(lambda: len(stall.left) == len(stall.reached) >= LEAVING, within_s=5)
        await asyncio.to_thread(wait_until, collector, CHATS)
    roots = [assert_whole(trace) for trace in collector.traces().values()]
    assert {(root.attributes["session.id"], root.attributes["user.id"]) for root in roots} == {
        (f"t{number}", "bob" if number % 2 else "alice") for number in range(CHATS)
    }
    outcomes = {root.attributes["session.id"]: root.metadata("outcome") for root in roots}
    assert {thread for thread, outcome in outcomes.items() if outcome == "cancelled"} == {"t0", "t1", "t2", "t3", "t4"}
    assert planted_in(collector) == []
    assert not any("detach" in line or "different Context" in line for line in caplog.messages)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_model_request_hangs_below_the_step_and_the_pass_that_made_it(tmp_path: Path) -> None:
    model = Spending(grounded=lambda count: PASS if count else FAIL, delay_s=0.003)
    world = services(tmp_path, knowledge=FixedKnowledge([passage(1), passage(2)]))
    with collecting() as collector, traced(collector.url) as traces:
        home = House(world, model, observers=[traces])
        await home.ask("How long is record 1 kept?", thread="t")
        [*_, done] = await home.ask("And record 2?", thread="t")
        await asyncio.to_thread(wait_until, collector, 2)
    trace = collector.traces()[trace_id_of(done["run_id"])]
    root = assert_whole(trace)
    by_id = {span.span_id: span for span in trace}
    generations = [span for span in trace if span.kind == "generation"]
    assert {span.name for span in generations} == {"condense", "grade", "answer", "judge_grounded", "judge_answers"}
    assert all(by_id[span.parent_id].name == NODE_OF[span.name] for span in generations)
    drafts = [span for span in below(trace, root) if span.name == "generate"]
    assert all(len(below(trace, draft)) == 1 for draft in drafts)
    one = generations[0].attributes
    assert one["langfuse.observation.model.name"] == "claude-test"
    assert json.loads(one["langfuse.observation.usage_details"]) == {"input": 100, "output": 10}
    assert json.loads(one["langfuse.observation.cost_details"]) == {"total": 0.0012}
    assert generations[0].metadata("prompt_sha256") == "ab" * 32


async def test_a_run_that_loops_shows_every_pass_with_its_own_draft(tmp_path: Path) -> None:
    drafts = ["The first [[1]].", "The second [[1]]."]
    model = Spending(draft=lambda count, _: drafts[count], grounded=lambda count: PASS if count else FAIL)
    with collecting() as collector, traced(collector.url) as traces:
        home = House(services(tmp_path, knowledge=FixedKnowledge([passage(1)])), model, observers=[traces])
        await home.ask()
        await asyncio.to_thread(wait_until, collector, 1)
    [trace] = collector.traces().values()
    root = assert_whole(trace)
    shown = [span for span in below(trace, root) if span.name == "generate"]
    assert [span.attributes["langfuse.observation.output"] for span in sorted(shown, key=lambda s: s.began)] == drafts
    assert all([child.name for child in below(trace, span)] == ["answer"] for span in shown)
    assert root.metadata("regens") == 1


async def test_a_trace_says_what_was_asked_and_answered_with_which_skill_and_toggle(tmp_path: Path) -> None:
    with collecting() as collector, traced(collector.url) as traces:
        home = House(services(tmp_path), ScriptedModel(), observers=[traces])
        [*_, done] = await home.ask("How long is record 1 kept?", web_search=True, skill=skill("short"))
        await asyncio.to_thread(wait_until, collector, 1)
    [(trace_id, trace)] = collector.traces().items()
    root = assert_whole(trace)
    assert trace_id == trace_id_of(done["run_id"])
    assert root.attributes["langfuse.trace.tags"] == ["skill:short", "web:on"]
    assert root.attributes["langfuse.observation.input"] == "How long is record 1 kept?"
    assert root.attributes["langfuse.observation.output"] == done["answer"]
    assert root.metadata("outcome") == "answered"
    assert {(verdict["gate"], verdict["result"]) for verdict in root.metadata("verdicts")} >= {("grounded", "pass")}
    stages = {span.name for span in below(trace, root)}
    assert {"contextualize", "retrieve_vector", "search_web", "generate", "reflect", "finalize"} <= stages
    assert collector.headers[0]["Authorization"].startswith("Basic ")


async def test_a_private_thread_or_client_is_told_by_a_stand_in(tmp_path: Path) -> None:
    with collecting() as collector, traced(collector.url) as traces:
        home = House(services(tmp_path), ScriptedModel(), observers=[traces])
        await home.ask(thread="DE89370400440532013000", client=MAIL)
        await home.ask(thread="GB29NWBK60161331926819", client=MAIL)
        await asyncio.to_thread(wait_until, collector, 2)
    roots = [assert_whole(trace) for trace in collector.traces().values()]
    assert len({root.attributes["session.id"] for root in roots}) == 2
    assert len({root.attributes["user.id"] for root in roots}) == 1
    assert planted_in(collector) == []


async def test_without_content_no_question_answer_or_source_text_leaves(tmp_path: Path) -> None:
    model = Spending(grounded=lambda count: Judgement("pass" if count else "fail", "judge says zebra"))
    model.draft = lambda _, sources: f"{cite_first(sources)} Okapi."
    world = services(tmp_path, knowledge=FixedKnowledge([passage(1, "A quagga must keep its stripes for 1 years.")]))
    with collecting() as collector, traced(collector.url, content=False) as traces:
        home = House(world, model, observers=[traces])
        [*_, done] = await home.ask("What of the ocelot?", web_search=True)
        traces.score(done["run_id"], "faithfulness", 0.5, "since the okapi")
        traces.feedback(feedback(done["run_id"], "down", "the okapi is wrong"))
        await asyncio.to_thread(wait_until, collector, 1)
        await eventually(lambda: len(collector.scores) == 2, within_s=5)
    everything = b"\n".join(collector.bodies).decode("utf-8", "replace").lower()
    assert [word for word in ("ocelot", "okapi", "quagga", "zebra", "rulebook") if word in everything] == []
    [trace] = collector.traces().values()
    assert assert_whole(trace).metadata("outcome") == done["status"]
    assert traces.state().detail.endswith("without content")


async def test_the_processes_own_tracer_provider_is_never_touched(tmp_path: Path) -> None:
    with collecting() as collector, traced(collector.url) as traces:
        await House(services(tmp_path), ScriptedModel(), observers=[traces]).ask()
        await asyncio.to_thread(wait_until, collector, 1)
    assert isinstance(get_tracer_provider(), ProxyTracerProvider)


async def test_a_share_of_the_runs_is_traced_and_their_scores_with_them(tmp_path: Path) -> None:
    with collecting() as collector, traced(collector.url, sample_rate=0.5) as traces:
        home = House(services(tmp_path), ScriptedModel(), observers=[traces])
        runs = [(await home.ask(thread=f"t{number}"))[-1]["run_id"] for number in range(24)]
        for run_id in runs:
            traces.score(run_id, "faithfulness", 1.0)
    assert 0 < len(collector.traces()) < 24
    assert {score["traceId"] for score in collector.scores} == set(collector.traces())


def feedback(run_id: str, thumbs: Any, comment: str) -> FeedbackRecord:
    return {
        "run_id": run_id,
        "client": "alice",
        "thread_id": "t",
        "thread_key": "k",
        "thumbs": thumbs,
        "comment": comment,
    }
