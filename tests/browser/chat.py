"""The chat page as a person meets it: by roles and names, in one browser for all tests of a file."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.chromium import VIEWPORT
from tests.served import HOST, Served

expect.set_options(timeout=15_000)  # ms: a busy machine is slow, and what does not come at all is waited for once

# What a policy stops and what a dialog would show are the signs of a script that is not ours.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@dataclass
class Chat:
    """One page. `broken` are its exceptions, `dialogs` what it asked, `requests` every address that was asked for."""

    page: Page
    root: str
    broken: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("textbox", name="Your question")

    @property
    def turns(self) -> Locator:
        return self.page.get_by_role("region", name="Questions and answers").get_by_role("article")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def send(self) -> Locator:
        return self.page.get_by_role("button", name="Send", exact=True)

    async def open(self, path: str = "/") -> None:
        await self.page.goto(self.root + path)
        await expect(self.box).to_be_editable()

    async def ask(self, question: str) -> Locator:
        """Send a question; return its turn, which has begun."""
        before = await self.turns.count()
        await self.box.fill(question)
        await self.box.press("Enter")
        await expect(self.turns).to_have_count(before + 1)
        return self.turns.last

    async def violations(self) -> list[str]:
        found: list[str] = await self.page.evaluate("window.violations")
        return found


@asynccontextmanager
async def chat(browser: Browser, served: Served, *scripts: str, **options: Any) -> AsyncIterator[Chat]:
    """Open the page in a context of its own. `scripts` run before it; at the end nothing of it may be broken."""
    context = await browser.new_context(viewport=VIEWPORT, **options)
    try:
        opened = await watched(context, f"http://{HOST}:{served.port}", scripts)
        await opened.open()
        yield opened
        assert opened.broken == []
        assert opened.dialogs == []
        assert await opened.violations() == []
        assert [url for url in opened.requests if not url.startswith(f"{opened.root}/")] == []
    finally:
        await context.close()


async def watched(context: BrowserContext, root: str, scripts: tuple[str, ...]) -> Chat:
    await context.grant_permissions(["clipboard-read", "clipboard-write"], origin=root)
    await context.add_init_script(WATCH)
    for script in scripts:
        await context.add_init_script(script)
    opened = Chat(await context.new_page(), root)
    context.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("pageerror", lambda error: opened.broken.append(str(error)))
    opened.page.on("dialog", noting(opened.dialogs))
    return opened


def noting(seen: list[str]) -> Callable[[Any], Any]:
    async def dismiss(dialog: Any) -> None:
        seen.append(f"{dialog.type}: {dialog.message}")
        await dialog.dismiss()

    return dismiss
