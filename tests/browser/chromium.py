"""A real headless Chromium, driven by Playwright. It is the distribution's own: nothing is downloaded."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, ViewportSize, async_playwright

EXECUTABLE = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
VIEWPORT: ViewportSize = {"width": 900, "height": 700}

needs_chromium = pytest.mark.skipif(EXECUTABLE is None, reason="chromium is not installed")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser for many pages; it is closed at the end, with all of its processes."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()
