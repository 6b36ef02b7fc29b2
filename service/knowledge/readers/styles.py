"""How an element is rendered: the HTML standard's default style sheet, `<style>` rules and `style` attributes.

Only what decides whether and where text appears is computed: the display type, white space, visibility, and the ways
of hiding text that leave it in the page (`opacity:0`, `font-size:0`, clipping). Linked style sheets are not loaded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

Display = Literal["none", "inline", "block", "atomic", "contents"]
Attributes = dict[str, str | None]
Declarations = dict[str, str]

MAX_CSS = 1_000_000  # characters read of one <style>
# The parser tries every way up the tree: "i div div div p" takes time in the depth's power of three. One climb is let
# through, while all climbs of a page stay within this many steps.
MAX_STEPS = 20_000_000
STEPS_OF_A_CLIMB = 32
MAX_RULES = 400  # a page's own rules that bear on text; each costs one pass over the tree
MAX_MATCHES = 1_000_000  # of rules and elements; 400 rules that each name 50,000 elements would take gigabytes


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# https://html.spec.whatwg.org/multipage/rendering.html#the-css-user-agent-style-sheet-and-presentational-hints
_BLOCK = _words(
    """html body address blockquote center dialog div figure figcaption footer form header hr legend listing main p
    plaintext pre search xmp article aside h1 h2 h3 h4 h5 h6 hgroup nav section dir dd dl dt menu ol ul li table caption
    thead tbody tfoot tr td th fieldset details summary optgroup option frameset"""
)
_NONE = _words(
    """area base basefont datalist head link meta noembed noframes noscript param rp script style template title
    iframe object embed video audio canvas textarea annotation annotation-xml desc metadata defs col colgroup"""
)
# Atomic inline boxes: a browser's text search does not run across them (measured for inline-block).
_ATOMIC = frozenset(
    ["img", "svg", "math", "button", "input", "select", "meter", "progress", "marquee", "text", "rt", "picture"]
)
_PRE = frozenset(["pre", "listing", "plaintext", "xmp"])
_DISPLAYS: dict[str, Display] = {"none": "none", "inline": "inline", "contents": "contents"}
_RELEVANT = _words(
    """display visibility opacity font-size font position float clip clip-path width height overflow white-space
    content-visibility color text-indent left top"""
)
_LENGTH = re.compile(r"(-?\d*\.?\d+)\s*(px|pt|r?em|%|vw|vh|)$")
_FONT_SIZE = re.compile(r"(?:^|\s)(0|0?\.\d+|\d+(?:\.\d+)?)(px|pt|em|rem|%|)(?=/|\s)")
_TRANSPARENT = re.compile(r"transparent|(?:rgba|hsla)\(.*,\s*0(?:\.0+)?\s*\)|(?:rgb|hsl)\(.*/\s*0(?:\.0+|%)?\s*\)")


@dataclass(frozen=True, slots=True)
class Box:
    """The computed style of one element. `ghost`: rendered and searchable, yet nobody sees it."""

    display: Display = "block"
    white_space: str = "normal"
    visible: bool = True
    ghost: bool = False
    flex: bool = False


class StyleSheet:
    """The rules of a page's `<style>` elements that bear on its text."""

    def __init__(self, document: LexborHTMLParser) -> None:
        self._matches: dict[int, list[tuple[tuple[int, int, int], Declarations]]] = {}
        styles = [style for style in document.css("style") if _for_screen(style.attributes)]
        rules = [rule for style in styles for rule in _rules(style.text())][:MAX_RULES]
        self._matches_left = MAX_MATCHES
        climbs = MAX_STEPS // (STEPS_OF_A_CLIMB * len(document.css("*")) + 1) if rules else 0
        for order, (selector, declarations) in enumerate(rules):
            if (climbing := _climbs(selector)) < 2 and climbs >= climbing:
                climbs -= climbing
                self._apply(document, selector, declarations, order)

    def _apply(self, document: LexborHTMLParser, selector: str, declarations: Declarations, order: int) -> None:
        try:
            nodes = document.css(selector)
        except (SelectolaxError, ValueError):
            return  # a selector this parser does not know selects nothing, as in a browser
        key = (selector.count("#"), len(re.findall(r"[.\[]", selector)), order)
        nodes = nodes[: self._matches_left]
        self._matches_left -= len(nodes)
        for node in nodes:
            self._matches.setdefault(node.mem_id, []).append((key, declarations))

    def declarations(self, mem_id: int, attributes: Attributes) -> Declarations:
        """Return the element's declarations: rules by specificity and order, then its `style` attribute."""
        merged: Declarations = {}
        for _, declarations in sorted(self._matches.get(mem_id, ()), key=lambda match: match[0]):
            _merge(merged, declarations)
        if inline := attributes.get("style"):
            _merge(merged, _declarations(inline))
        return {name: value.removesuffix("!important").rstrip() for name, value in merged.items()}


def _merge(into: Declarations, declarations: Declarations) -> None:
    for name, value in declarations.items():
        if value.endswith("!important") or not into.get(name, "").endswith("!important"):
            into[name] = value


