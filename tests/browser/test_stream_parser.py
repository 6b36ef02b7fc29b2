"""One recorded stream, cut in every way a network may cut it, gives one and the same page."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.chat import chat
from tests.browser.chromium import chromium, needs_chromium
from tests.browser.faulty import FIRST, SECOND, WITHDRAWN, FaultyModel
from tests.browser.replaying import (
    cut_after_every,
    cut_inside_every_character,
    frames_of,
    in_utf8,
    of_size,
    recorded,
    replay,
)
from tests.fakes import FixedKnowledge, passage, services
from tests.running import House
from tests.served import Served, serving

pytestmark = [pytest.mark.slow, pytest.mark.browser, needs_chromium, pytest.mark.asyncio(loop_scope="module")]

SAID = "Frist “fünf” Jahre — 記録 \U0001f5c2\ufe0f; data: [DONE]\r\nevent: done\u2028id: 9\x85 \u00a0 end."
QUESTION = f"What — « Größe » 記録 — if {WITHDRAWN}?"


@dataclass(frozen=True)
class Recorded:
    """A stream with a withdrawn draft, its server, and what the page shows of it when it arrives whole."""

    stream: bytes
    served: Served
    browser: Browser
    shown: str


async def shown(browser: Browser, served: Served, pieces: list[bytes]) -> str:
    """The turn as the page leaves it: its markup and its state, without what the clock wrote."""
    async with chat(browser, served, replay(pieces)) as page:
        turn = await page.ask(QUESTION)
        await expect(turn).not_to_have_attribute("data-state", "running")
        markup: str = await turn.evaluate("node => node.outerHTML")
        return re.sub(r'\b(?:id|for|aria-\w+)="[\w-]*\d+"', "", markup)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def once(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recorded]:
    world = services(tmp_path_factory.mktemp("world"), knowledge=FixedKnowledge([passage(n, SAID) for n in (1, 2)]))
    async with serving(House(world, FaultyModel())) as served, chromium() as browser:
        stream = in_utf8(await recorded(served, QUESTION))
        yield Recorded(stream, served, browser, await shown(browser, served, [stream]))


async def test_the_page_of_the_whole_stream_shows_the_answer(once: Recorded) -> None:
    assert b"event: reset" in once.stream
    assert 'data-state="answered"' in once.shown
    for part in (
        SECOND,
        "“fünf” Jahre — 記録 \U0001f5c2\ufe0f",
        'class="cite"',
        "« Größe »",
    ):
        assert part in once.shown
    assert FIRST not in once.shown


def on_two_lines(stream: bytes) -> bytes:
    """An event's data is its data lines joined by a line break, which JSON takes for white space."""
    return stream.replace(b"\ndata: {", b"\ndata: {\ndata: ")


CUTS = {
    "one byte at a time": lambda stream: of_size(stream, 1),
    "two bytes": lambda stream: of_size(stream, 2),
    "seven bytes": lambda stream: of_size(stream, 7),
    "4096 bytes": lambda stream: of_size(stream, 4096),
    "inside every character": cut_inside_every_character,
    "after every line": lambda stream: cut_after_every(stream, b"\n"),
    "one frame at a time": frames_of,
    "with CRLF, byte by byte": lambda stream: of_size(stream.replace(b"\n", b"\r\n"), 1),
    "with CRLF, cut inside it": lambda stream: cut_after_every(stream.replace(b"\n", b"\r\n"), b"\r"),
    "with CRLF, whole": lambda stream: [stream.replace(b"\n", b"\r\n")],
    "with CR alone, byte by byte": lambda stream: of_size(stream.replace(b"\n", b"\r"), 1),
    "with CR alone, whole": lambda stream: [stream.replace(b"\n", b"\r")],
    "with pings and other comments": lambda stream: of_size(stream.replace(b"\n\n", b"\n\n: ping\n\n:\n\n"), 5),
    "with a byte order mark": lambda stream: of_size(b"\xef\xbb\xbf" + stream, 1),
    "without the space after the colon": lambda stream: of_size(stream.replace(b"\ndata: ", b"\ndata:"), 3),
    "with fields that nobody knows": lambda stream: of_size(
        stream.replace(b"\ndata: ", b"\nretry: 5\nnew\ndata: "), 11
    ),
    "with data on two lines": lambda stream: of_size(on_two_lines(stream), 1),
    "with data on two lines and CRLF": lambda stream: of_size(on_two_lines(stream).replace(b"\n", b"\r\n"), 1),
    "with empty pieces": lambda stream: [part for piece in of_size(stream, 64) for part in (b"", piece)][1:],
    "with something after the end": lambda stream: of_size(stream + frames_of(stream)[0], 50),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
async def test_however_the_stream_is_cut_the_page_is_the_same(once: Recorded, cut: object) -> None:
    assert callable(cut)
    assert await shown(once.browser, once.served, cut(once.stream)) == once.shown


async def test_a_kind_of_event_that_the_page_does_not_know_changes_nothing(once: Recorded) -> None:
    first, *rest = frames_of(once.stream)
    newer = b'id: 99\nevent: newer\ndata: {"v": 1, "type": "newer", "items": null}\n\n'
    assert await shown(once.browser, once.served, [first, newer, *rest]) == once.shown


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9])
async def test_a_stream_that_ends_early_is_told_as_cut_or_fetched_from_the_thread(once: Recorded, kept: float) -> None:
    """The run itself has ended well on the server: the page that knows its id shows what is stored."""
    part = once.stream[: int(len(once.stream) * kept)]
    async with chat(once.browser, once.served, replay([part])) as page:
        turn = await page.ask(QUESTION)
        if b"event: stage" in part:
            await expect(turn).to_have_attribute("data-state", "answered")
            await expect(turn).to_contain_text(SECOND)
        else:
            await expect(turn.get_by_role("alert")).to_contain_text("The connection was cut")
            await expect(turn.get_by_role("button", name="Try again")).to_be_visible()


@pytest.mark.parametrize(
    "junk", [b"data: {not json\n\n", b"data: 5\n\n", b"data: null\n\n", b"\xff\xfe\n\n", b"<html>\n\n"]
)
async def test_junk_instead_of_a_stream_is_a_clear_problem_and_no_broken_page(once: Recorded, junk: bytes) -> None:
    async with chat(once.browser, once.served, replay([junk])) as page:
        turn = await page.ask(QUESTION)
        await expect(turn.get_by_role("alert")).to_be_visible()
        await expect(turn.get_by_role("button", name="Try again")).to_be_visible()
        await expect(page.send).to_be_visible()
