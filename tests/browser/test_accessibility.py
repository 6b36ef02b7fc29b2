"""Each state of the page under axe-core, the way of the Tab key, and what is heard, zoomed in, small and still."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, ViewportSize, expect

from service.errors import ModelUnavailable
from service.graph.state import Services
from service.model import Candidate, Grade, Scope, Source
from service.ports import WebFindings
from service.skills.registry import Skills
from tests.api.guarded import KEYS, access
from tests.browser.axe import barriers, needs_axe
from tests.browser.chromium import needs_chromium
from tests.browser.page import ChatPage, chat_page
from tests.fakes import ERROR, FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services, snapped
from tests.skills.writing import skill

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

SKILLS = Skills([skill("clocks"), skill("short", Scope(web=False))])
PHONE: dict[str, Any] = {"is_mobile": True, "has_touch": True}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}, **PHONE},
}
ALL_KINDS = (passage(1), passage(2, kind="reference", source="notes"), passage(3), passage(4))


def everything(_: int, sources: Sequence[Source]) -> str:
    """A draft that cites sources of every label, and one of them for what it does not say; one is left uncited."""
    listed = "\n".join(f"* It says “{source.passage.text}” [[{source.n}]]." for source in (*sources[:2], sources[-1]))
    return f"**In short:**\n\n{listed}\n\nNobody says “that no record need be kept by anybody at all” [[1]]."


def world(folder: Path) -> Services:
    """Sources under all three labels, the web's too."""
    knowledge = FixedKnowledge(list(ALL_KINDS))
    made = services(folder, knowledge=knowledge)
    strip = snapped(passage(40, "The web says forty.", kind="web", source="web"), made.snapshots)
    return replace(made, web=ScriptedWeb(WebFindings("", "ok", (Candidate(strip, 0.9),))))


async def see(chat: ChatPage, seen: dict[str, list[str]], state: str) -> None:
    seen[state] = await barriers(chat.page)


async def states_of_an_answer(chat: ChatPage, seen: dict[str, list[str]]) -> None:
    page = chat.page
    await page.get_by_role("switch").check()
    await see(chat, seen, "web on")
    turn = await chat.ask("What is said of everything?", "partial")
    await see(chat, seen, "answered, with a warning")
    await turn.locator("a.cite").last.focus()
    await expect(page.get_by_role("tooltip")).to_be_visible()
    await see(chat, seen, "a chip's popover")
    await turn.locator('[data-part="consulted"] summary').click()
    await turn.get_by_text("Why this answer").click()
    await expect(turn.get_by_role("heading", name="Facts")).to_be_visible()
    await see(chat, seen, "the trace")
    await turn.get_by_role("button", name="Bad answer").click()
    await expect(turn.get_by_role("textbox")).to_be_visible()
    await see(chat, seen, "a comment")


async def states_of_what_is_no_answer(chat: ChatPage, model: ScriptedModel, seen: dict[str, list[str]]) -> None:
    page = chat.page
    model.grounded = lambda _: ERROR
    await chat.ask("Not assessed?", "partial")
    await see(chat, seen, "not assessed")
    model.draft = lambda *_: ModelUnavailable("The language model does not answer. Please try again.")
    await chat.ask("Away?", "error")
    await see(chat, seen, "error")
    model.grading = lambda *_: Grade("fail", "of something else")
    turn = await chat.ask("Refused?", "refused")
    await turn.get_by_role("button", name="Show the closest passages").click()
    await expect(turn.get_by_role("list", name="Closest passages")).to_be_visible()
    await see(chat, seen, "refused")
    model.grading, model.draft = (lambda *_: Grade("pass")), (lambda *_: f"{'A slow draft. ' * 6}[[1]]")
    model.delay_s, model.piece = 2.0, 1
    turn = await chat.send("Slow?")
    await see(chat, seen, "stages")
    await expect(turn.locator(".draft")).to_be_visible(timeout=30_000)
    await see(chat, seen, "draft")
    await page.get_by_role("button", name="Stop").click()
    await expect(turn).to_have_attribute("data-state", "stopped")
    await see(chat, seen, "stopped")
    model.delay_s = 0.0


async def states_of_choosing(chat: ChatPage, seen: dict[str, list[str]]) -> None:
    page = chat.page
    await page.get_by_role("button", name="Skill: none").click()
    await expect(page.get_by_role("listbox")).to_be_visible()
    await see(chat, seen, "skill menu")
    await page.keyboard.press("End")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await see(chat, seen, "web forbidden")
    await page.fill("#question", "")
    if not await page.locator("#sidebar").is_visible():
        await page.get_by_role("button", name="Threads").click()
    await see(chat, seen, "threads")
    await page.get_by_role("button", name="Rename: ").first.click()
    await see(chat, seen, "renaming")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Delete: ").first.click()
    await see(chat, seen, "deleting")
    await page.keyboard.press("Escape")


@needs_axe
@pytest.mark.parametrize("look", LOOKS)
async def test_no_state_of_the_page_has_a_barrier_that_axe_finds(tmp_path: Path, look: str) -> None:
    model = ScriptedModel(draft=everything)
    seen: dict[str, list[str]] = {}
    given = LOOKS[look]
    async with chat_page(tmp_path, model, world=world(tmp_path), skills=SKILLS, options=given) as chat:
        await see(chat, seen, "nothing asked yet")
        await states_of_an_answer(chat, seen)
        await states_of_what_is_no_answer(chat, model, seen)
        await states_of_choosing(chat, seen)
    assert len(seen) == 17
    assert {state: found for state, found in seen.items() if found} == {}


