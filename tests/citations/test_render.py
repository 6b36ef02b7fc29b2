import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.citations.render import render_answer

LINK = "https://a.test/p#:~:text=a%2Cb,-c"
CITE = (
    '<a class="cite" data-n="1" href="https://a.test/p#:~:text=a%2Cb,-c" '
    'rel="noopener noreferrer nofollow" target="_blank">1</a>'
)
ALLOWED = {"a", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre"}
ALLOWED |= {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
ATTRIBUTES = {"a": {"class", "data-n", "href", "rel", "target"}, "ol": {"start"}}


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def seen(html: str) -> _Seen:
    parser = _Seen()
    parser.feed(html)
    parser.close()
    return parser


def assert_harmless(html: str) -> None:
    for tag, attributes in seen(html).tags:
        assert tag in ALLOWED
        assert set(attributes) <= ATTRIBUTES.get(tag, set())
        if tag == "a":
            assert attributes["href"] == LINK


def test_a_marker_with_a_link_becomes_a_link() -> None:
    assert render_answer("Keep records [[1]].", {1: LINK}) == f"<p>Keep records {CITE}.</p>\n"


def test_adjacent_markers_become_separate_links() -> None:
    tags = seen(render_answer("Keep [[1]][[12]].", {1: LINK, 12: "/sources/p?v=1&q=a%20b"})).tags
    assert [attributes.get("href") for tag, attributes in tags if tag == "a"] == [LINK, "/sources/p?v=1&q=a%20b"]


@pytest.mark.parametrize(
    "text", ["[[2]]", "[[0]]", "[[007]]", "[[x]]", "[1]", "[[１]]", "Smith [2019] EWCA Civ 1", "[[1]"]
)
def test_other_brackets_stay_text(text: str) -> None:
    assert seen(render_answer(text, {1: LINK})).text.strip() == text
    assert "<a" not in render_answer(text, {1: LINK})


@pytest.mark.parametrize("text", ["`x[[1]]`", "```\nx[[1]]\n```", "    x[[1]]"])
def test_a_marker_inside_code_stays_text(text: str) -> None:
    """U09: code is left alone."""
    html = render_answer(text, {1: LINK})
    assert "x[[1]]" in html
    assert "<a" not in html


@pytest.mark.parametrize("text", ["- item [[1]]", "> quoted [[1]]", "# Head [[1]]", "**bold [[1]]**", "*[[1]]*"])
def test_markers_work_inside_other_markup(text: str) -> None:
    assert CITE in render_answer(text, {1: LINK})


def test_a_table_keeps_its_cells_and_its_markers() -> None:
    html = render_answer("| fee | source |\n|---|--:|\n| 5 | [[1]] |\n", {1: LINK})
    assert f"<td>{CITE}</td>" in html
    assert "style" not in html


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "//evil.test",
        "/\\evil.test",
        "data:text/html,x",
        "relative",
        "",
        "/a\nb",
        "https://u:p@a.test/",
    ],
)
def test_an_unsafe_link_leaves_the_marker_as_text(link: str) -> None:
    assert render_answer("Keep [[1]].", {1: link}) == "<p>Keep [[1]].</p>\n"


