"""`python -m tests.browser.links`: opens the link of every passage of the sample pages in Chromium, and of sentences.

Prints how many were lit exactly: the passage from its first word to its last, no other text, and some of it on the
screen without scrolling. Takes about eight minutes on one core.
"""

import argparse
import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from playwright.async_api import Browser

from service.citations.text_fragment import Fragment, fragments_at
from service.knowledge.embed import Embedder
from service.sample import RULEBOOK, SAMPLE
from tests.browser.chromium import VIEWPORT, chromium
from tests.browser.highlight import lit, open_link
from tests.browser.library import Library, Linked, library

OPENINGS = 3
EXACT = "exact"
NOT_SCROLLED = "not scrolled to"

_WORD = re.compile(r"\w+")


async def outcome(browser: Browser, linked: Linked) -> str:
    """Open one link and name what was seen: "exact", "exact when opened again", or what is wrong.

    Headless Chromium now and then scrolls before the style sheet is there, and what follows shifts the text away: the
    same link opened again is on the screen. Only that is tried again, and it is counted by itself.
    """
    for opening in range(OPENINGS):
        seen = await opened_once(browser, linked)
        if seen != NOT_SCROLLED:
            return seen if opening == 0 or seen != EXACT else f"{EXACT} when opened again"
    return NOT_SCROLLED


async def opened_once(browser: Browser, linked: Linked) -> str:
    fragments = fragments_at(linked.blocks, linked.spans)
    if not fragments:
        return "cannot be told apart, opens at its passage"
    if named(linked, fragments) != _WORD.findall(said(linked)):
        return "named in part"
    context = await browser.new_context(viewport=VIEWPORT)
    try:
        page = await context.new_page()
        await open_link(page, linked.link)
        seen = await lit(page, linked.blocks, [(fragment.first, fragment.last) for fragment in fragments])
    finally:
        await context.close()
    if not seen.page_is_as_read:
        return "page read otherwise than the browser shows it"
    if not seen.anything:
        return "nothing lit"
    if not seen.exactly:
        return "other text lit"
    return EXACT if seen.in_view else NOT_SCROLLED


def said(linked: Linked) -> str:
    return "\n".join(linked.blocks[span.block][span.start : span.end] for span in linked.spans)


def named(linked: Linked, fragments: Sequence[Fragment]) -> list[str]:
    """The words from each fragment's start to its end, whatever stands between."""
    words: list[str] = []
    for fragment in fragments:
        first, last = fragment.first, fragment.last
        for number in range(first.block, last.block + 1):
            start, end = first.start if number == first.block else 0, last.end if number == last.block else None
            words += _WORD.findall(linked.blocks[number][start:end])
    return words


async def outcomes(browser: Browser, links: Iterable[Linked]) -> AsyncIterator[tuple[Linked, str]]:
    for linked in links:
        yield linked, await outcome(browser, linked)


def passage_links(opened: Library) -> list[Linked]:
    return [opened.of_passage(item) for item in opened.passages if item.kind == "official"]


def sentence_links(opened: Library) -> list[Linked]:
    official = (item for item in opened.passages if item.kind == "official")
    return [linked for item in official for linked in opened.of_sentences(item)]


async def measure(every: int, every_sentence: int) -> None:
    embedder = await asyncio.to_thread(Embedder.load, threads=1)
    count, limit = embedder.count_tokens, embedder.max_tokens
    with tempfile.TemporaryDirectory() as folder:
        shelf = library(Path(folder), SAMPLE, RULEBOOK, count_tokens=count, max_tokens=limit)
        async with shelf as opened, chromium() as browser:
            await publish("passages", browser, passage_links(opened)[::every])
            await publish("sentences", browser, sentence_links(opened)[::every_sentence])


async def publish(what: str, browser: Browser, links: Sequence[Linked]) -> None:
    counts: Counter[str] = Counter()
    async for linked, seen in outcomes(browser, links):
        counts[seen] += 1
        if not seen.startswith(EXACT):
            print(f"# {seen}: {linked.link}", flush=True)  # noqa: T201 - a command's output
    right = sum(count for seen, count in counts.items() if seen.startswith(EXACT))
    rate = 100 * right / max(len(links), 1)
    print(f"{what}: {right} of {len(links)} lit exactly ({rate:.1f} %) {dict(counts)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="open the link of every n-th passage")
    parser.add_argument("--every-sentence", type=int, default=12, help="open the link of every n-th sentence")
    given = parser.parse_args()
    asyncio.run(measure(given.every, given.every_sentence))
