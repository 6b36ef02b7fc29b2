"""Skills on the chat page, in a real Chromium: the `/` menu, the button, and the limits that a skill sets."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from service.model import Scope
from service.skills.registry import Skills
from tests.browser.chromium import needs_chromium
from tests.browser.page import ChatPage, chat_page
from tests.skills.writing import skill

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

CLOCKS = replace(skill("clocks"), description="Counts the days of a period.")
SHORT = replace(skill("short", Scope(web=False)), description="Says it in one line.")


@pytest_asyncio.fixture
async def chat(tmp_path: Path) -> AsyncIterator[ChatPage]:
    async with chat_page(tmp_path, skills=Skills([CLOCKS, SHORT])) as opened:
        await expect(opened.page.get_by_role("button", name="Skill: none")).to_be_visible()
        yield opened


async def test_a_slash_opens_the_menu_and_the_keyboard_alone_chooses(chat: ChatPage) -> None:
    page, box = chat.page, chat.page.locator("#question")
    await box.press("/")
    menu = page.get_by_role("listbox", name="Skills")
    options = menu.get_by_role("option")
    await expect(options).to_have_text(["/clocks Counts the days of a period.", "/short Says it in one line."])
    await expect(options.first).to_have_attribute("aria-selected", "true")
    await expect(page.locator("#announcer")).to_contain_text("2 skills")
    await box.press("ArrowDown")
    assert await box.get_attribute("aria-activedescendant") == await options.last.get_attribute("id")
    await box.press("ArrowDown")
    await expect(options.first).to_have_attribute("aria-selected", "true")
    await box.press("ArrowUp")
    await box.press("Enter")
    await expect(menu).to_be_hidden()
    await expect(box).to_have_value("/short ")
    await expect(box).to_be_focused()
    await expect(box).not_to_have_attribute("aria-activedescendant", "skill-option-short")
    await expect(page.locator("#skill-note")).to_have_text("Says it in one line.")


async def test_typing_narrows_the_menu_escape_closes_it_and_the_mouse_chooses_too(chat: ChatPage) -> None:
    page, box = chat.page, chat.page.locator("#question")
    await box.press_sequentially("/days")
    options = page.get_by_role("option")
    await expect(options).to_have_text(["/clocks Counts the days of a period."])
    await box.press("Escape")
    await expect(options).to_have_count(0)
    await expect(box).to_have_value("/days")
    await box.fill("/")
    await options.last.click()
    await expect(box).to_have_value("/short ")
    await expect(box).to_be_focused()


async def test_a_menu_without_a_fit_leaves_enter_to_send(chat: ChatPage) -> None:
    turn = await chat.send("/shrot How long?")
    await expect(turn.locator(".problem")).to_contain_text("There are: clocks, short.")


async def test_a_skill_forbids_the_web_with_its_reason_and_only_while_it_is_named(chat: ChatPage) -> None:
    page = chat.page
    web = page.get_by_role("switch", name="Search the web")
    await web.check()
    await page.get_by_role("button", name="Skill: none").click()
    await page.get_by_role("option", name="/short").click()
    await expect(web).to_be_disabled()
    await expect(web).not_to_be_checked()
    await expect(page.locator("#web-note")).to_have_text(
        "The skill “short” does not allow the web. Only the knowledge base is read."
    )
    await page.fill("#question", "")
    await expect(web).to_be_enabled()
    await expect(web).not_to_be_checked()
    turn = await chat.ask("/short How long must record 1 be kept?")
    await expect(turn.locator(".meta")).to_contain_text("Skill: short.")
    await page.reload()
    await expect(chat.turns).to_have_count(1)
    await expect(turn.locator(".meta")).to_contain_text("Skill: short.")
    await expect(page.get_by_role("button", name="Skill: short")).to_be_visible()
    await expect(web).to_be_disabled()


async def test_a_slash_opens_the_skills_own_thread_and_the_other_stays_as_it_was(chat: ChatPage) -> None:
    page = chat.page
    await chat.ask("How long must record 1 be kept?")
    await chat.ask("/clocks How long must record 2 be kept?")
    await expect(chat.turns).to_have_count(1)
    await expect(page.get_by_role("button", name="Skill: clocks")).to_be_visible()
    await chat.ask("And record 3?")
    await expect(chat.turns).to_have_count(2)
    rows = page.locator("#threads li")
    await expect(rows).to_have_count(2)
    await expect(rows.filter(has_text="clocks")).to_contain_text("2 questions")
    await rows.filter(has_not_text="clocks").get_by_role("link").click()
    await expect(page.get_by_role("button", name="Skill: none")).to_be_visible()
    await expect(chat.turns).to_have_count(1)
    await expect(chat.turns.locator("h2")).to_have_text("How long must record 1 be kept?")
    await rows.filter(has_text="clocks").get_by_role("link").click()
    await expect(chat.turns).to_have_count(2)
    await page.get_by_role("button", name="Skill: clocks").click()
    await page.get_by_role("option", name="No skill").click()
    await expect(chat.turns).to_have_count(0)
    await expect(page.get_by_role("button", name="Skill: none")).to_be_visible()
