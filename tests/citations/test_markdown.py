"""Exported text read again by a parser that has everything on: links, images, HTML, tables."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from service.citations.markdown import address, footnoted, plain, plain_lines, quoted
from service.citations.render import render_answer

ANY_PROGRAM = MarkdownIt("commonmark").enable(["table", "strikethrough"])
LINK = "https://a.test/p"

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- never closed",
    "[x](javascript:alert(1))",
    "[x](https://evil.test)",
    "![x](https://evil.test/?q=SECRET)",
    "[[1]](https://evil.test)",
    "![[1]](https://evil.test)",
    "[a [[1]] b](https://evil.test)",
    "<https://evil.test>",
    "[ref]: https://evil.test\n\n[ref] and [x][ref]",
    "[[1]]: https://evil.test\n\nsee [[1]]",
    "[^1]: forged",
    "\\<b>bold</b>",
    "\\\\<b>bold</b>",
    "`\\`<b>bold</b>",
    "# Sources",
    "### Source 1",
    "Sources\n===",
    "---",
    "> quoted",
    "- item",
    "12. item",
    "```\nnever closed [[1]] <b>",
    "~~~",
    "`code [[1]] <b> ![x](y)`",
    "\tindented <b>",
    "\t```\n```\n<img src=x>\n```",
    "-\t\tdeep <b>",
    "| a | b |\n|---|---|\n| <b> | [[1]] |",
    "a\rb\r\nc\n\nd",
    "two  \nlines",
    "www.evil.test",
    "&lt;b&gt; &amp; &copy;",
    "*em* **strong** $x$",
    "\x00\x1b[31m\x85\u2028\u202e",
    "\ud800",
]
PIECES = [
    *HOSTILE,
    "~~struck~~",
    "[[1]]",
    "[[2]]",
    "\n",
    "\r",
    "\t",
    "    ",
    "`",
    "``",
    "\\",
    "**",
    "<",
    "!",
    "[",
    "]",
    "(",
    ":",
    '"',
    " ",
]


def parsed(lines: list[str]) -> list[Token]:
    """The tokens of a document in which `lines` stand in a quote, between a heading and a footnote."""
    blocks = ANY_PROGRAM.parse(f"# Top\n\n{quoted(lines)}\n\n[^1]: \\[VECTOR\\] Title, 1. <https://a.test/p>\n")
    return [*blocks, *(child for block in blocks for child in block.children or ())]


def live(tokens: list[Token]) -> list[str]:
    """What leads or loads from elsewhere, without the one link of the footnote."""
    named = [token for token in tokens if token.type in ("link_open", "image", "html_inline", "html_block")]
    return [str(token.attrs or token.content) for token in named if token.attrs.get("href") != "https://a.test/p"]


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(html: str) -> str:
    """The characters that a reader sees, without white space."""
    reader = _Text()
    reader.feed(html)
    reader.close()
    return "".join(reader.text.split())


def as_shown_elsewhere(lines: list[str]) -> str:
    return shown(ANY_PROGRAM.render(quoted(lines)))


def as_shown_here(answer: str) -> str:
    """With each chip as the number of its footnote."""
    html = render_answer(answer.expandtabs(4), {1: LINK, 2: LINK})
    return shown(re.sub(r'<a class="cite"[^>]*>(\d+)</a>', r"[^\1]", html))


@pytest.mark.parametrize(
    "answer",
    [
        "Keep records [[1]].",
        "Adjacent [[1]][[2]], and again [[1]].\n\n- **item** [[2]]\n\n> quoted\n",
        "Smith [2019] EWCA Civ 1, [Redacted], [1], a < b, 5 > 4 & more",
        "| fee | rule |\n|---|---|\n| 5 | [[1]] |",
        "`x[[1]]` and `<b>`\n\n```\n![x](y) [[1]]\n```\n",
        "\\[escaped\\] by the writer",
        "# A heading\n\nof its own",
    ],
)
def test_an_ordinary_answer_is_exported_byte_for_byte_with_footnotes_for_its_numbers(answer: str) -> None:
    exported = "\n".join(footnoted(answer))
    outside_code = re.sub(
        r"(`[^`]+`|```\n.*?```)|\[\[(\d+)\]\]", lambda m: m[1] or f"[^{m[2]}]", answer, flags=re.DOTALL
    )
    assert exported == outside_code


def test_a_marker_inside_code_stays_as_it_is_and_outside_becomes_a_footnote() -> None:
    assert footnoted("`a [[1]]` b [[1]] ``c ` [[2]]``") == ["`a [[1]]` b [^1] ``c ` [[2]]``"]
    assert footnoted("```\n[[1]]\n```\n[[2]]") == ["```", "[[1]]", "```", "[^2]"]
    assert footnoted("\\`[[1]]\\`") == ["\\`[^1]\\`"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_answer_leads_nowhere_loads_nothing_and_reads_as_on_the_page(text: str) -> None:
    lines = footnoted(text.replace("\ud800", "\ufffd"))
    assert live(parsed(lines)) == []
    assert as_shown_elsewhere(lines) == as_shown_here(text.replace("\ud800", "\ufffd"))


@given(st.lists(st.sampled_from([piece for piece in PIECES if piece != "\ud800"]), max_size=10))
def test_no_combination_of_pieces_in_an_answer_leads_or_loads_from_elsewhere(pieces: list[str]) -> None:
    tokens = parsed(footnoted("".join(pieces)))
    assert live(tokens) == []
    assert headings_outside(tokens) == ["Top"]


def headings_outside(tokens: list[Token]) -> list[str]:
    """Headings of the document itself: none of a quote."""
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open" and not token.level]


@given(st.lists(st.sampled_from(PIECES), max_size=10))
def test_plain_lines_show_every_character_and_have_no_markup(pieces: list[str]) -> None:
    text = "".join(pieces)
    lines = plain_lines(text)
    tokens = parsed(lines)
    assert live(tokens) == []
    assert {token.type for token in tokens} <= {
        *("heading_open", "heading_close", "blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close"),
        *("inline", "text", "text_special", "softbreak", "hardbreak", "link_open", "link_close"),
    }
    kept = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)
    assert as_shown_elsewhere(lines) == "".join(kept.split())


@given(st.lists(st.sampled_from(PIECES), max_size=10))
def test_a_title_stays_in_its_line_and_has_no_markup(pieces: list[str]) -> None:
    text = "".join(pieces)
    html = ANY_PROGRAM.render(f"# Title: {plain(text)}\n\n- Title: {plain(text)}\n")
    assert re.findall(r"<(\w+)", html) == ["h1", "ul", "li"]
    assert len(plain(text).splitlines() or [""]) == 1


def test_line_breaks_of_a_quote_stay_visible() -> None:
    assert plain_lines("one\ntwo\r\n\r\nthree") == ["one\\", "two", "", "three"]
    assert quoted(["one\\", "", "three"]) == "> one\\\n>\n> three"


@pytest.mark.parametrize(
    ("link", "written"),
    [
        ("https://a.test/p#:~:text=a%2Cb,-c", "<https://a.test/p#:~:text=a%2Cb,-c>"),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("https://a.test/> <b>", "https\\://a.test/\\> \\<b\\>"),
        ("https://a.test/a b", "https\\://a.test/a b"),
        ("/sources/p?v=1", "/sources/p?v=1"),
    ],
)
def test_only_a_whole_web_address_opens(link: str, written: str) -> None:
    assert address(link) == written
