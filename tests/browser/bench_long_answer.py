"""`python -m tests.browser.bench_long_answer`: streams a 20,000-character answer with 300 sources into the chat page.

Prints the times between the page's frames (requestAnimationFrame) while the answer is written, while it is finished
and while it is scrolled through, with the browser's own list of long tasks and the page's processor time. It judges
nothing: a machine that does something else meanwhile drops frames of its own.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, expect

from service.graph.state import Limits
from service.model import Source
from tests.browser.chat import chat
from tests.browser.chromium import chromium
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import serving

SOURCES = 300
CHARACTERS = 20_000
ANSWER_MS = 300_000
SMOOTH_MS = 1000 / 60

RECORD = """
window.frames_seen = [];
window.tasks_seen = [];
window.phase = "before";
const tick = now => {
  window.frames_seen.push([window.phase, now]);
  requestAnimationFrame(tick);
};
requestAnimationFrame(tick);
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) window.tasks_seen.push([window.phase, entry.duration]);
}).observe({ type: "longtask" });
document.addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const state = document.querySelector("article")?.dataset.state;
  if (state === "running" && window.phase === "before") window.phase = "streaming";
  if (state && state !== "running" && window.phase === "streaming") window.phase = "finished";
}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true }));
"""
SCROLL = """async () => {
  window.phase = "scrolling";
  const page = document.scrollingElement;
  page.scrollTop = 0;
  for (let at = 0; at < page.scrollHeight; at += 120) {
    page.scrollTop = at;
    await new Promise(requestAnimationFrame);
  }
  window.phase = "after";
}"""


def long_answer(_: int, sources: Sequence[Source], characters: int) -> str:
    """Paragraphs, lists, tables and bold words, each source cited in turn, cut to about `characters`."""
    parts: list[str] = []
    size = 0
    while size < characters or len(parts) < len(sources):
        source = sources[len(parts) % len(sources)]
        mark, kind = "\n\n" if len(parts) % 5 == 0 else "", len(parts) % 15
        said = f"A firm keeps **record {source.n}** for {source.n} years from the day it was made [[{source.n}]]. "
        parts.append(
            f"{mark}- {said}\n"
            if kind in (7, 8, 9)
            else f"{mark}## Part {source.n}\n\n{said}"
            if not kind
            else mark + said
        )
        size += len(parts[-1])
    return "".join(parts)


@dataclass(frozen=True)
class Measured:
    """What one phase of the page's life took: times between frames and long tasks (over 50 ms), in ms."""

    phase: str
    frames: list[float]
    tasks: list[float]

    def line(self) -> str:
        if not self.frames:
            return f"{self.phase:<10} no frames"
        ordered = sorted(self.frames)
        p95, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.95, 0.99))
        late = sum(frame > 2 * SMOOTH_MS for frame in ordered)
        return (
            f"{self.phase:<10} {len(ordered):>5} frames in {sum(ordered) / 1000:6.2f} s: "
            f"median {median(ordered):.1f} ms, p95 {p95:.1f}, p99 {p99:.1f}, longest {ordered[-1]:.1f}; "
            f"over 33 ms {late}; long tasks {len(self.tasks)}, {sum(self.tasks):.0f} ms"
        )


class Processor:
    """What the page's main thread itself used, in ms of processor time: another program's load is not in it."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._before: dict[str, float] = {}

    @classmethod
    async def of(cls, page: Page) -> "Processor":
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable", {"timeDomain": "threadTicks"})
        processor = cls(session)
        await processor.line("")
        return processor

    async def line(self, phase: str) -> str:
        """What was used since it was last asked."""
        found = await self._session.send("Performance.getMetrics")
        now = {item["name"]: item["value"] * 1000 for item in found["metrics"] if item["name"].endswith("Duration")}
        used = {name: now[name] - self._before.get(name, 0.0) for name in now}
        self._before = now
        shown = ", ".join(f"{name.removesuffix('Duration')} {ms:.0f}" for name, ms in sorted(used.items()) if ms >= 1)
        return f"{phase:<10} processor ms of the page: {shown}"


async def measure(browser: Browser, sources: int, characters: int, piece: int, pause_s: float) -> AsyncIterator[str]:
    """Yield lines to print."""
    knowledge = FixedKnowledge([passage(number) for number in range(1, sources + 1)])
    model = ScriptedModel(
        draft=lambda count, found: long_answer(count, found, characters), piece=piece, delay_s=pause_s * 10
    )
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(retrieve_k=sources, top_n=sources, grade_mode="batch")
        house = House(services(Path(folder), knowledge=knowledge, limits=limits), model, deadline_s=ANSWER_MS / 1000)
        async with serving(house) as served, chat(browser, served, RECORD) as page:
            processor = await Processor.of(page.page)
            turn = await page.ask("What does a firm keep, and for how long?")
            await expect(turn).to_have_attribute("data-state", "answered", timeout=ANSWER_MS)
            await expect(turn.locator("a.cite").first).to_be_visible()
            await page.page.wait_for_timeout(1000)
            yield f"{await turn.locator('a.cite').count()} numbers, {await turn.locator('*').count()} elements"
            yield await processor.line("answer")
            await page.page.evaluate(SCROLL)
            yield await processor.line("scrolling")
            for measured in await read(page.page):
                yield measured.line()


async def read(page: Page) -> list[Measured]:
    seen: dict[str, Any] = json.loads(
        await page.evaluate("JSON.stringify({frames: window.frames_seen, tasks: window.tasks_seen})")
    )
    times: dict[str, list[float]] = {"streaming": [], "finished": [], "scrolling": []}
    for (phase, before), (_, now) in pairwise(seen["frames"]):
        times.setdefault(phase, []).append(now - before)
    return [
        Measured(phase, times[phase], [took for at, took in seen["tasks"] if at == phase])
        for phase in ("streaming", "finished", "scrolling")
    ]


async def run(sources: int, characters: int, piece: int, pause_s: float) -> None:
    async with chromium() as browser:
        async for line in measure(browser, sources, characters, piece, pause_s):
            print(line, flush=True)  # noqa: T201 - a command's output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=SOURCES)
    parser.add_argument("--characters", type=int, default=CHARACTERS)
    parser.add_argument("--piece", type=int, default=24, help="characters per token event")
    parser.add_argument("--pause-ms", type=float, default=5.0, help="between two of them")
    given = parser.parse_args()
    asyncio.run(run(given.sources, given.characters, given.piece, given.pause_ms / 1000))
