"""The demo in a browser: ask, watch, cite, hover, and open the official page at the sentence, lit in a new tab."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from service.model import Span
from tests.browser.chromium import VIEWPORT, chromium, needs_chromium
from tests.browser.highlight import lit
from tests.integration.test_demo import QUESTION, Demo

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

SLOW_MS = 180_000  # two models on a busy core


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = Demo(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("log") / "demo.log")
    yield running
    running.stop()


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


def stored_page(demo: Demo, quote: str) -> tuple[list[str], Span]:
    """The blocks of the page that was cited, and where the quote stands on it."""
    thread = httpx.get(f"{demo.url}/threads").json()["threads"][0]["thread_id"]
    source = httpx.get(f"{demo.url}/threads/{thread}").json()["sources"][0]
    stored: dict[str, Any] = httpx.get(
        f"{demo.url}/sources/{source['passage_id']}",
        params={"v": source["sha256"]},
        headers={"Accept": "application/json"},
    ).json()
    blocks: list[str] = stored["blocks"]
    [number] = [number for number, block in enumerate(blocks) if quote in block]
    start = blocks[number].index(quote)
    return blocks, Span(number, start, start + len(quote))


async def answered(page: Page, demo: Demo) -> None:
    await page.goto(demo.url)
    await page.fill("#question", QUESTION)
    await page.press("#question", "Enter")
    turn = page.locator(".turn")
    await expect(turn.locator(".steps li").filter(has_text="40 candidates")).to_be_visible(timeout=SLOW_MS)
    await expect(turn.locator(".sources .card").first).to_be_visible()
    await expect(turn).to_have_attribute("data-state", "answered", timeout=SLOW_MS)


async def test_a_cited_sentence_opens_lit_on_its_own_page_in_a_new_tab(demo: Demo, browser: Browser) -> None:
    page = await browser.new_page(viewport=VIEWPORT)
    await answered(page, demo)
    chip = page.locator("a.cite").first
    await chip.hover()
    popover = page.get_by_role("tooltip")
    for said in ("[VECTOR] 1. PRU 3", "PRU 3.1.2", "quotation verified"):
        await expect(popover).to_contain_text(said)
    quote = await popover.locator("blockquote").inner_text()
    async with page.context.expect_page() as opening:
        await chip.click()
    tab = await opening.value
    await tab.wait_for_load_state("load")
    assert tab.url.startswith(f"{demo.url}/site/")
    assert await tab.evaluate("window.opener") is None
    assert await tab.evaluate("document.referrer") == ""
    blocks, span = stored_page(demo, quote)
    seen = await lit(tab, blocks, [(span, span)])
    assert (seen.page_is_as_read, seen.exactly, seen.in_view) == (True, True, True)
    assert await tab.evaluate("scrollY") > 0
