"""What a browser lights for a link, compared pixel by pixel with the range that it should light.

No interface tells which range a text directive has matched. So the opened page is drawn twice in the same colours, once
with what the directive lit (`::target-text`) and once with the expected range as a highlight of our own
(`CSS.highlights`): the same painter draws both, so equal pictures mean equal ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page

from service.model import Span

_BARE = "::target-text { background: none; color: currentcolor } "
_LIT = "::target-text { background: rgb(255 0 255); color: rgb(255 0 255) } "
_EXPECTED = _BARE + "::highlight(expected) { background: rgb(255 0 255); color: rgb(255 0 255) } "

# Finds the expected ranges by counting the characters of the page that are no white space, hidden text left out.
_PLACE = r"""
async ({whole, places}) => {
  const bare = text => text.replace(/\s+/g, "");
  const ranges = places.map(({before, inside}) => {
    const first = bare(before).length;
    return {first, last: first + bare(inside).length - 1, range: new Range()};
  });
  const shown = new Map();
  const isShown = element => {
    if (element === document.documentElement) return true;
    if (!shown.has(element)) {
      shown.set(element, getComputedStyle(element).display !== "none" && isShown(element.parentElement));
    }
    return shown.get(element);
  };
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let text = "";
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    if (!node.data.trim() || !isShown(node.parentElement)) continue;
    for (let at = 0; at < node.length; at++) {
      if (/\s/.test(node.data[at])) continue;
      for (const {first, last, range} of ranges) {
        if (text.length === first) range.setStart(node, at);
        if (text.length === last) range.setEnd(node, at + 1);
      }
      text += node.data[at];
    }
  }
  if (text !== bare(whole)) return {same: false, inView: false};
  CSS.highlights.set("expected", new Highlight(...ranges.map(({range}) => range)));
  // Any line of it: a browser centres what it lights, and a long passage may begin above the screen.
  const isInView = () => [...ranges[0].range.getClientRects()].some(box => box.bottom > 0 && box.top < innerHeight);
  // A busy machine scrolls late: two seconds are allowed.
  for (let tries = 0; tries < 40 && !isInView(); tries++) await new Promise(done => setTimeout(done, 50));
  return {same: true, inView: isInView()};
}
"""


@dataclass(frozen=True)
class Lit:
    """`page_is_as_read`: the page's text is that of its blocks. `anything`: something was lit at all.

    `exactly`: what was lit is the expected range and nothing else. `in_view`: some of the (first) expected range was on
    the screen before anyone scrolled.
    """

    page_is_as_read: bool
    anything: bool
    exactly: bool
    in_view: bool


async def open_link(page: Page, link: str) -> None:
    """Load `link` anew, as a click in another tab does, and wait until the browser has looked for the text."""
    await page.goto("about:blank")
    await page.goto(link, wait_until="load")
    await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def lit(page: Page, blocks: Sequence[str], ranges: Sequence[tuple[Span, Span]]) -> Lit:
    """Compare what the opened page shows with `ranges`, each from the start of one span to the end of another."""
    places = [_place(blocks, first, last) for first, last in ranges]
    placed: dict[str, Any] = await page.evaluate(_PLACE, {"whole": "".join(blocks), "places": places})
    plain = await _picture(page, _BARE)
    shown = await _picture(page, _LIT)
    expected = await _picture(page, _EXPECTED)
    return Lit(placed["same"], shown != plain, placed["same"] and shown == expected != plain, placed["inView"])


def _place(blocks: Sequence[str], first: Span, last: Span) -> dict[str, str]:
    before = "".join([*blocks[: first.block], blocks[first.block][: first.start]])
    up_to_end = "".join([*blocks[: last.block], blocks[last.block][: last.end]])
    return {"before": before, "inside": up_to_end[len(before) :]}


async def _picture(page: Page, style: str) -> bytes:
    await page.evaluate(
        """style => {
          document.getElementById("probe")?.remove();
          const sheet = document.createElement("style");
          sheet.id = "probe";
          sheet.textContent = style;
          document.head.append(sheet);
        }""",
        style,
    )
    return await page.screenshot(full_page=True, animations="disabled")
