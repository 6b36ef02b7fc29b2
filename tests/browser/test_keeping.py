"""What the page keeps, and gives back with the same numbers: threads, copies, exports, a word on an answer."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.chromium import needs_chromium
from tests.browser.page import chat_page
from tests.fakes import FixedKnowledge, ScriptedModel, passage, services, snapped

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

SAID = "Rule 1 says that a firm must keep record 1 for 1 years."
CHIPS = "chips => chips.map(chip => [chip.textContent, chip.href, chip.ariaLabel])"


async def test_reloading_and_switching_threads_restore_every_number(tmp_path: Path) -> None:
    knowledge = FixedKnowledge([passage(number) for number in range(1, 5)])
    by_last = ScriptedModel(draft=lambda _, sources: f"It says “{sources[-1].passage.text}” [[{sources[-1].n}]].")
    async with chat_page(tmp_path, by_last, world=services(tmp_path, knowledge=knowledge)) as chat:
        page = chat.page
        await chat.ask("first")
        knowledge.passages.append(snapped(passage(9), chat.served.house.services.snapshots))
        await chat.ask("second")
        seen = await page.locator("a.cite").evaluate_all(CHIPS)
        assert [number for number, _, _ in seen] == ["4", "5"]
        await page.reload()
        await expect(chat.turns).to_have_count(2)
        assert await page.locator("a.cite").evaluate_all(CHIPS) == seen
        await page.get_by_role("button", name="New thread").click()
        await chat.ask("elsewhere")
        await expect(chat.turns).to_have_count(1)
        await page.locator("#threads a", has_text="first").click()
        await expect(chat.turns).to_have_count(2)
        assert await page.locator("a.cite").evaluate_all(CHIPS) == seen
        await page.go_back()
        await expect(chat.turns.locator("h2")).to_have_text("elsewhere")


async def test_threads_are_searched_renamed_and_deleted_only_after_asking(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        page, rows = chat.page, chat.page.locator("#threads li")
        await chat.ask("Records of trades?")
        await page.get_by_role("button", name="New thread").click()
        await chat.ask("Own funds?")
        await page.get_by_role("searchbox", name="Search your threads").fill("trades rec")
        await expect(rows).to_have_count(1)
        await expect(page.locator("#threads-note")).to_have_text("1 of 2 threads")
        await page.get_by_role("button", name="Rename: Records of trades?").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("textbox", name="Title")).to_be_focused()
        await dialog.get_by_role("textbox", name="Title").fill("Trades: record keeping")
        await page.keyboard.press("Enter")
        await expect(rows.get_by_role("link")).to_have_text("Trades: record keeping")
        await page.get_by_role("searchbox").fill("")
        erase = page.get_by_role("button", name="Delete: Own funds?")
        await erase.click()
        await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(rows).to_have_count(2)
        await erase.click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(rows).to_have_count(1)
        await expect(chat.turns).to_have_count(0)
        await expect(page.locator("#threads-note")).to_contain_text("The audit log keeps its 1 record(s)")
        assert [thread["title"] for thread in (await chat.served.client.get("/threads")).json()["threads"]] == [
            "Trades: record keeping"
        ]


async def test_a_copy_holds_the_answer_as_it_stands_and_its_sources(tmp_path: Path) -> None:
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with chat_page(tmp_path, options=options) as chat:
        turn = await chat.ask()
        await turn.get_by_role("button", name="Copy as Markdown").click()
        await expect(turn.locator(".actions")).to_contain_text("Copied, with its sources.")
        copied = await chat.page.evaluate("navigator.clipboard.readText()")
        thread = (await chat.served.client.get("/threads")).json()["threads"][0]["thread_id"]
        stored = (await chat.served.client.get(f"/threads/{thread}")).json()
        assert stored["items"][0]["answer"] in copied
        assert f"- [[1]] [VECTOR] Rulebook 1, R 1, read 2031-01-01: “{SAID}” (quotation verified)" in copied
        assert stored["sources"][0]["sha256"] in copied


async def test_an_export_is_a_file_that_holds_the_answer(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        await chat.ask()
        link = chat.page.get_by_role("link", name="Export as Markdown")
        thread = (await chat.served.client.get("/threads")).json()["threads"][0]["thread_id"]
        await expect(link).to_have_attribute("href", f"/threads/{thread}/export")
        if (await chat.served.client.get(f"/threads/{thread}/export")).status_code == 404:
            pytest.skip("this server has no export route")
        async with chat.page.expect_download() as downloading:
            await link.click()
        file = await (await downloading.value).path()
        stored = (await chat.served.client.get(f"/threads/{thread}")).json()
        exported = await asyncio.to_thread(Path(file).read_text, encoding="utf-8")
        assert stored["items"][0]["answer"].replace("[[1]]", "[^1]") in exported
        assert stored["sources"][0]["sha256"] in exported


async def test_a_thumb_and_a_comment_reach_the_record(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        turn = await chat.ask()
        thumb = turn.get_by_role("button", name="Bad answer")
        await thumb.click()
        await expect(thumb).to_have_attribute("aria-pressed", "true")
        await turn.get_by_role("textbox", name="Comment, if you like").fill("The period is missing.")
        await turn.get_by_role("button", name="Send the comment").click()
        await expect(turn).to_contain_text("Thank you: your comment was recorded.")
        run = await turn.get_attribute("data-run")
        feedback = (await chat.served.client.get(f"/runs/{run}")).json()["feedback"]
        assert [(item["thumbs"], item["comment"]) for item in feedback] == [
            ("down", ""),
            ("down", "The period is missing."),
        ]


# A tab that sleeps

BROKEN_STREAM = """
const real = window.fetch;
window.seen = true;
Object.defineProperty(document, "hidden", {get: () => !window.seen});
window.fetch = async (...asked) => {
  const answer = await real(...asked);
  if (asked[0] !== "/chat") return answer;
  const whole = await answer.arrayBuffer();  // the server is not told: it goes on, as behind a proxy
  let given = false;
  const body = new ReadableStream({pull(out) {
    if (given) return out.error(new TypeError("network error"));
    given = true;
    out.enqueue(new Uint8Array(whole, 0, 1200));
  }});
  return new Response(body, {headers: answer.headers});
};
"""


async def test_a_stream_that_broke_while_the_tab_slept_is_read_from_the_server_when_it_wakes(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        page = chat.page
        await page.add_init_script(BROKEN_STREAM)
        await page.reload()
        await page.evaluate("window.seen = false")
        turn = await chat.send()
        await expect(turn).to_have_attribute("data-run", re.compile("r_"))
        await asyncio.sleep(0.5)
        await expect(turn).to_have_attribute("data-state", "running")
        await page.evaluate("window.seen = true; document.dispatchEvent(new Event('visibilitychange'))")
        await expect(turn).to_have_attribute("data-state", "answered")
        await expect(turn.locator("a.cite")).to_have_text("1")
        await expect(page.locator("#announcer")).to_contain_text("The rule says")
