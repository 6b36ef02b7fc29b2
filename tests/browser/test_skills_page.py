"""Skills on the chat page, in a real Chromium."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from service.model import Scope
from service.skills.registry import Skills
from tests.browser.chromium import VIEWPORT, chromium, needs_chromium
from tests.fakes import ScriptedModel, services
from tests.running import House
from tests.served import HOST, serving
from tests.skills.writing import skill

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

CHOICE = Skills([skill("clocks"), skill("short", Scope(web=False))])


@pytest_asyncio.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    house = House(services(tmp_path), ScriptedModel())
    async with serving(house, skills=CHOICE) as served, chromium() as browser:
        opened = await browser.new_page(viewport=VIEWPORT)
        faults: list[str] = []
        opened.on("pageerror", lambda fault: faults.append(str(fault)))
        await opened.goto(f"http://{HOST}:{served.port}/")
        await expect(opened.locator("#skill option")).to_have_text(["None", "clocks", "short"])
        yield opened
        assert faults == []
        await opened.close()


async def ask(page: Page, question: str) -> None:
    await page.fill("#question", question)
    await page.press("#question", "Enter")
    await expect(page.locator(".turn").last.locator(".verdicts")).to_be_visible()


async def test_a_skill_is_chosen_from_the_list_and_its_limits_are_shown(page: Page) -> None:
    await page.check("#web")
    await page.select_option("#skill", "short")
    await expect(page.locator("#skill-note")).to_have_text("For tests.")
    await expect(page.locator("#web-forbidden")).to_be_visible()
    assert await page.is_disabled("#web")
    assert not await page.is_checked("#web")
    await ask(page, "How long must record 1 be kept?")
    await expect(page.locator(".turn .meta")).to_contain_text("Skill: short.")
    await page.reload()
    await expect(page.locator(".turn")).to_have_count(1)
    await expect(page.locator("#skill")).to_have_value("short")


async def test_a_slash_opens_the_skills_own_thread_and_the_other_stays_as_it_was(page: Page) -> None:
    await ask(page, "How long must record 1 be kept?")
    await ask(page, "/clocks How long must record 2 be kept?")
    await expect(page.locator(".turn")).to_have_count(1)
    await expect(page.locator("#skill")).to_have_value("clocks")
    await ask(page, "And record 3?")
    await expect(page.locator(".turn")).to_have_count(2)
    rows = page.locator("#threads li")
    await expect(rows).to_have_count(2)
    await expect(rows.filter(has_text="clocks")).to_contain_text("2 questions")
    await rows.filter(has_not_text="clocks").get_by_role("link").click()
    await expect(page.locator("#skill")).to_have_value("")
    await expect(page.locator(".turn")).to_have_count(1)
    await expect(page.locator(".turn > h2")).to_have_text("How long must record 1 be kept?")


async def test_a_misspelt_skill_is_refused_with_the_names_there_are(page: Page) -> None:
    await page.fill("#question", "/shrot How long?")
    await page.press("#question", "Enter")
    await expect(page.locator(".problem")).to_contain_text("There are: clocks, short.")
