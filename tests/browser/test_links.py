"""Links opened in a real Chromium. `python -m tests.browser.links` opens every one of the sample pages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from service.model import Passage, Span
from service.sample import SampleSource
from tests.browser.chromium import VIEWPORT, chromium, needs_chromium
from tests.browser.highlight import lit, open_link
from tests.browser.library import Library, library
from tests.browser.links import EXACT, outcome

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

FILLER = "".join(f"<p>Filler line {number} of the page says nothing of weight.</p>" for number in range(60))
PAGE = f"""<!doctype html><html><head><meta charset="utf-8"><title>Quarry rules</title></head><body>
<nav><a href="#x">Keeping of maps</a> <a href="#y">Fees</a></nav>
<main><h1>Quarry rules</h1>{FILLER}
<h2>1 Keeping of maps</h2>
<p>1.1 A quarry’s keeper must — in every case — keep “current” maps &amp; logs for 1,500 days.</p>
<p>1.2 Maps are drawn<br>at a scale of 1:500<br>or finer.</p>
<ul><li>1.3 A blast is logged at once;</li><li>its log names the shot-firer.</li></ul>
<table><tr><th>Pit</th><th>Depth</th></tr><tr><td>North</td><td>42 metres at most</td></tr>
<tr><td>South</td><td>17 metres at most</td></tr></table>
<h2>2 Fees</h2>
<details><summary>2.1 Late fees</summary><p>A fee that is late by a week doubles.</p></details>
<p>2.2 The fee is due yearly.<sup><a href="#n1">1</a></sup></p><p>2.3 Nobody else pays a fee.</p>
<p id="n1">1 A year begins on 1 March.</p>{FILLER.replace("Filler", "Closing")}
</main></body></html>"""


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Library]:
    site = tmp_path / "site"
    site.mkdir()
    (site / "quarry.html").write_text(PAGE, encoding="utf-8")
    source = SampleSource(site, "quarry", "official", "/site/")
    async with library(
        tmp_path / "data", [source], site, count_tokens=lambda text: len(text.split()), max_tokens=60
    ) as opened:
        yield opened


def of(shelf: Library, words: str) -> Passage:
    [found] = [item for item in shelf.passages if words in item.text]
    return found


async def test_each_passage_and_sentence_of_a_page_is_lit_exactly(shelf: Library, browser: Browser) -> None:
    ours = [item for item in shelf.passages if "Filler" not in item.text and "Closing line" not in item.text]
    assert {"scale", "metres", "doubles", "shot-firer", "March"} <= {
        word for word in ("scale", "metres", "doubles", "shot-firer", "March") for item in ours if word in item.text
    }
    seen = {}
    for item in ours:
        for linked in [shelf.of_passage(item), *shelf.of_sentences(item)]:
            seen[linked.link] = await outcome(browser, linked)
    assert len(seen) > 10
    assert {link: found for link, found in seen.items() if not found.startswith(EXACT)} == {}


async def test_a_range_that_is_a_word_too_long_is_seen_to_differ(shelf: Library, browser: Browser) -> None:
    """The instrument itself: it must not call a wrong range right."""
    linked = shelf.of_passage(of(shelf, "1,500 days"))
    page = await browser.new_page(viewport=VIEWPORT)
    await open_link(page, linked.link)
    [span] = linked.spans
    assert (await lit(page, linked.blocks, [(span, span)])).exactly
    shorter = Span(span.block, span.start, span.end - len(" days."))
    assert not (await lit(page, linked.blocks, [(shorter, shorter)])).exactly


async def test_a_click_in_a_new_tab_without_an_opener_scrolls_to_the_words(shelf: Library, browser: Browser) -> None:
    linked = shelf.of_passage(of(shelf, "1,500 days"))
    page = await browser.new_page(viewport=VIEWPORT)
    await page.goto(f"{shelf.url}/site/quarry.html")
    await page.evaluate(
        """link => {
          const anchor = document.createElement("a");
          Object.assign(anchor, {href: link, target: "_blank", rel: "noopener noreferrer", textContent: "open"});
          anchor.id = "open";
          document.body.prepend(anchor);
        }""",
        linked.link,
    )
    async with page.context.expect_page() as opening:
        await page.click("#open")
    tab = await opening.value
    await tab.wait_for_function("() => scrollY > 0")
    assert (await lit(tab, linked.blocks, [(linked.spans[0], linked.spans[-1])])).exactly
