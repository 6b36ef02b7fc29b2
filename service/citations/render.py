"""The answer as HTML: Markdown without raw HTML, links or images; only citation numbers can be clicked."""

import re
from collections.abc import Mapping, Sequence
from html import escape

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from service.citations.links import safe_url

_MARKER = re.compile(r"\[\[([1-9][0-9]{0,3})\]\]")
# What reaches outside, or lets model text become a target: links, images, definitions, raw HTML.
_OFF = ["link", "image", "autolink", "reference", "html_inline", "html_block"]
_BLOCK_TAGS = ("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul")
_TABLE_TAGS = ("table", "tbody", "td", "th", "thead", "tr")
_TAGS = frozenset((*_BLOCK_TAGS, *_TABLE_TAGS, "a", "br", "code", "em", "strong"))
_ATTRIBUTES = {"a": frozenset({"class", "data-n", "href", "rel", "target"}), "ol": frozenset({"start"})}


def render_answer(markdown: str, citations: Mapping[int, str]) -> str:
    """Return `markdown` as sanitised HTML in which each `[[n]]` of `citations` (number to link) is a link.

    A marker stays text inside code, when its number is unknown, and when its link is neither http(s) nor a path of
    this server.
    """
    env = {"citations": {n: link for n, link in citations.items() if _may_link(link)}}
    return nh3.clean(
        _PARSER.render(markdown, env),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        link_rel=None,  # the renderer writes a stricter one
        url_schemes={"http", "https"},
    )


def _may_link(link: str) -> bool:
    own_path = link.startswith("/") and not link.startswith(("//", "/\\")) and link.isprintable()
    return own_path or safe_url(link) is not None


def _cite(state: StateInline, silent: bool) -> bool:
    """Inline rule: `[[n]]` with a link becomes one token."""
    found = _MARKER.match(state.src, state.pos, state.posMax)
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


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer)
    parser.enable("table").disable(_OFF)
    parser.inline.ruler.before("emphasis", "cite", _cite)
    return parser


_PARSER = _parser()
