"""The page of a stored snapshot in a real Chromium: without JavaScript, and with hostile text."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from service.model import Block, Page, Span
from tests.browser.chromium import VIEWPORT, chromium, needs_chromium
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services
from tests.running import House
from tests.served import serving

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

EVIL = '"><script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'"></mark>'
SAID = f"The words that count {EVIL} end here."


def house(folder: Path) -> House:
    """A long page with one passage far below, its title and texts hostile."""
    knowledge = FixedKnowledge([])
    home = House(services(folder, knowledge=knowledge), ScriptedModel())
    blocks = tuple(Block(f"Line {number} {EVIL}") for number in range(150))
    page = Page(f"</title>{EVIL}", (*blocks, Block(SAID), *blocks))
    address = f"a{EVIL}.md"
    sha256 = home.services.snapshots.hash_of(page, "notes", "reference", address)
    spans = (Span(150, 0, len(SAID)),)
    item = replace(passage(1, SAID, kind="reference", source="notes"), sha256=sha256, spans=spans, address=address)
    home.services.snapshots.put(
        page, source="notes", kind="reference", address=address, fetched_at="2031", passages=[item]
    )
    knowledge.passages.append(item)
    return home


@pytest.mark.parametrize("scripts", [False, True])
async def test_the_mark_is_on_the_screen_and_nothing_of_the_source_runs(tmp_path: Path, scripts: bool) -> None:
    """U21."""
    async with serving(house(tmp_path)) as served, chromium() as browser:
        context = await browser.new_context(viewport=VIEWPORT, java_script_enabled=scripts)
        page = await context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        root = f"http://127.0.0.1:{served.port}"
        await page.goto(f"{root}/sources/p000000000000001?q={quote(SAID)}#quote")
        mark = page.locator("mark")
        assert await mark.inner_text() == SAID
        box = await mark.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < VIEWPORT["height"]
        assert await page.title() == f"</title>{EVIL}"
        assert await page.locator("script, img").count() == 0
        assert {url.removeprefix(root).partition("?")[0] for url in asked} == {
            "/sources/p000000000000001",
            "/ui/style.css",
        }
