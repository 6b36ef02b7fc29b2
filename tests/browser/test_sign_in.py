"""Signing in on the page in a real Chromium: the form, the cookie, a plain link, and out again."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.api.guarded import ALICE, BOB, access, guarded
from tests.browser.chromium import chromium, needs_chromium
from tests.served import QUESTION, Served
from tests.skills.writing import skills

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]


def root(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


async def sign_in(page: Page, key: str) -> None:
    await page.fill("#key", key)
    await page.press("#key", "Enter")


async def test_the_page_asks_for_a_key_and_then_answers_and_a_sign_out_leaves_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path, skills=skills("short")) as served, chromium() as browser:
        page = await browser.new_page()
        broken: list[object] = []
        page.on("pageerror", lambda error: broken.append(error))
        await page.goto(root(served))
        await expect(page.locator("#key")).to_be_focused()
        await sign_in(page, BOB + "x")
        await expect(page.locator("#sign-in-note")).to_contain_text("This key is not known here.")
        await sign_in(page, ALICE)
        await expect(page.locator("#sign-in")).to_be_hidden()
        await expect(page.locator("#sign-out")).to_have_text("Sign out alice")
        await expect(page.get_by_role("button", name="Skill: none")).to_be_visible()
        await page.fill("#question", QUESTION)
        await page.press("#question", "Enter")
        await expect(page.locator("#threads li")).to_have_count(1)
        await expect(page.locator("#turns")).to_contain_text("The rule says")
        assert await page.evaluate("document.cookie") == ""
        assert ALICE not in await page.content()
        await page.click("#sign-out")
        await expect(page.locator("#sign-in")).to_be_visible()
        assert "The rule says" not in await page.content()
        assert broken == []


async def test_a_question_that_was_refused_for_want_of_a_key_stays_on_the_page(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served, chromium() as browser:
        page = await browser.new_page()
        await page.goto(root(served))
        await page.fill("#question", QUESTION)
        await page.press("#question", "Enter")
        await expect(page.locator(".problem")).to_contain_text("sign in")
        await sign_in(page, ALICE)
        await expect(page.locator("#sign-in")).to_be_hidden()
        await expect(page.locator("#turns")).to_contain_text(QUESTION)


async def test_a_link_to_a_source_leads_over_the_sign_in_to_the_source_and_to_no_other_place(tmp_path: Path) -> None:
    async with guarded(tmp_path) as served, chromium() as browser:
        page = await browser.new_page()
        await page.goto(f"{root(served)}/sources/p000000000000001?q=record")
        await page.get_by_role("link", name="Sign in").click()
        await sign_in(page, ALICE)
        await expect(page.locator("mark")).to_have_text("record")
        await page.context.clear_cookies()
        for foreign in ("https://evil.test/sources/x", "//evil.test/sources/x", "/chat", "javascript:alert(1)"):
            await page.goto(f"{root(served)}/?next={foreign}")
            await sign_in(page, ALICE)
            await expect(page.locator("#sign-out")).to_be_visible()
            assert page.url.startswith(f"{root(served)}/?next=")
            await page.context.clear_cookies()


async def test_a_page_without_keys_shows_no_sign_in(tmp_path: Path) -> None:
    async with guarded(tmp_path, rules=access(tmp_path, anonymous=True)) as served, chromium() as browser:
        page = await browser.new_page()
        await page.goto(root(served))
        await expect(page.locator("#threads-note")).to_have_text("No threads yet.")
        await expect(page.locator("#sign-in")).to_be_hidden()
        await expect(page.locator("#sign-out")).to_be_hidden()