def _for_screen(attributes: Attributes) -> bool:
    return (attributes.get("media") or "all").strip().lower() in ("all", "screen", "")


def _rules(css: str) -> Iterator[tuple[str, Declarations]]:
    """Yield (selector, declarations) for plain rules; the blocks of `@media all|screen` are entered, others not."""
    opened: list[str] = []
    body: list[str] = []
    tokens = re.split(r"([{};])", re.sub(r"/\*.*?(?:\*/|\Z)", "", css[:MAX_CSS], flags=re.DOTALL))
    for text, mark in zip(tokens[::2], tokens[1::2], strict=False):
        body.append(text)
        if mark == "{":
            opened.append(text.strip())
            body = []
        elif mark == "}" and opened:
            selector = opened.pop()
            if not selector.startswith("@") and all(map(_is_screen_media, opened)):
                yield from _split_rule(selector, ";".join(body))
            body = []


def _climbs(selector: str) -> int:
    """Count the descendant and later-sibling combinators of a selector."""
    bare = re.sub(r"\[[^\]]*\]", "", selector)
    return len(re.findall(r"\s+|~", re.sub(r"\s*([>+~])\s*", r"\1", bare.strip())))


def _is_screen_media(prelude: str) -> bool:
    return prelude.lower().split() in (["@media", "all"], ["@media", "screen"])


def _split_rule(selectors: str, body: str) -> Iterator[tuple[str, Declarations]]:
    declarations = _declarations(body)
    for selector in selectors.split(","):
        if declarations and selector.strip() and ":" not in selector:  # states and ::before are not the element
            yield selector.strip(), declarations


def _declarations(css: str) -> Declarations:
    found: Declarations = {}
    for declaration in css.lower().split(";"):
        name, _, value = declaration.partition(":")
        if name.strip() in _RELEVANT:
            found[name.strip()] = re.sub(r"!\s+", "!", value).strip()
    return found


def compute(tag: str, attributes: Attributes, css: Declarations, parent: Box) -> Box:
    """Return the box of an element: its own display, the rest inherited from `parent` where CSS inherits it."""
    display, flex = _display(tag, attributes, css, parent)
    box = replace(parent, display=display, flex=flex)
    if (white_space := css.get("white-space", "pre" if tag in _PRE else "")) not in ("", "inherit"):
        box = replace(box, white_space=white_space)
    if (visibility := css.get("visibility")) in ("visible", "hidden", "collapse"):
        box = replace(box, visible=visibility == "visible")
    return replace(box, ghost=parent.ghost or is_ghost(css))


def _display(tag: str, attributes: Attributes, css: Declarations, parent: Box) -> tuple[Display, bool]:
    if tag in _NONE or css.get("content-visibility") == "hidden":
        return "none", False
    value = css.get("display", "")
    flex = value.endswith(("flex", "grid"))
    display = _DISPLAYS.get(value, "atomic" if value.startswith("inline-") else "block") if value else ""
    if value in ("inherit", "initial", "unset", "revert") or not display:
        display = _default_display(tag, attributes)
    if tag in _ATOMIC and display == "inline":
        display = "atomic"
    out_of_flow = css.get("position") in ("absolute", "fixed") or css.get("float") in ("left", "right")
    if display in ("inline", "atomic") and (out_of_flow or parent.flex):
        display = "block"
    return display, flex


def _default_display(tag: str, attributes: Attributes) -> Display:
    if "hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found":
        return "none"
    if (tag == "dialog" and "open" not in attributes) or (tag == "select" and "multiple" not in attributes):
        return "none"
    if tag in _BLOCK:
        return "block"
    return "atomic" if tag in _ATOMIC else "inline"


def is_ghost(css: Declarations) -> bool:
    """Do the declarations hide text from the eye while it stays in the page?"""
    return (
        _length(css.get("opacity", "1"), "1") <= 0.05
        or _length(css.get("font-size", "16px"), "16") <= 1
        or _tiny_font(css.get("font", ""))
        or _TRANSPARENT.match(css.get("color", "")) is not None
        or _length(css.get("text-indent", "0"), "0") <= -500
        or _is_clipped(css)
    )


def _tiny_font(font: str) -> bool:
    match = _FONT_SIZE.search(font)
    return match is not None and _length(match[1] + match[2], "16") <= 1


def _is_clipped(css: Declarations) -> bool:
    if css.get("position") in ("absolute", "fixed"):
        if "rect(" in css.get("clip", "") or any(_length(css.get(side, "0"), "0") <= -500 for side in ("left", "top")):
            return True
    elif "inset(50%" in css.get("clip-path", "").replace(" ", ""):
        return True
    small = min(_length(css.get(side, "16px"), "16") for side in ("width", "height")) <= 1
    return small and css.get("overflow") in ("hidden", "clip")


def _length(value: str, default: str) -> float:
    """Return a length in about pixels (1em is 16), `default` where the value is no plain length."""
    match = _LENGTH.match(value)
    if match is None:
        return float(default)
    scale = {"em": 16.0, "rem": 16.0, "pt": 1.33, "%": 0.16, "vw": 10.0, "vh": 10.0}.get(match[2], 1.0)
    return float(match[1]) * scale
