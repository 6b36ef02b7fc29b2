"""What traces cost a reader: the same chats with traces off, with a collector that answers, and with one that hangs.

`python -m tests.observe.latency` prints it. The three take turns in short blocks, so that a machine that slows down
slows all of them down. The model answers at once: what is measured is the service's own work, over real sockets.
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from service.observe.langfuse import LangfuseTraces
from service.observe.masking import TraceMasks
from service.observe.null import NoTraces
from service.ports import RunObserver
from tests.fakes import ScriptedModel, cite_first, services
from tests.observe.collector import Manner, collecting
from tests.running import House
from tests.served import Served, serving

BLOCK, AT_ONCE = 24, 2
ANSWER = " A firm keeps it for the years that the rule names, and no longer." * 12


@dataclass
class Arm:
    """One way to trace, and how long (ms) its chats took to their first token and to their end.

    `cpu` is what the process spent on a chat, its client and the trace included (ms of a processor, by block).
    """

    name: str
    served: Served
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def block(self, number: int) -> None:
        gate, began = asyncio.Semaphore(AT_ONCE), time.process_time()
        await asyncio.gather(*(self._chat(f"t{number}-{chat}", gate) for chat in range(BLOCK)))
        await asyncio.sleep(1.5)  # its last traces are sent before another arm is measured
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
    """Each figure in ms, and in brackets what it is more than without traces."""
    plain = figures(arms[0])
    rows = [
        "| traces | first token, median | p95 | whole answer, median | p95 | processor, median |",
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


@contextmanager
def collector_process(manner: Manner) -> Iterator[str]:
    """A collector in a process of its own: its work is not the service's. Yields its address."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=collect, args=(manner, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join(10)


async def measured(folder: Path, rounds: int) -> list[Arm]:
    async with AsyncExitStack() as stack:
        arms = []
        for name, observer in observers(stack):
            model = ScriptedModel(draft=lambda _, sources: cite_first(sources) + ANSWER, piece=20)
            home = House(services(folder / name), model, observers=[observer])
            arms.append(Arm(name, await stack.enter_async_context(serving(home))))
        for number in range(-1, rounds):
            for arm in arms[number % 3 :] + arms[: number % 3]:
                await arm.block(number)
            if number < 0:  # the first calls load and compile
                for arm in arms:
                    arm.first, arm.last, arm.cpu = [], [], []
        return arms


def observers(stack: AsyncExitStack) -> list[tuple[str, RunObserver]]:
    found: list[tuple[str, RunObserver]] = [("off", NoTraces("off"))]
    manners: list[tuple[str, Manner]] = [("to a collector that answers", "well"), ("to one that hangs", "hanging")]
    for name, manner in manners:
        traces = LangfuseTraces(stack.enter_context(collector_process(manner)), f"pk-{manner}", "sk", TraceMasks())
        stack.callback(traces.close)
        found.append((name, traces))
    return found


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as temporary:
        arms = asyncio.run(measured(Path(temporary), rounds))
    sys.stdout.write(f"{rounds * BLOCK} chats of each kind, {AT_ONCE} at once, in ms (more than without traces):\n\n")
    sys.stdout.write(f"{table(arms)}\n")
