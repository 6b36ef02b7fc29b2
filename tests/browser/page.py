"""The chat page of a real server, opened in a real Chromium, with an audit log to read the traces from.

What a test may hold on to is written at the top of service/ui/index.html.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, Page, ViewportSize, expect

from service.graph.state import Limits, Services
from service.skills.registry import Skills
from tests.audit.logs import audit_log
from tests.browser.chromium import VIEWPORT, chromium
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, QUESTION, Served, serving

# What a browser says of an answer that is no 2xx: the page shows it, and it is no fault of the page.
EXPECTED = re.compile(r"the server responded with a status of 4\d\d|net::ERR_|Password forms")

PATIENCE_MS = 20_000  # with a page on a busy machine; nothing is said of speed


@dataclass(frozen=True)
class ChatPage:
    """`faults` are the page's own: exceptions, and whatever its content security policy had to stop."""

    page: Page
    served: Served
    faults: list[str]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.served.port}/"

    @property
    def turns(self) -> Locator:
        return self.page.locator(".turn")

    async def send(self, question: str = QUESTION) -> Locator:
        """Ask, and return the turn without waiting for its answer."""
        await self.page.fill("#question", question)
        await self.page.press("#question", "Enter")
        return self.turns.last

    async def ask(self, question: str = QUESTION, state: str = "answered") -> Locator:
        turn = await self.send(question)
        await expect(turn).to_have_attribute("data-state", state)
        return turn


@asynccontextmanager
async def chat_page(
    folder: Path,
    model: ScriptedModel | None = None,
    *,
    world: Services | None = None,
    limits: Limits | None = None,
    skills: Skills | None = None,
    viewport: ViewportSize = VIEWPORT,
    options: dict[str, Any] | None = None,
    **serving_options: Any,
) -> AsyncIterator[ChatPage]:
    """`options` are those of the browser's context. A fault of the page fails the test at the end."""
    async with audit_log(folder / "audit") as log:
        house = House(world or services(folder, limits=limits), model or ScriptedModel(), audit=log)
        async with serving(house, skills=skills, **serving_options) as served, chromium() as browser:
            context = await browser.new_context(**{"viewport": viewport, **(options or {})})
            context.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            opened = ChatPage(await context.new_page(), served, [])
            watch(opened)
            await opened.page.goto(opened.url)
            await expect(opened.page.locator("#threads-note")).not_to_be_empty()
            yield opened
            assert opened.faults == []
            await context.close()


def watch(opened: ChatPage) -> None:
    opened.page.on("pageerror", lambda fault: opened.faults.append(str(fault)))
    opened.page.on(
        "console",
        lambda said: (
            opened.faults.append(said.text) if said.type == "error" and not EXPECTED.search(said.text) else None
        ),
    )
