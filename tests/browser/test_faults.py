"""Every way in which a run ends, as the page shows it: solid, withdrawn, refused, doubtful, broken, stopped, cut."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from service.ratelimit.memory import MemoryLimiter
from tests.api.guarded import ALICE, guarded
from tests.browser import faulty
from tests.browser.chat import Chat, chat
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.faulty import AWAY, FIRST, SECOND, FaultyModel
from tests.fakes import services
from tests.running import House
from tests.served import QUESTION, Served, eventually, serving

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(House(services(tmp_path), FaultyModel())) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, served: Served) -> AsyncIterator[Chat]:
    async with chat(browser, served) as opened:
        yield opened


def model_of(served: Served) -> FaultyModel:
    model = served.house.runs._model_for_run()
    assert isinstance(model, FaultyModel)
    return model


async def waiting(served: Served, question: str) -> None:
    await eventually(lambda: question in model_of(served).waiting, within_s=10)


async def test_a_draft_looks_like_one_until_both_gates_have_passed(page: Chat, served: Served) -> None:
    question = f"When {faulty.HELD_JUDGE}?"
    turn = await page.ask(question)
    await waiting(served, question)
    await expect(turn).to_contain_text("Draft, being checked")
    await expect(turn).to_contain_text("The rule says")
    await expect(turn).to_contain_text("[[1]]")  # text is text: no chip, no markup yet
    await expect(turn.locator("a.cite")).to_have_count(0)
    assert await page.page.locator("#announcer").inner_text() == ""
    muted = await turn.locator(".draft .text").evaluate("node => getComputedStyle(node).color")
    model_of(served).go.set()
    await expect(turn).to_have_attribute("data-state", "answered")
    await expect(turn).not_to_contain_text("Draft, being checked")
    await expect(turn.locator("a.cite")).to_have_count(1)
    assert await turn.locator(".answer").evaluate("node => getComputedStyle(node).color") != muted
    checks = turn.get_by_role("list", name="Checks")
    await expect(checks).to_contain_text("Grounded: yes")
    await expect(checks).to_contain_text("Answers the question: yes")
    await expect(checks).to_contain_text("1 attempt")
    await expect(page.page.locator("#announcer")).to_contain_text("The rule says")


async def test_a_draft_that_fails_is_withdrawn_with_its_reason_and_the_next_takes_its_place(
    page: Chat, served: Served
) -> None:
    question = f"What if {faulty.WITHDRAWN} and {faulty.HELD_REWRITER}?"
    turn = await page.ask(question)
    await waiting(served, question)
    await expect(turn).to_contain_text("not every statement was supported by its sources")
    await expect(turn).to_contain_text(SECOND)
    await expect(turn.locator(".body")).not_to_contain_text(FIRST)
    model_of(served).go.set()
    await expect(turn).to_have_attribute("data-state", "answered")
    await expect(turn).not_to_contain_text(FIRST)
    await expect(turn.get_by_role("list", name="Checks")).to_contain_text("2 attempts")


async def test_a_refusal_says_whom_to_ask_and_what_can_be_done(page: Chat) -> None:
    turn = await page.ask(f"What if {faulty.IRRELEVANT}?")
    await expect(turn).to_have_attribute("data-state", "refused")
    await expect(turn.get_by_role("heading", name="Not answered")).to_be_visible()
    await expect(turn).to_contain_text("Ask the knowledge team.")
    await expect(turn.locator("a.cite")).to_have_count(0)
    await turn.get_by_role("button", name="Show the closest passages").click()
    await expect(turn).to_contain_text("Rulebook 1")
    await turn.get_by_role("button", name="Ask again with the web").click()
    await expect(page.page.get_by_role("switch", name="Search the web")).to_be_checked()
    await expect(page.box).to_have_value(f"What if {faulty.IRRELEVANT}?")
    assert len([url for url in page.requests if url.endswith("/chat")]) == 1  # a person sends, not the button
    await page.box.fill("")
    await turn.get_by_role("button", name="Rephrase").click()
    await expect(page.box).to_have_value(f"What if {faulty.IRRELEVANT}?")
    await expect(page.box).to_be_focused()


async def test_an_answer_that_stayed_doubtful_says_so_in_plain_words(page: Chat) -> None:
    turn = await page.ask(f"What if {faulty.UNGROUNDED}?")
    await expect(turn).to_have_attribute("data-state", "partial")
    await expect(turn.locator(".warning")).to_be_visible()
    await expect(turn).to_contain_text(SECOND)
    await expect(turn.get_by_role("list", name="Checks")).to_contain_text("Grounded: no")


async def test_a_judge_that_fails_is_never_shown_as_a_pass(page: Chat) -> None:
    turn = await page.ask(f"What if {faulty.UNJUDGED}?")
    await expect(turn).to_have_attribute("data-state", "partial")
    await expect(turn.locator(".warning")).to_be_visible()
    checks = turn.get_by_role("list", name="Checks")
    await expect(checks).to_contain_text("Grounded: not assessed")
    await expect(checks).not_to_contain_text("Grounded: yes")


async def test_a_model_that_breaks_off_takes_the_draft_with_it_and_the_question_can_be_tried_again(page: Chat) -> None:
    question = f"What if {faulty.BREAKS}?"
    turn = await page.ask(question)
    await expect(turn).to_have_attribute("data-state", "error")
    await expect(turn.get_by_role("alert")).to_contain_text(AWAY)
    await expect(turn).not_to_contain_text("The rule")
    await expect(turn.get_by_role("heading", name=question)).to_be_visible()
    await expect(page.send).to_be_visible()
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns).to_have_count(1)
    await expect(page.turns.last).to_have_attribute("data-state", "answered")


async def test_a_question_that_failed_can_be_edited(page: Chat) -> None:
    turn = await page.ask(f"What if {faulty.BREAKS}, edited?")
    await turn.get_by_role("button", name="Edit the question").click()
    await expect(page.box).to_have_value(f"What if {faulty.BREAKS}, edited?")
    await expect(page.box).to_be_focused()


async def stop_slowly(route: Route, seen: list[str]) -> None:
    seen.append(route.request.method)
    await asyncio.sleep(0.5)  # long enough for a browser to take the focus from a button that is disabled
    await route.continue_()


async def test_a_stop_ends_the_run_and_leaves_its_text_marked_as_unchecked(page: Chat, served: Served) -> None:
    question = f"When {faulty.HELD_WRITER}?"
    turn = await page.ask(question)
    await waiting(served, question)
    await expect(turn).to_contain_text("The rul")
    stops: list[str] = []
    await page.page.route("**/runs/*", lambda route: stop_slowly(route, stops))
    await page.stop.click()
    await expect(page.stop).to_be_disabled()
    await page.stop.press("Enter")
    await expect(turn).to_have_attribute("data-state", "stopped")
    assert len(stops) == 1
    await expect(turn).to_contain_text("incomplete, and not checked")
    await expect(turn).to_contain_text("The rul")
    await expect(turn.locator("a.cite")).to_have_count(0)
    await expect(page.send).to_be_focused()
    await eventually(lambda: not served.house.runs._active, within_s=5)
    assert (await served.client.get("/threads")).json()["threads"] == []
    model_of(served).go.set()
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns.last).to_have_attribute("data-state", "answered")


def cut_every_connection(served: Served) -> None:
    """As a network that goes away does: RST to the reader, and the server hears of it too."""
    for connection in list(served.server.server_state.connections):
        connection.transport.abort()


async def test_a_connection_that_is_cut_is_told_and_the_question_can_be_tried_again(page: Chat, served: Served) -> None:
    question = f"When {faulty.HELD_WRITER}, cut?"
    turn = await page.ask(question)
    await waiting(served, question)
    await expect(turn).to_contain_text("The rul")
    cut_every_connection(served)
    await expect(turn).to_have_attribute("data-state", "error", timeout=15_000)
    await expect(turn.get_by_role("alert")).to_contain_text("The connection was cut before the answer was complete.")
    await expect(turn).not_to_contain_text("The rul")
    model_of(served).go.set()
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns.last).to_have_attribute("data-state", "answered")
    await expect(page.turns).to_have_count(1)


CUT_BEFORE_DONE = """
const asked = window.fetch;
window.fetch = async (path, init) => {
  const response = await asked(path, init);
  if (String(path) !== "/chat") return response;
  const text = await response.text(); // the server has finished
  const kept = new TextEncoder().encode(text.slice(0, text.indexOf("event: done")));
  return new Response(new ReadableStream({
    pull(control) {
      if (kept.sent) control.error(new TypeError("network error"));
      else control.enqueue(kept);
      kept.sent = true;
    },
  }, { highWaterMark: 0 }), { headers: response.headers });
};
"""


async def test_an_answer_that_was_finished_behind_a_cut_connection_is_fetched(browser: Browser, served: Served) -> None:
    async with chat(browser, served, CUT_BEFORE_DONE) as page:
        turn = await page.ask("How long must record 1 be kept?")
        await expect(turn).to_have_attribute("data-state", "answered", timeout=15_000)
        await expect(turn.locator("a.cite")).to_have_count(1)
        assert model_of(served).count("answer") == 1


async def test_a_server_that_cannot_be_reached_is_told_and_the_question_is_kept(page: Chat) -> None:
    await page.page.route("**/chat", lambda route: route.abort("connectionrefused"))
    turn = await page.ask("Is anybody there?")
    await expect(turn.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    await page.page.unroute("**/chat")
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns.last).to_have_attribute("data-state", "answered")


async def test_a_thread_that_answers_elsewhere_is_busy_and_can_be_asked_afterwards(page: Chat, served: Served) -> None:
    await expect(await page.ask("First?")).to_have_attribute("data-state", "answered")
    [thread] = (await served.client.get("/threads")).json()["threads"]
    elsewhere = f"When {faulty.HELD_WRITER}, elsewhere?"
    async with served.asking(elsewhere, thread_id=thread["thread_id"]) as stream:
        await waiting(served, elsewhere)
        turn = await page.ask("Second?")
        await expect(turn).to_have_attribute("data-state", "error")
        await expect(turn.get_by_role("alert")).to_contain_text("This thread is still answering.")
        model_of(served).go.set()
        await stream.until(lambda frame: frame["type"] == "done")
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns.last).to_have_attribute("data-state", "answered")


async def test_a_question_outlives_a_page_that_is_loaded_anew_before_its_answer(page: Chat, served: Served) -> None:
    question = f"When {faulty.HELD_WRITER}, loaded anew?"
    await page.ask(question)
    await waiting(served, question)
    await page.page.reload()
    turn = page.turns.last
    await expect(turn).to_have_attribute("data-state", "error")
    await expect(turn.get_by_role("heading", name=question)).to_be_visible()
    await expect(turn.get_by_role("alert")).to_contain_text("before the answer was complete")
    model_of(served).go.set()
    await turn.get_by_role("button", name="Try again").click()
    await expect(page.turns.last).to_have_attribute("data-state", "answered")
    await page.page.reload()
    await expect(page.turns).to_have_count(1)
    await expect(page.turns.last).to_have_attribute("data-state", "answered")
    await page.page.get_by_role("button", name="New thread").click()
    await page.page.reload()
    await expect(page.page.locator("#welcome")).to_be_visible()
    await expect(page.turns).to_have_count(0)


async def test_an_answer_that_was_finished_while_the_page_was_loaded_anew_is_shown_and_not_asked_again(
    browser: Browser, served: Served
) -> None:
    [run, *_] = await served.frames(thread_id="t1")
    known = {"id": "t1", "skill": ""}
    asked = {"at": "", "question": QUESTION, "webSearch": False, "thread": known, "runId": run["run_id"]}
    async with chat(browser, served) as page:
        await page.page.evaluate("asked => sessionStorage.setItem('asked', JSON.stringify(asked))", asked)
        await page.page.reload()
        await expect(page.turns).to_have_count(1)
        await expect(page.turns.last).to_have_attribute("data-state", "answered")
        await expect(page.page).to_have_url(f"{page.root}/#thread=t1")
        assert model_of(served).count("answer") == 1


async def test_an_answer_that_another_window_gets_is_shown_once_it_is_there(page: Chat, served: Served) -> None:
    await expect(await page.ask("First?")).to_have_attribute("data-state", "answered")
    [thread] = (await served.client.get("/threads")).json()["threads"]
    elsewhere = f"When {faulty.HELD_WRITER}, in another window?"
    async with served.asking(elsewhere, thread_id=thread["thread_id"]) as stream:
        await waiting(served, elsewhere)
        await page.page.reload()
        await expect(page.page.locator("#note")).to_contain_text("answering in another window")
        await expect(page.turns).to_have_count(1)
        model_of(served).go.set()
        await stream.until(lambda frame: frame["type"] == "done")
    await expect(page.turns).to_have_count(2)
    await expect(page.turns.last.get_by_role("heading", name=elsewhere)).to_be_visible()
    await expect(page.page.locator("#note")).to_be_empty()


async def test_who_asks_too_often_is_told_how_long_to_wait_and_may_then_try_again(
    browser: Browser, tmp_path: Path
) -> None:
    clock = [1000.0]
    limiter = MemoryLimiter(1, clock=lambda: clock[0])
    async with (
        serving(House(services(tmp_path), FaultyModel()), limiter=limiter) as served,
        chat(browser, served) as page,
    ):
        await page.page.clock.install()
        await expect(await page.ask("First?")).to_have_attribute("data-state", "answered")
        clock[0] += 17.5
        turn = await page.ask("Second?")
        await expect(turn).to_have_attribute("data-state", "error")
        await expect(turn.get_by_role("alert")).to_contain_text("You may ask once a minute.")
        await expect(turn.get_by_role("alert")).to_contain_text("43 s")
        again = turn.get_by_role("button", name=re.compile("Try again"))
        await expect(again).to_be_disabled()
        clock[0] += 43
        await page.page.clock.fast_forward(43_000)
        await again.click()
        await expect(page.turns.last).to_have_attribute("data-state", "answered")
        await expect(page.turns).to_have_count(2)


async def test_who_is_not_signed_in_keeps_the_question_and_asks_it_again_after_the_sign_in(
    browser: Browser, tmp_path: Path
) -> None:
    async with guarded(tmp_path, FaultyModel()) as served, chat(browser, served) as page:
        turn = await page.ask("May I?")
        await expect(turn.get_by_role("alert")).to_contain_text("sign in")
        await page.page.get_by_label("Your key").fill("not a key")
        await page.page.get_by_role("button", name="Sign in").click()
        await expect(page.page.get_by_role("form", name="Sign in").get_by_role("alert")).to_contain_text("not known")
        await page.page.get_by_label("Your key").fill(ALICE)
        await page.page.get_by_role("button", name="Sign in").click()
        await expect(page.page.get_by_role("form", name="Sign in")).to_be_hidden()
        await turn.get_by_role("button", name="Try again").click()
        await expect(page.turns.last).to_have_attribute("data-state", "answered")
        assert await page.page.evaluate("document.cookie") == ""
