"""`python -m tests.browser.screenshots`: takes the pictures of the page that the README shows, in deploy/screenshots.

A running demo is asked: `gatehouse demo` (or `make demo`), and --url where it listens elsewhere. Takes a minute or two.
"""

import argparse
import asyncio
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.chromium import chromium

FOLDER = Path(__file__).parents[2] / "deploy" / "screenshots"
MAX_BYTES = 150_000
ANSWER_MS = 120_000
ANSWERED = "What own funds must a category B firm hold at all times?"
DOUBTFUL = "How long must a firm keep the record of a complaint?"
REWORDED = "How soon must a firm report a significant cyber incident, and what must the report contain?"
REFUSED = "What is the speed limit on the motorway?"
DESKTOP = {"width": 1200, "height": 800}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@dataclass(frozen=True)
class Picture:
    """`options` are those of the browser's context, `show` is what is done with the answer before it is taken."""

    name: str
    question: str
    options: dict[str, Any]
    show: str = ""


PICTURES = (
    Picture("light", ANSWERED, {"viewport": DESKTOP, "color_scheme": "light"}, "quote"),
    Picture("dark", DOUBTFUL, {"viewport": DESKTOP, "color_scheme": "dark"}, "quote"),
    Picture("phone", ANSWERED, {**PHONE, "color_scheme": "light"}),
    Picture("refusal", REFUSED, {"viewport": DESKTOP, "color_scheme": "light"}, "closest"),
    Picture("trace", REWORDED, {"viewport": DESKTOP, "color_scheme": "light"}, "why"),
)


async def take(browser: Browser, url: str, picture: Picture, folder: Path) -> Path:
    """Ask, open what the picture is of, and save it. Raises `ValueError` where the file is too large to keep."""
    context = await browser.new_context(**picture.options)
    try:
        page = await context.new_page()
        await page.goto(url)
        await page.fill("#question", picture.question)
        await page.press("#question", "Enter")
        turn = page.locator(".turn")
        await expect(turn.locator(".verdicts")).to_be_visible(timeout=ANSWER_MS)
        await expect(page.locator("#thread-bar")).to_be_visible()
        await page.evaluate("scrollTo(0, 0)")
        await opened(page, turn, picture.show)
        file = folder / f"{picture.name}.png"
        taken = await page.screenshot(animations="disabled", caret="hide")
        await asyncio.to_thread(save, taken, file)
    finally:
        await context.close()
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{file} has {file.stat().st_size} bytes; {MAX_BYTES} are allowed.")
    return file


def save(taken: bytes, file: Path) -> None:
    """A page has few colours: a palette of them keeps the file small, and the eye sees no difference."""
    Image.open(BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


async def opened(page: Page, turn: Locator, show: str) -> None:
    if show == "quote":
        await turn.locator("a.cite").first.hover()
        await expect(page.get_by_role("tooltip")).to_be_visible()
    elif show == "closest":
        await turn.get_by_role("button", name="Show the closest passages").click()
        await expect(turn.get_by_role("list", name="Closest passages")).to_be_visible()
    elif show == "why":
        await turn.get_by_text("Why this answer").click()
        await expect(turn.locator("svg.route")).to_be_visible()
        await turn.locator(".why").evaluate("panel => panel.scrollIntoView()")


async def main(url: str, folder: Path) -> None:
    async with chromium() as browser:
        for picture in PICTURES:
            file = await take(browser, url, picture, folder)
            print(f"{file.name}: {file.stat().st_size // 1000} kB", flush=True)  # noqa: T201 - a command's output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000/")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given.url, given.folder))
