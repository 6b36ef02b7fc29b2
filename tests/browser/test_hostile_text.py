"""Hostile text wherever text can stand: nothing runs, nothing leaves, and no element is there that should not be."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from service.graph.state import Limits
from service.model import Candidate, Grade, Kind, Passage, Source
from service.ports import WebFindings
from service.skills.registry import Skills
from tests.browser.chat import Chat, chat
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.hostile import ADDRESSES, ALL, ONE_LINE, TEXTS
from tests.fakes import FAIL, FixedKnowledge, ScriptedModel, ScriptedWeb, passage, services, snapped
from tests.running import House
from tests.served import Served, serving
from tests.skills.writing import skill

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium, pytest.mark.asyncio(loop_scope="module")]

ANSWER_TAGS = {"A", "BLOCKQUOTE", "BR", "CODE", "EM", "H3", "H4", "H5", "H6", "HR", "LI", "OL", "P", "PRE", "STRONG"}
ANSWER_TAGS |= {"TABLE", "TBODY", "TD", "TH", "THEAD", "TR", "UL"}
# Of the page itself: its form, its lists and panels, and the drawing of a run's way.
PAGE_TAGS = ANSWER_TAGS | {
    "HTML",
    "HEAD",
    "META",
    "TITLE",
    "LINK",
    "SCRIPT",
    "BODY",
    "HEADER",
    "NAV",
    "MAIN",
    "SECTION",
}
PAGE_TAGS |= {
    "ARTICLE",
    "DIV",
    "SPAN",
    "B",
    "H1",
    "H2",
    "FORM",
    "LABEL",
    "INPUT",
    "TEXTAREA",
    "BUTTON",
    "SELECT",
    "OPTION",
}
PAGE_TAGS |= {"DETAILS", "SUMMARY", "DIALOG", "NOSCRIPT", "DL", "DT", "DD", "MARK", "SMALL", "I", "TIME"}
DRAWING_TAGS = {"svg", "g", "path", "rect", "text", "title", "defs", "marker", "circle", "line", "polyline", "tspan"}

ELEMENTS = """() => [...document.querySelectorAll("*")].map(node => ({
  tag: node.tagName,
  attributes: Object.fromEntries([...node.attributes].map(({name, value}) => [name, value])),
}))"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


def hostile_passage(number: int, address: str, kind: Kind) -> Passage:
    item = passage(number, f"Passage {number}. {ALL}", kind=kind)
    return replace(item, title=f"Title {number} {ONE_LINE}", section=ONE_LINE, address=address)


@pytest_asyncio.fixture(loop_scope="module")
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    kinds: list[Kind] = ["official", "reference"]
    items = [hostile_passage(number, address, kinds[number % 2]) for number, address in enumerate(ADDRESSES)]
    pages = [hostile_passage(100 + number, address, "web") for number, address in enumerate(ADDRESSES)]
    web = ScriptedWeb()
    world = services(tmp_path, knowledge=FixedKnowledge(items), web=web, limits=Limits(top_n=40))
    strips = tuple(Candidate(snapped(item, world.snapshots), 0.9) for item in pages)
    web.findings = WebFindings("", "ok", strips, warning=ONE_LINE)
    model = ScriptedModel(
        draft=hostile_draft,
        grading=lambda *_: Grade("pass", ONE_LINE),
        grounded=lambda _: replace(FAIL, words=ALL),
    )
    hostile_skill = replace(skill("short"), description=ONE_LINE)
    async with serving(House(world, model), skills=Skills([hostile_skill])) as opened:
        yield opened


def hostile_draft(_: int, sources: Sequence[Source]) -> str:
    return f"{ALL}\n\nThe end {' '.join(f'[[{source.n}]]' for source in sources)} [[1]].\n\n{TEXTS[1]}"


async def assert_harmless(page: Chat) -> None:
    """No script ran, nothing was stopped by the policy alone, no request left, and each element is one of ours."""
    assert await page.page.evaluate("window.ran") is None
    assert await page.violations() == []
    assert page.dialogs == []
    assert [url for url in page.requests if not url.startswith(f"{page.root}/")] == []
    scripts = 0
    for element in await page.page.evaluate(ELEMENTS):
        tag, attributes = element["tag"], element["attributes"]
        assert tag in PAGE_TAGS | DRAWING_TAGS, element
        scripts += tag == "SCRIPT"
        assert not [name for name in attributes if name.startswith("on") or name == "srcdoc"], element
        for name in {"href", "src", "action", "formaction", "xlink:href"} & set(attributes):
            assert_leads_to_us(attributes[name])
    assert scripts == 1


def assert_leads_to_us(address: str) -> None:
    """A path or a fragment of ours, or a link that the store made: below its own base."""
    parts = urlsplit(address)
    ours = not parts.scheme and not parts.netloc and address.startswith(("/", "#"))
    stored = parts.scheme == "http" and parts.hostname == "127.0.0.1"
    assert ours or stored, address


