"""What a practitioner does on the page all day: asks, checks, keeps. In a real Chromium, with a scripted model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from service.model import Candidate, Grade
from service.ports import WebFindings
from tests.browser.chromium import needs_chromium
from tests.browser.page import ChatPage, chat_page
from tests.fakes import (
    FAIL,
    PASS,
    FixedKnowledge,
    ScriptedModel,
    ScriptedWeb,
    cite_first,
    passage,
    services,
    snapped,
)
from tests.served import QUESTION

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium]

SAID = "Rule 1 says that a firm must keep record 1 for 1 years."


def asked(chat: ChatPage) -> list[dict[str, Any]]:
    """What the page will send to POST /chat from now on."""
    sent: list[dict[str, Any]] = []
    chat.page.on(
        "request",
        lambda request: sent.append(json.loads(request.post_data or "")) if request.url.endswith("/chat") else None,
    )
    return sent


# The web switch


def web_finding_one(folder: Path) -> ScriptedWeb:
    knowledge = FixedKnowledge()
    world = services(folder, knowledge=knowledge)
    page = snapped(passage(40, "The web says forty.", kind="web", source="web"), world.snapshots)
    return ScriptedWeb(WebFindings("", "ok", (Candidate(page, 0.9),)))


async def test_the_web_is_off_for_every_question_and_on_for_the_one_it_was_switched_on_for(tmp_path: Path) -> None:
    web = web_finding_one(tmp_path)
    async with chat_page(tmp_path, world=services(tmp_path, web=web)) as chat:
        sent, switch, note = asked(chat), chat.page.get_by_role("switch"), chat.page.locator("#web-note")
        await expect(switch).not_to_be_checked()
        await expect(note).to_have_text("Web off: only the knowledge base is read.")
        first = await chat.ask()
        await expect(first.locator(".web")).to_have_count(0)
        await switch.check()
        await expect(note).to_contain_text("Web on for this question: its words leave for a public search engine.")
        second = await chat.ask("And on the web?")
        await expect(switch).not_to_be_checked()
        await expect(note).to_have_attribute("data-state", "off")
        await expect(second.locator(".web")).to_have_text("The web was asked: “web words 1”; pages were found.")
        await chat.ask("And again?")
        assert [body["web_search"] for body in sent] == [False, True, False]
        assert web.sent == ["web words 1"]
        await chat.page.reload()
        await expect(chat.turns).to_have_count(3)
        await expect(chat.turns.nth(1).locator(".web")).to_have_text(
            "The web was asked: “web words 1”; pages were found."
        )


async def test_a_pinned_switch_stays_on_in_its_thread_and_in_no_other(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        page, sent, switch = chat.page, asked(chat), chat.page.get_by_role("switch")
        pin = page.get_by_role("button", name="Keep it on")
        await expect(pin).to_be_hidden()
        await switch.check()
        await pin.click()
        await expect(pin).to_have_attribute("aria-pressed", "true")
        await chat.ask()
        await expect(switch).to_be_checked()
        await expect(page.locator("#web-note")).to_contain_text("kept on for each question in this thread")
        await chat.ask("And the next?")
        await page.get_by_role("button", name="New thread").click()
        await expect(switch).not_to_be_checked()
        await chat.ask("Elsewhere?")
        await page.locator("#threads a", has_text=QUESTION).click()
        await expect(chat.turns).to_have_count(2)
        await expect(switch).not_to_be_checked()
        await switch.check()
        await pin.click()
        await pin.click()
        await chat.ask("After it was let go?")
        await expect(switch).not_to_be_checked()
        await switch.check()
        await page.reload()
        await expect(chat.turns).to_have_count(3)
        await expect(switch).not_to_be_checked()
        assert [body["web_search"] for body in sent] == [True, True, False, True]


async def test_an_operator_who_forbids_the_web_is_obeyed_and_named(tmp_path: Path) -> None:
    async with chat_page(tmp_path, web_allowed=False) as chat:
        await expect(chat.page.get_by_role("switch")).to_be_disabled()
        await expect(chat.page.locator("#web-note")).to_have_text(
            "The web is switched off in this installation. Only the knowledge base is read."
        )


# Citations


async def test_each_chip_shows_its_own_quote_on_hover_and_on_focus(tmp_path: Path) -> None:
    two = ScriptedModel(
        draft=lambda _, sources: f"First “{sources[0].passage.text}” [[1]]. Then “{sources[1].passage.text}” [[2]]."
    )
    async with chat_page(tmp_path, two) as chat:
        page, turn = chat.page, await chat.ask()
        popover = page.get_by_role("tooltip")
        chips = turn.locator("a.cite")
        await expect(chips).to_have_text(["1", "2"])
        await chips.first.hover()
        await expect(popover).to_contain_text(SAID)
        for said in ("[VECTOR] 1. Rulebook 1", "R 1", "read 2031-01-01", "quotation verified"):
            await expect(popover).to_contain_text(said)
        await popover.hover()
        await page.wait_for_timeout(400)
        await expect(popover).to_be_visible()
        await page.mouse.move(5, 5)
        await expect(popover).to_be_hidden()
        await chips.last.focus()
        await expect(popover).to_contain_text("Rule 2 says")
        await expect(chips.last).to_have_attribute("aria-describedby", "popover")
        await page.keyboard.press("Escape")
        await expect(popover).to_be_hidden()
        assert await chips.first.get_attribute("target") == "_blank"
        assert "noopener" in (await chips.first.get_attribute("rel") or "")


async def test_sources_stand_by_their_labels_and_cited_ones_apart_from_consulted_ones(tmp_path: Path) -> None:
    knowledge = FixedKnowledge([passage(1), passage(2, kind="reference", source="notes"), passage(3)])
    both = ScriptedModel(draft=lambda _, sources: f"{cite_first(sources)} So it is, as we note [[2]].")
    async with chat_page(tmp_path, both, world=services(tmp_path, knowledge=knowledge)) as chat:
        turn = await chat.ask()
        cited, consulted = turn.locator('[data-part="cited"]'), turn.locator('[data-part="consulted"]')
        await expect(cited.locator(".group")).to_have_text(
            ["[VECTOR] Official texts", "[REFERENCE] The practice's notes"]
        )
        await expect(cited.locator(".card")).to_have_count(2)
        await consulted.locator("summary").click()
        await expect(consulted.locator(".card")).to_have_count(1)
        await expect(consulted.locator(".card")).to_contain_text("Rulebook 3")


# Refusals


async def test_a_refusal_offers_a_way_on(tmp_path: Path) -> None:
    no = ScriptedModel(grading=lambda _, __: Grade("fail", "it speaks of something else"))
    async with chat_page(tmp_path, no) as chat:
        page = chat.page
        turn = await chat.ask(state="refused")
        refusal = turn.locator(".refusal")
        await expect(refusal.get_by_role("heading")).to_have_text("Not answered")
        await expect(refusal).to_contain_text("Whom to ask: Ask the knowledge team.")
        await expect(turn.locator("a.cite")).to_have_count(0)
        await refusal.get_by_role("button", name="Rephrase").click()
        await expect(page.locator("#question")).to_have_value(QUESTION)
        await expect(page.locator("#question")).to_be_focused()
        await page.fill("#question", "")
        await refusal.get_by_role("button", name="Ask again with the web").click()
        await expect(page.get_by_role("switch")).to_be_checked()
        await expect(page.locator("#question")).to_have_value(QUESTION)
        await refusal.get_by_role("button", name="Show the closest passages").click()
        closest = refusal.get_by_role("list", name="Closest passages").get_by_role("listitem")
        await expect(closest).to_have_count(5)
        await expect(closest.first).to_contain_text("[VECTOR] Rulebook 1, R 1 (graded not relevant)")
        await expect(closest.first).to_contain_text("it speaks of something else")
        await expect(closest.first.get_by_role("link")).to_have_attribute("href", "/sources/p000000000000001#quote")


# Why


def lit(turn: Locator, node: str) -> Locator:
    return turn.locator(f'svg [data-node="{node}"]')


async def test_the_trace_lights_the_way_that_was_taken_and_gives_the_judges_words(tmp_path: Path) -> None:
    async with chat_page(tmp_path) as chat:
        await chat.ask("And what is a record?")
        turn = await chat.ask("And how long?")
        await turn.get_by_text("Why this answer").click()
        drawing = turn.get_by_role("img", name="The way of this answer: contextualize, then retrieve vector")
        await expect(drawing).to_be_visible()
        await expect(turn.locator("svg [data-node]")).to_have_count(12)
        nodes = ("contextualize", "retrieve_vector", "rerank_vector", "grade_documents", "generate", "finalize")
        for node in nodes:
            await expect(lit(turn, node)).to_have_attribute("data-lit", "true")
        for node in ("search_web", "rewrite_query", "give_up"):
            await expect(lit(turn, node)).to_have_attribute("data-lit", "false")
        await expect(turn.locator(".record")).to_contain_text("And what is a record? And how long?")
        await expect(turn.locator(".record")).to_contain_text("8 candidates, 6 graded, 6 kept.")


async def test_the_trace_of_a_withdrawn_draft_shows_both_and_why(tmp_path: Path) -> None:
    no = replace(FAIL, words="the period is not in it")
    strict = ScriptedModel(grounded=lambda count: no if count == 0 else PASS)
    async with chat_page(tmp_path, strict) as chat:
        turn = await chat.ask()
        await expect(turn.locator(".verdicts")).to_contain_text("2 attempts")
        await turn.get_by_text("Why this answer").click()
        await expect(lit(turn, "prepare_regen")).to_have_attribute("data-lit", "true")
        await expect(lit(turn, "generate")).to_have_attribute("data-times", "2")
        await expect(turn.locator('svg [data-edge="prepare_regen>generate"]')).to_have_attribute("data-lit", "true")
        record = turn.locator(".record")
        await expect(record.get_by_role("heading", name="Draft 2")).to_be_visible()
        await expect(record.locator('[data-gate="grounded"][data-result="fail"]')).to_contain_text(
            "the period is not in it"
        )
        await expect(record).to_contain_text("The draft was not grounded, so it was withdrawn and written anew.")
