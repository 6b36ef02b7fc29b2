"""A server of its own process, with the shared limit: `python -m tests.integration.limited_server FOLDER`.

It answers with fakes, and takes its limit and its Redis from the settings, as `gatehouse serve` does. Its port is the
first line that it prints.
"""

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from service.entrance import access_of, open_limiter
from service.settings import load_settings
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import serving


async def main(folder: Path) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    settings = load_settings()
    async with AsyncExitStack() as stack:
        limiter = await open_limiter(settings, stack)

        async def readiness() -> list[object]:
            return [limiter.state()]

        home = House(services(folder), ScriptedModel())
        access = access_of(settings)
        async with serving(home, access=access, limiter=limiter, readiness=readiness) as served:  # type: ignore[arg-type]
            sys.stdout.write(f"{served.port}\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)  # until the test closes it


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
