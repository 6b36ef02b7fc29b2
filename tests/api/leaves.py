"""Clients that leave by RST in every phase, over real sockets on both sides, and what grows by it.

`python -m tests.api.leaves 1000` prints what a thousand leaves left behind; CI runs two hundred.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from service.audit.verify import verify
from service.llm.claude import Claude
from service.threads import ThreadRef
from tests.api.stalling import PHASES, Stall, StallingKnowledge, StallingReranker
from tests.audit.logs import audit_log, bodies
from tests.fakes import services
from tests.messages_server import (
    Asked,
    Behaviour,
    MessagesServer,
    falls_silent,
    running_messages_server,
    says,
    says_json,
)
from tests.running import House
from tests.served import HOST, Served, eventually, serving

SILENT_AT = {"relevant": "stall in grading", "answers": "stall in judging", "": "stall in generation"}


@dataclass(frozen=True)
class Left:
    """What was there before the first leave and after the last. `slowest_s`: from the RST until all had ended."""

    leaves: int
    slowest_s: float
    tasks: tuple[int, int]
    files: tuple[int, int]
    open_upstream: int
    cancelled_records: int
    by: frozenset[str]
    log_is_whole: bool
    still_answers: bool


class Leaver:
    """A served house that has one slot, with a model API on the other side of a socket."""

    def __init__(self, served: Served, api: MessagesServer, stall: Stall) -> None:
        self._served = served
        self._api = api
        self._stall = stall

    async def leave(self, number: int) -> float:
        """Ask, wait until the run stands still in its phase, vanish; return the seconds until nothing of it is left."""
        phase, stalls, calls = PHASES[number % len(PHASES)], len(self._stall.reached), len(self._api.asked)
        connection = await self._served.connect()
        accept = "application/json" if number % 7 == 0 else "text/event-stream"
        question = f"stall in {phase}, number {number}"
        await connection.ask({"question": question, "thread_id": f"t{number}"}, {"Accept": accept})
        await eventually(lambda: len(self._stall.reached) > stalls or self._stands_still(phase, calls), within_s=5)
        connection.vanish()
        ref = ThreadRef(HOST, f"t{number}")
        return await eventually(lambda: not self._served.house.runs.busy(ref) and not self.upstream())

    def _stands_still(self, phase: str, calls: int) -> bool:
        silent = [asked for asked in self._api.asked[calls:] if is_silent(asked)]
        return bool(silent) and (phase != "grading" or len(silent) == 6)

    def upstream(self) -> list[Asked]:
        """The calls to the model API that are still open."""
        return [asked for asked in self._api.asked if asked.ended is None and not asked.broken.is_set()]


def is_silent(asked: Asked) -> bool:
    properties = (asked.schema or {}).get("properties", {})
    kind = next((name for name in ("relevant", "answers", "supported") if name in properties), "")
    return kind in SILENT_AT and SILENT_AT[kind] in asked.text


def respond(asked: Asked) -> Behaviour:
    if is_silent(asked):
        return falls_silent(2)
    properties = (asked.schema or {}).get("properties", {})
    for name in ("relevant", "supported", "answers"):
        if name in properties:
            return says_json({name: "yes", "reason": "r", "problem": ""})
    return says("The record must be kept for one year [[1]].")


@asynccontextmanager
async def leaving(folder: Path) -> AsyncIterator[tuple[Leaver, Served]]:
    stall = Stall()
    world = services(folder, knowledge=StallingKnowledge(stall=stall), reranker=StallingReranker(stall=stall))
    async with running_messages_server() as api, audit_log(folder / "audit") as audit:
        api.respond = respond
        claude = Claude.connect("key", api.url, answer_model="writer", gate_model="gate")
        try:
            async with serving(House(world, claude, max_runs=1, audit=audit)) as served:
                yield Leaver(served, api, stall), served
        finally:
            await claude.aclose()


async def leave_many(count: int, folder: Path) -> Left:
    async with leaving(folder) as (leaver, served):
        for number in range(len(PHASES) * 2):  # what is opened once and kept is opened here
            await leaver.leave(number)
        await settled()
        tasks, files = len(asyncio.all_tasks()), open_files()
        slowest = max([await leaver.leave(number) for number in range(100, 100 + count)])
        await settled()
        after = len(asyncio.all_tasks()), open_files()
        upstream = len(leaver.upstream())
        answers = (await served.answer("How long?")).status_code == 200
    ended = [body["ending"] for body in bodies(folder / "audit")]
    cancelled = [ending for ending in ended if ending["outcome"] == "cancelled"]
    return Left(
        leaves=count,
        slowest_s=slowest,
        tasks=(tasks, after[0]),
        files=(files, after[1]),
        open_upstream=upstream,
        cancelled_records=len(cancelled) - len(PHASES) * 2,
        by=frozenset(ending["stopped_by"] for ending in cancelled),
        log_is_whole=verify(folder / "audit").whole,
        still_answers=answers,
    )


async def settled() -> None:
    """Let closed sockets and their tasks go."""
    await asyncio.sleep(0.3)


def open_files() -> int:
    """Open file descriptors of this process, sockets included."""
    return len(os.listdir("/proc/self/fd"))


async def report(count: int) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        left = await leave_many(count, Path(folder))
    sys.stdout.write(f"{left}\n{time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    asyncio.run(report(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