async def assert_answer_is_the_allow_list(turn: Locator) -> None:
    tags = set(await turn.locator(".answer *").evaluate_all("nodes => nodes.map(node => node.tagName)"))
    assert tags <= ANSWER_TAGS
    assert {"A", "P", "CODE", "TABLE"} <= tags
    links = await turn.locator(".answer a").evaluate_all("nodes => nodes.map(node => [node.className, node.rel])")
    assert links
    for name, rel in links:
        assert "cite" in name
        assert "noopener" in rel


async def test_hostile_text_in_question_answer_title_note_section_and_address_stays_text(
    browser: Browser, served: Served
) -> None:
    async with chat(browser, served) as page:
        await page.page.get_by_role("switch", name="Search the web").check()
        turn = await page.ask(ALL.replace("\x00", ""))
        await expect(turn).to_have_attribute("data-state", "partial")
        await assert_answer_is_the_allow_list(turn)
        await expect(turn.get_by_role("heading").first).to_contain_text("<script>window.ran=1</script>")
        await expect(turn.locator(".answer")).to_contain_text("<img src=x onerror=window.ran=1>")
        await open_everything(page, turn)
        await assert_harmless(page)


async def open_everything(page: Chat, turn: Locator) -> None:
    """Hover and focus the numbers, open what is folded: whatever text the page holds is on the screen once."""
    chips = turn.locator(".answer a.cite")
    for place in range(min(await chips.count(), 8)):
        await chips.nth(place).hover()
        await chips.nth(place).focus()
    for place in range(await turn.locator("summary").count()):
        summary = turn.locator("summary").nth(place)
        if await summary.is_visible():
            await summary.click()
    await page.page.wait_for_load_state("networkidle")


async def test_hostile_text_while_it_streams_is_text(browser: Browser, served: Served) -> None:
    model = served.house.runs._model_for_run()
    assert isinstance(model, ScriptedModel)
    model.delay_s = 0.01
    async with chat(browser, served) as page:
        turn = await page.ask("Slowly?")
        draft = turn.locator(".draft .text")
        await expect(draft).to_contain_text("<svg/onload=window.ran=1>")
        assert await draft.locator("*").count() == 0
        await assert_harmless(page)
        await expect(turn).to_have_attribute("data-state", "partial")
        await assert_harmless(page)


async def test_hostile_text_in_a_stored_thread_its_title_and_the_list_stays_text(
    browser: Browser, served: Served
) -> None:
    async with chat(browser, served) as page:
        await expect(await page.ask(ALL.replace("\x00", ""))).to_have_attribute("data-state", "partial")
        [thread] = (await served.client.get("/threads")).json()["threads"]
        title = ONE_LINE[:150]
        assert (await served.client.patch(f"/threads/{thread['thread_id']}", json={"title": title})).status_code == 200
        await page.page.reload()
        await expect(page.turns).to_have_count(1)
        await expect(page.page.get_by_role("navigation", name="Threads")).to_contain_text("<img src=x onerror=")
        await assert_answer_is_the_allow_list(page.turns.last)
        await open_everything(page, page.turns.last)
        await assert_harmless(page)


async def test_a_hostile_address_bar_shows_a_problem_and_runs_nothing(browser: Browser, served: Served) -> None:
    async with chat(browser, served) as page:
        for text in (*TEXTS[:6], "../../x", "%00", "javascript:window.ran=1"):
            await page.page.goto("about:blank")
            await page.page.goto(f"{page.root}/?next=javascript:window.ran=1#thread={text}&skill={text}")
            await expect(page.box).to_be_editable()
            await page.page.wait_for_load_state("networkidle")
            assert await page.page.evaluate("window.ran") is None
        await assert_harmless(page)


async def test_a_skill_with_a_hostile_description_is_listed_as_text(browser: Browser, served: Served) -> None:
    async with chat(browser, served) as page:
        await page.box.press("/")
        await expect(page.page.get_by_role("listbox", name="Skills")).to_contain_text("<script>window.ran=1</script>")
        await assert_harmless(page)


async def test_hostile_words_of_an_error_stay_text(browser: Browser, served: Served) -> None:
    async with chat(browser, served) as page:
        await page.page.route(
            "**/chat",
            lambda route: route.fulfill(
                status=503,
                json={"error": {"code": ALL, "message": ALL, "retryable": True}},
                headers={"Retry-After": ALL[:8]},
            ),
        )
        turn = await page.ask("Well?")
        await expect(turn.get_by_role("alert")).to_contain_text("<script>window.ran=1</script>")
        await assert_harmless(page)


async def test_the_check_itself_sees_a_script_an_element_and_a_request(browser: Browser, served: Served) -> None:
    """What these tests look for is found where it is there: a page whose policy is off is not found harmless."""
    async with chat(browser, served) as page:
        await page.page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<img alt=x>')")
        with pytest.raises(AssertionError, match="IMG"):
            await assert_harmless(page)
        await page.page.evaluate("document.querySelector('img').remove(); window.ran = 1")
        with pytest.raises(AssertionError):
            await assert_harmless(page)