@needs_axe
async def test_the_sign_in_has_no_barrier_and_the_instrument_sees_one(tmp_path: Path) -> None:
    async with chat_page(tmp_path, access=access(tmp_path, *KEYS)) as chat:
        await expect(chat.page.locator("#key")).to_be_focused()
        assert await barriers(chat.page) == []
        await chat.page.evaluate("document.querySelector('label[for=key]').remove()")
        assert any(found.startswith("label #key") for found in await barriers(chat.page))


NAME = """() => {
  const at = document.activeElement;
  if (at === document.body) return "";
  return at.getAttribute("aria-label") || (at.labels?.[0] ?? at).textContent.trim();
}"""
TAB_ORDER = [
    "Skip to the question",
    "New thread",
    "Search your threads",
    "How long must record 1 be kept?",
    "Rename: How long must record 1 be kept?",
    "Delete: How long must record 1 be kept?",
    "Export as Markdown",
    "Source 1, [VECTOR] Rulebook 1, R 1, opens in a new tab",
    "Copy as Markdown",
    "Good answer",
    "Bad answer",
    "Why this answer",
    "Rulebook 1",
    "Open at this sentence, source 1: Rule 1 says that a firm must keep record 1 for 1 years.",
    "Consulted, not cited: 5 passages",
    "Your question",
    "Skill: none",
    "Search the web",
    "Send",
]


async def tabbed(page: Page) -> list[str]:
    """The name of each element that the Tab key reaches, from the top of the page to its end; each shows its focus."""
    await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    names: list[str] = []
    for _ in range(40):
        await page.keyboard.press("Tab")
        name: str = await page.evaluate(NAME)
        if not name or name in names:
            break
        names.append(name)
        assert await page.evaluate(SHOWS_FOCUS), f"the focus on {name} cannot be seen"
    return names


SHOWS_FOCUS = """() => {
  const at = document.activeElement;
  const shown = at.id === "question" ? at.closest(".box") : at;
  const {outlineStyle, outlineWidth} = getComputedStyle(shown);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
}"""


async def test_the_tab_key_reaches_everything_in_the_order_in_which_it_is_read(tmp_path: Path) -> None:
    async with chat_page(tmp_path, skills=SKILLS) as chat:
        await chat.ask()
        await chat.page.reload()
        await expect(chat.turns).to_have_attribute("data-state", "answered")
        assert await tabbed(chat.page) == TAB_ORDER


async def test_the_keyboard_alone_asks_reads_why_and_goes_back(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        page = chat.page
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.keyboard.type("How long must record 1 be kept?")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("And why?")
        await page.keyboard.press("Enter")
        await expect(chat.turns).to_have_attribute("data-state", "answered")
        await expect(chat.turns.locator("h2")).to_have_text("How long must record 1 be kept?\nAnd why?")
        await page.locator(".why summary").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("svg.route")).to_be_visible()
        await page.get_by_role("switch").focus()
        await page.keyboard.press("Space")
        await expect(page.get_by_role("switch")).to_be_checked()


async def test_an_answer_is_heard_once_and_never_token_by_token(tmp_path: Path) -> None:
    async with chat_page(tmp_path, ScriptedModel(delay_s=0.2)) as chat:
        page = chat.page
        await page.evaluate(LISTEN)
        await chat.ask()
        heard = await page.evaluate("window.heard")
        assert [" ".join(text.split()) for text in heard if "The rule says" in text] == [
            "Answer. The rule says “Rule 1 says that a firm must keep record 1 for 1 years.” (source 1) ."
        ]
        assert not await page.locator(".turn [aria-live]").count()


LISTEN = """() => {
  window.heard = [];
  const live = "[aria-live], [role=status], [role=alert], [role=log]";
  new MutationObserver(changes => {
    for (const {target} of changes) {
      const region = (target.nodeType === 1 ? target : target.parentElement)?.closest(live);
      if (region?.textContent) window.heard.push(region.textContent);
    }
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.mark.parametrize(
    ("width", "height"), [(640, 430), (320, 568)], ids=["a laptop's window at 200 %", "a small phone"]
)
async def test_nothing_is_cut_off_where_there_is_little_room(tmp_path: Path, width: int, height: int) -> None:
    small: ViewportSize = {"width": width, "height": height}
    async with chat_page(tmp_path, ScriptedModel(draft=everything), viewport=small) as chat:
        turn = await chat.ask(state="partial")
        await turn.get_by_text("Why this answer").click()
        await expect(turn.locator("svg.route")).to_be_visible()
        assert await chat.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        await turn.locator(".answer").scroll_into_view_if_needed()
        await turn.locator("a.cite").first.focus()
        box = await chat.page.get_by_role("tooltip").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


async def test_whoever_asks_for_stillness_sees_nothing_move(tmp_path: Path) -> None:
    options = {"reduced_motion": "reduce"}
    async with chat_page(tmp_path, ScriptedModel(delay_s=3), options=options) as chat:
        turn = await chat.send()
        await expect(turn.locator('[data-state="running"]').first).to_be_visible()
        assert await chat.page.evaluate("document.getAnimations().length") == 0
        await chat.page.get_by_role("button", name="Stop").click()
        await expect(turn).to_have_attribute("data-state", "stopped")