def test_a_link_cannot_break_out_of_its_attribute() -> None:
    html = render_answer("[[1]]", {1: '/sources/p?q="><script>x</script>'})
    ((_, _), (tag, attributes)) = seen(html).tags
    assert tag == "a"
    assert attributes["href"] == '/sources/p?q="><script>x</script>'


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](https://evil.test)",
    "![x](https://evil.test/?q=1)",
    "![[1]](https://evil.test)",
    "[[1]](https://evil.test)",
    "[a [[1]] b](https://evil.test)",
    '<a href="https://evil.test">[[1]]</a>',
    "<https://evil.test>",
    "https://evil.test is not linked",
    "[ref]: https://evil.test\n\n[ref] and [x][ref]",
    "<!-- [[1]] -->",
    "</p></div><script>1</script>",
    "<style>*{display:none}</style>",
    "<base href=//evil.test>",
    "<form action=//evil.test><input name=p></form>",
    "<iframe srcdoc='<script>1</script>'></iframe>",
    "<math><mtext></p><img src onerror=1>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "```html\n<script>1</script>\n```",
    '``` "><script>1</script>\nx\n```',
    "`<img src=x>`",
    "\u202e[[1]]",
    "<a class=cite data-n=1 href=https://evil.test>1</a>",
    "\x00<script\x00>1</script>",
    "<scr<script>ipt>1</script>",
    "<details open ontoggle=alert(1)><summary>x</summary></details>",
    "<video src=https://evil.test/v autoplay onloadstart=alert(1)>",
    "<object data=https://evil.test></object><embed src=https://evil.test>",
    "<link rel=stylesheet href=//evil.test><meta http-equiv=refresh content='0;//evil.test'>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><script>1</script></template>",
    "<textarea></textarea><script>1</script>",
    "[x](data:text/html;base64,PHNjcmlwdD4=) [y](vbscript:x) [z](\tjava\nscript:alert(1))",
    "[[1]]: https://evil.test\n\n[[1]][[[1]]]",
    "| <img src=x> |\n|---|\n| [x](javascript:alert(1)) |",
    "- <script>1</script>\n  > <img src=x>",
    "{{constructor.constructor('alert(1)')()}} ${alert(1)}",
    "\u2028<script>1</script>\u2029",
    "[" * 3000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    html = render_answer(text, {1: LINK})
    assert_harmless(html)
    assert seen(html).text.strip()


@pytest.mark.parametrize("mark", ["> ", "- ", "1. "])
def test_what_is_nested_hundreds_deep_is_shown_as_it_was_written(mark: str) -> None:
    text = mark * 500 + "deep <b> [[1]]"
    assert_harmless(render_answer(text, {1: LINK}))
    assert seen(render_answer(text, {1: LINK})).text == text


def test_a_list_of_many_levels_keeps_its_words_and_its_markers() -> None:
    text = "\n".join(f"{'  ' * level}- word{level} [[1]]" for level in range(40))
    html = render_answer(text, {1: LINK})
    assert html.count(CITE) == 40
    assert seen(html).text.split() == [part for level in range(40) for part in (f"word{level}", "1")]


def test_headings_stand_below_those_of_the_page() -> None:
    html = render_answer("# One\n\n## Two\n\n###### Six\n\nTop\n===\n", {})
    assert [tag for tag, _ in seen(html).tags] == ["h3", "h4", "h6", "h3"]


def test_an_answer_may_have_as_many_citations_as_it_likes() -> None:
    text = "\n\n".join(f"- Rule {n} stands [[{n}]]." for n in range(1, 1001))
    links = {n: f"https://a.test/{n}" for n in range(1, 1001)}
    found = [attributes for tag, attributes in seen(render_answer(text, links)).tags if tag == "a"]
    assert [(one["data-n"], one["href"]) for one in found] == [(str(n), link) for n, link in links.items()]


def test_a_link_definition_is_shown_and_defines_nothing() -> None:
    text = seen(render_answer("[ref]: https://evil.test\n\n[ref] stays", {})).text
    assert text.split() == ["[ref]:", "https://evil.test", "[ref]", "stays"]


def test_the_words_of_hostile_markup_are_kept_for_the_reader() -> None:
    text = seen(render_answer("<b onclick=x>bold</b> ![pic](https://evil.test) [x](y)", {})).text
    assert text.strip() == "<b onclick=x>bold</b> ![pic](https://evil.test) [x](y)"


@given(st.lists(st.sampled_from([*HOSTILE[:-1], "[[1]]", "\n", "`", "**", "<", '"', "'", "|", " "]), max_size=8))
def test_no_combination_of_hostile_pieces_yields_another_element(pieces: list[str]) -> None:
    assert_harmless(render_answer("".join(pieces), {1: LINK}))


@given(st.text(max_size=80))
def test_plain_words_survive_rendering(text: str) -> None:
    words = re.findall(r"[^\W_]{2,}", text)
    shown = seen(render_answer("Start " + text.replace("&", " "), {})).text
    assert all(word in shown for word in words)
