"""Read a Markdown note (CommonMark and tables) into the blocks of its rendered form."""

import re

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from service.errors import IngestError
from service.knowledge.readers.html import read_html
from service.model import Page

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE_BREAK = re.compile(r"<br\s*/?>$", re.IGNORECASE)
MAX_FRONT_MATTER = 64 * 1024


def read_markdown(text: str) -> Page:
    """Return the note's title (front matter, else its first heading) and blocks, markup removed.

    Raises `IngestError` where the front matter cannot be read.
    """
    title, body = _front_matter(text)
    parser = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table")
    tokens = parser.parse(body)
    for token in tokens:
        _drop_raw_html(token)
    page = read_html(str(parser.renderer.render(tokens, parser.options, {})))
    return Page(title or page.title, page.blocks)


def _drop_raw_html(token: Token) -> None:
    """Leave out raw HTML, save `<br>`, which is how Markdown tables break a line."""
    for each in (token, *(token.children or ())):
        if each.type in ("html_block", "html_inline"):
            each.content = "<br>" if _LINE_BREAK.match(each.content.strip()) else ""


def _front_matter(text: str) -> tuple[str, str]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        return "", text.removeprefix("\ufeff")
    if len(match[1]) > MAX_FRONT_MATTER:
        raise IngestError("the front matter is longer than 64 KB")
    try:
        fields = yaml.safe_load(match[1])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise IngestError("the front matter between the two --- lines is not valid YAML") from error
    title = fields.get("title") if isinstance(fields, dict) else None
    if title is not None and not isinstance(title, str | int | float):
        raise IngestError("the front matter's title is not a text")
    return (str(title).strip() if title is not None else ""), text[match.end() :]
