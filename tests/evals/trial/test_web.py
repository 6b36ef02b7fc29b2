"""The loopback web: the product's own search over real sockets, and every attempt counted for the run that made it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evals.trial.web import PAGES, Egress, Remembered, counting, load_pages, open_loopback_web
from service.knowledge.snapshots import Snapshots
from service.ports import WebAsk, WebFindings
from tests.fakes import FixedReranker
from tests.web.searching import overlap


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Remembered]:
    async with open_loopback_web(FixedReranker(overlap), Snapshots(tmp_path), strips=4) as opened:
        yield opened


async def search(web: Remembered, question: str, **given: object) -> WebFindings:
    async def write(masked: str) -> str:
        return masked

    return await web.search(WebAsk(question, write, lambda _: None, **given))  # type: ignore[arg-type]


async def test_a_question_is_answered_by_the_page_that_has_it(web: Remembered) -> None:
    egress = counting()
    found = await search(web, "What supervision levy does a category B firm pay for 2032?")
    assert found.status == "ok"
    assert "MC 1,900" in found.strips[0].passage.text
    assert found.strips[0].passage.address == "http://www.isles-gazette.example/2032/levy-order.html"
    assert egress.searches == 1
    assert egress.connections == egress.lookups >= 1
    assert egress.attempts == 1 + 2 * egress.lookups


async def test_strips_are_remembered_so_that_labels_can_be_held_against_them(web: Remembered) -> None:
    counting()
    found = await search(web, "What supervision levy does a category B firm pay for 2032?")
    assert list(web.passages.values()) == [strip.passage for strip in found.strips]


async def test_attempts_are_counted_for_the_run_that_made_them(web: Remembered) -> None:
    async def run(asks: bool) -> Egress:
        egress = counting()
        if asks:
            await search(web, "When does trading on the Port Meridian Exchange begin?")
        return egress

    asking, silent = await asyncio.gather(run(True), run(False))
    assert asking.attempts > 0
    assert silent.attempts == 0


async def test_where_no_domain_is_allowed_nothing_is_tried(web: Remembered) -> None:
    egress = counting()
    found = await search(web, "When does trading begin?", domains=frozenset())
    assert (found.status, egress.attempts) == ("forbidden", 0)


async def test_a_question_about_nothing_on_the_web_finds_nothing(web: Remembered) -> None:
    counting()
    assert (await search(web, "Zebra quagga okapi")).status == "empty"


def test_every_page_has_an_address_of_a_made_up_host() -> None:
    assert len(load_pages()) == len(list(PAGES.rglob("*.html"))) > 5
    assert all(url.startswith("http://") and url.split("/")[2].endswith(".example") for url in load_pages())
