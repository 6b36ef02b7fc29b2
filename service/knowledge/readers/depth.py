"""Keep hostile nesting from the parser: its tree building takes quadratic time in the depth of open elements."""

import re

MAX_DEPTH = 512  # what Blink keeps too; deeper elements become siblings there, and are dropped here

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]*)[^<>]*>?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Void elements, and those whose end tag authors leave out: they never make a page deep.
_SHALLOW = _words(
    """area base br col embed hr img input link meta param source track wbr
    p li dt dd tr td th tbody thead tfoot option optgroup colgroup rt rp"""
)
_INLINE = frozenset(["a", "abbr", "b", "bdi", "bdo", "cite", "code", "em", "font", "i", "q", "s", "small", "span", "u"])


def flattened(html: str) -> str:
    """Return `html` as it is, or without the tags that nest deeper than `MAX_DEPTH` (a break stands for a block)."""
    return _drop_deep_tags(html) if _depth(html) > MAX_DEPTH else html


def _depth(html: str) -> int:
    depth = deepest = 0
    for match in _TAG.finditer(html):
        if match[2].lower() not in _SHALLOW:
            depth = max(0, depth - 1) if match[1] else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _drop_deep_tags(html: str) -> str:
    depth = 0

    def keep(match: re.Match[str]) -> str:
        nonlocal depth
        name = match[2].lower()
        if name in _SHALLOW:
            return match[0] if depth <= MAX_DEPTH else "<br>"
        depth = max(0, depth - 1) if match[1] else depth + 1
        if depth + bool(match[1]) <= MAX_DEPTH:
            return match[0]
        return "" if name in _INLINE else "<br>"

    return _TAG.sub(keep, html)
