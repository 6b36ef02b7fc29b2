"""What traces and scores cost a reader: the same chats with both off, and with a far end that answers or that hangs.

`python -m tests.observe.latency` prints it. The five kinds take turns in short blocks, so that a machine that slows
down slows all of them down. The model answers at once: what is measured is the service's own work, over real sockets.
The judge of the scores reads every answer, through DeepEval, while its readers' chats go on.
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from service.audit.log import AuditLog
from service.graph.state import Services
from service.observe.judging.judge import connect
from service.observe.judging.metrics import DeepEvalScorer
from service.observe.langfuse import LangfuseTraces
from service.observe.masking import TraceMasks
from service.observe.null import NoTraces
from service.observe.scorable import scorable_of
from service.observe.scoring import Scoring
from service.ports import RunObserver
from tests.audit.logs import audit_log
from tests.fakes import ScriptedModel, cite_first, services
from tests.messages_server import falls_silent, running_messages_server
from tests.observe.collector import Manner, collecting
from tests.observe.judges import judge_by_containment
from tests.running import House
from tests.served import Served, eventually, serving

BLOCK, AT_ONCE = 24, 2
SETTLING_S = 1.5
JUDGED_S = 300.0
ANSWER = " A firm keeps it for the years that the rule names, and no longer." * 12


@dataclass
class Arm:
    """One way to watch, and how long (ms) its chats took to their first token and to their end.

    `cpu` is what the process spent on a chat, its client, the trace and the scores included (ms of a processor, by
    block). `settled` waits for what is left to do once a block's readers are gone.
    """

    name: str
    served: Served
    settled: Callable[[], Awaitable[None]]
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def block(self, number: int) -> None:
        gate, began = asyncio.Semaphore(AT_ONCE), time.process_time()
        await asyncio.gather(*(self._chat(f"t{number}-{chat}", gate) for chat in range(BLOCK)))
        await self.settled()  # its last traces are sent, and scores had, before another arm is measured
        self.cpu.append((time.process_time() - began) * 1000 / BLOCK)

    async def _chat(self, thread: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            began = time.perf_counter()
            async with self.served.asking(thread_id=thread) as stream:
                await stream.until(lambda frame: frame["type"] == "token")
                first = time.perf_counter()
                assert [frame async for frame in stream.frames][-1]["type"] == "done"
            self.first.append((first - began) * 1000)
            self.last.append((time.perf_counter() - began) * 1000)


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    return statistics.median(values), statistics.quantiles(values, n=20)[-1]


def figures(arm: Arm) -> list[float]:
    return [*quantiles(arm.first), *quantiles(arm.last), statistics.median(arm.cpu)]


def table(arms: Sequence[Arm]) -> str:
    """Each figure in ms, and in brackets what it is more than with nothing."""
    plain = figures(arms[0])
    rows = [
        "| watched by | first token, median | p95 | whole answer, median | p95 | processor, median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for arm in arms:
        shown = [f"{value:.1f} ({value - alone:+.1f})" for value, alone in zip(figures(arm), plain, strict=True)]
        rows.append(f"| {arm.name} | {' | '.join(shown)} |")
    return "\n".join(rows)


def collect(manner: Manner, told: Connection) -> None:
    with collecting(manner) as collector:
        told.send(collector.url)
        told.recv()


def judge(manner: Manner, told: Connection) -> None:
    async def judging() -> None:
        async with running_messages_server() as peer:
            peer.respond = judge_by_containment if manner == "well" else lambda _: falls_silent(head=False)
            told.send(peer.url)
            await asyncio.to_thread(told.recv)

    asyncio.run(judging())


@contextmanager
def far_end(serve: Callable[[Manner, Connection], None], manner: Manner) -> Iterator[str]:
    """A collector or a judge in a process of its own: its work is not the service's. Yields its address."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(manner, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join(10)


async def measured(folder: Path, rounds: int) -> list[Arm]:
    async with AsyncExitStack() as stack:
        arms = [await opened(stack, folder / name, name, watch) for name, watch in KINDS.items()]
        for number in range(-1, rounds):
            turn = number % len(arms)
            for arm in arms[turn:] + arms[:turn]:
                await arm.block(number)
            if number < 0:  # the first calls load and compile
                for arm in arms:
                    arm.first, arm.last, arm.cpu = [], [], []
        return arms


Settled = Callable[[], Awaitable[None]]
Watch = Callable[[AsyncExitStack, AuditLog, Services], tuple[RunObserver, Settled]]


async def opened(stack: AsyncExitStack, folder: Path, name: str, watch: Watch) -> Arm:
    """A house of its own, with the audit log that scores need."""
    audit = await stack.enter_async_context(audit_log(folder / "audit"))
    world = services(folder)
    observer, settled = watch(stack, audit, world)
    model = ScriptedModel(draft=lambda _, sources: cite_first(sources) + ANSWER, piece=20)
    house = House(world, model, audit=audit, observers=[observer])
    return Arm(name, await stack.enter_async_context(serving(house)), settled)


async def a_moment() -> None:
    await asyncio.sleep(SETTLING_S)


def nobody(*_: object) -> tuple[RunObserver, Settled]:
    return NoTraces("off"), a_moment


def traced(manner: Manner, stack: AsyncExitStack, *_: object) -> tuple[RunObserver, Settled]:
    traces = LangfuseTraces(stack.enter_context(far_end(collect, manner)), f"pk-{manner}", "sk", TraceMasks())
    stack.callback(traces.close)
    return traces, a_moment


def scored(manner: Manner, stack: AsyncExitStack, audit: AuditLog, world: Services) -> tuple[RunObserver, Settled]:
    """Scores of every answer, masked, with the settings' own sizes."""
    scoring = Scoring(
        DeepEvalScorer(connect("key", stack.enter_context(far_end(judge, manner)), 120), "a-judge", lambda *_: 0.0),
        partial(scorable_of, snapshots=world.snapshots, mask=TraceMasks().mask),
        audit=audit,
        sample_rate=1.0,
        queue_size=32,
        timeout_s=120,
        masked=True,
    )
    stack.push_async_callback(scoring.close)
    return scoring, a_moment if manner == "hanging" else partial(all_judged, scoring)


async def all_judged(scoring: Scoring) -> None:
    await eventually(lambda: not scoring.waiting and scoring._job is None, within_s=JUDGED_S)
    await a_moment()


KINDS: dict[str, Watch] = {
    "nothing": nobody,
    "traces to a collector that answers": partial(traced, "well"),
    "traces to one that hangs": partial(traced, "hanging"),
    "scores by a judge that answers": partial(scored, "well"),
    "scores by one that hangs": partial(scored, "hanging"),
}


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as temporary:
        arms = asyncio.run(measured(Path(temporary), rounds))
    sys.stdout.write(f"{rounds * BLOCK} chats of each kind, {AT_ONCE} at once, in ms (more than with nothing):\n\n")
    sys.stdout.write(f"{table(arms)}\n")
