"""The answer as HTML: Markdown without raw HTML, links or images; only citation numbers can be clicked."""

import re
from collections.abc import Mapping, Sequence
from html import escape

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from service.citations.links import safe_url
from service.citations.markers import MARKER

# What reaches outside, or lets model text become a target: links, images, definitions, raw HTML.
_OFF = ["link", "image", "autolink", "reference", "html_inline", "html_block"]
_BLOCK_TAGS = ("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul")
_TABLE_TAGS = ("table", "tbody", "td", "th", "thead", "tr")
_TAGS = frozenset((*_BLOCK_TAGS, *_TABLE_TAGS, "a", "br", "code", "em", "strong"))
_ATTRIBUTES = {"a": frozenset({"class", "data-n", "href", "rel", "target"}), "ol": frozenset({"start"})}
_TOP_HEADING = 3
"""An answer's `#` stands below the page's own headings: its name is the first, the question the second."""
_PRIVATE = range(0xF0000, 0x110000)
"""More characters without a meaning than any text holds."""
_DEEPEST = 100
"""Levels of lists and quotes. The parser drops what lies deeper, so that such a text is shown as it was written."""


def render_answer(markdown: str, citations: Mapping[int, str]) -> str:
    """Return `markdown` as sanitised HTML in which each `[[n]]` of `citations` (number to link) is a link.

    A marker stays text inside code, when its number is unknown, and when its link is neither http(s) nor a path of
    this server.
    """
    env = {"citations": {n: link for n, link in citations.items() if _may_link(link)}}
    tokens = _PARSER.parse(markdown, env)
    too_deep = any(token.level >= _DEEPEST - 1 for token in tokens)
    html = f"<pre>{escape(markdown)}</pre>" if too_deep else _PARSER.renderer.render(tokens, _PARSER.options, env)
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        link_rel=None,  # the renderer writes a stricter one
        url_schemes={"http", "https"},
    )


def in_code(markdown: str, pattern: re.Pattern[str]) -> frozenset[int]:
    """Return where the matches of `pattern` begin that stand inside code, as `render_answer` reads it.

    Each match that is no escape is marked with characters that the text does not hold, and found again in the code.
    """
    mark = next(character for character in map(chr, _PRIVATE) if character not in markdown)
    place = re.compile(f"{mark}([0-9]+){mark}")
    marked = pattern.sub(
        lambda found: found[0] if found[0].startswith("\\") else f"{mark}{found.start()}{mark}{found[0]}", markdown
    )
    blocks = _PARSER.parse(marked, {"citations": {}})
    tokens = [*blocks, *(child for block in blocks for child in block.children or ())]
    code = (token.content for token in tokens if token.type in ("fence", "code_block", "code_inline"))
    return frozenset(int(start) for text in code for start in place.findall(text))


def _may_link(link: str) -> bool:
    own_path = link.startswith("/") and not link.startswith(("//", "/\\")) and link.isprintable()
    return own_path or safe_url(link) is not None


def _cite(state: StateInline, silent: bool) -> bool:
    """Inline rule: `[[n]]` with a link becomes one token."""
    found = MARKER.match(state.src, state.pos, state.posMax)
    link = state.env["citations"].get(int(found[1])) if found else None
    if found is None or link is None:
        return False
    if not silent:
        token = state.push("cite", "a", 0)
        token.content = found[1]
        token.attrs = {"href": link}
    state.pos = found.end()
    return True


def _cite_html(link: str, n: str) -> str:
    return (
        f'<a class="cite" data-n="{n}" href="{escape(link)}" rel="noopener noreferrer nofollow" target="_blank">{n}</a>'
    )


class _Renderer(RendererHTML):
    """Finds its rules by method name: `cite` renders the tokens of that type."""

    def cite(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        token = tokens[idx]
        return _cite_html(str(token.attrs["href"]), token.content)


def _lower_headings(state: StateCore) -> None:
    """Core rule: `#` becomes `<h3>`, and what would lie under `<h6>` stays there."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + _TOP_HEADING - 1, 6)}"


def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "maxNesting": _DEEPEST}
    parser = MarkdownIt("commonmark", options, renderer_cls=_Renderer)
    parser.enable("table").disable(_OFF)
    parser.inline.ruler.before("emphasis", "cite", _cite)
    parser.core.ruler.push("lower_headings", _lower_headings)
    return parser


_PARSER = _parser()
