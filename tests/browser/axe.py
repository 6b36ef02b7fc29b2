"""axe-core on a page: which barriers a machine can find. `.ci/fetch-axe` puts it there; AXE_CORE names another file."""

import os
from functools import cache
from pathlib import Path

import pytest
from playwright.async_api import Page

FILE = Path(os.environ.get("AXE_CORE") or Path(__file__).parents[2] / ".cache/axe-core/axe.min.js")

needs_axe = pytest.mark.skipif(not FILE.is_file(), reason="axe-core is not here: run .ci/fetch-axe")

# Evaluated by the debugger, so that the page's content security policy need not let it in.
RUN = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ["violations"]});
  return violations.flatMap(({id, nodes}) =>
    nodes.map(({target, failureSummary}) => `${id} ${target.join(" ")}: ${failureSummary}`));
}"""


@cache
def source() -> str:
    return FILE.read_text(encoding="utf-8")


# A colour in mid-change is neither of the two that were chosen. What pulses for ever is not waited for.
SETTLE = """() => Promise.all(document.getAnimations()
  .filter(animation => animation.effect.getTiming().iterations !== Infinity)
  .map(animation => animation.finished.catch(() => {})))"""


async def barriers(page: Page) -> list[str]:
    """Each violation of a rule of axe-core (WCAG 2, A and AA, and its best practices), with its element."""
    await page.evaluate(SETTLE)
    await page.evaluate(f"window.axe || (() => {{{source()}}})()")
    found: list[str] = await page.evaluate(RUN)
    return found
