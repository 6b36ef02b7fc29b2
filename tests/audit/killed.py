"""A process to be killed: `python -m tests.audit.killed FOLDER` answers three questions, then stalls in the fourth.

It prints the run's id once text of the fourth answer has been shown.
"""

import asyncio
import sys
from pathlib import Path

from service.graph.events import Token
from service.graph.run import Request
from service.threads import ThreadRef
from tests.api.stalling import stalling
from tests.audit.logs import audit_log
from tests.running import House


async def work(folder: Path) -> None:
    world, model, _ = stalling(folder)
    async with audit_log(folder / "audit") as audit:
        house = House(world, model, audit=audit)
        for number in range(3):
            await house.ask(f"question {number}")
        run = house.runs.start(Request(ThreadRef("alice", "t1"), "stall in generation"))
        async for told in run.events():
            if isinstance(told.event, Token):
                sys.stdout.write(f"{run.run_id}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
