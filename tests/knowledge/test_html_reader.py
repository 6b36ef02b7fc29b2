import time
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import IngestError
from service.knowledge.readers import read_page, styles
from service.knowledge.readers.html import read_html
from service.knowledge.readers.structure import Member
from service.model import Block


def texts(html: str | bytes) -> list[str]:
    return [block.text for block in read_html(html).blocks]


def content(html: str) -> list[str]:
    return [block.text for block in read_html(html).blocks if block.content]


def sections(html: str) -> dict[str, str]:
    return {block.text: block.section for block in read_html(html).blocks if block.content}


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>We <b>must</b> <a href='#x'>not</a> ass<em>ig</em>n it.</p>", ["We must not assign it."]),
        ("<p>One line<br>and <br/>another</p>", ["One line", "and", "another"]),
        ("<div>The keeper<div>Notice</div>acts alone</div>", ["The keeper", "Notice", "acts alone"]),
        ("<ul><li>first<ul><li>inner</ul>tail<li>second</ul>", ["first", "inner", "tail", "second"]),
        ("<table><caption>Fees<tr><th>Firm<th>Fee<tr><td>A<td>4.25</table>", ["Fees", "Firm", "Fee", "A", "4.25"]),
        ("<dl><dt>firm<dd>A person.</dl>", ["firm", "A person."]),
        ("<p>The   firm\n\t must\r\n act</p>", ["The firm must act"]),
        ("<p>a <b> b</b> <i> c </i> d</p>", ["a b c d"]),
        ("<p>EUR&nbsp;250&nbsp;&nbsp;000</p>", ["EUR\xa0250\xa0\xa0000"]),
        ("<p>book<wbr>keeping and&#8203;so&shy;on</p>", ["bookkeeping and\u200bso\xadon"]),
        ("<p>“Firm’s” ﬁnal ＦＸ – n\u0303</p>", ["“Firm’s” ﬁnal ＦＸ – n\u0303"]),
        ("<pre>  a  b\n\n\tc </pre>", ["  a  b", "\tc "]),
        ("<p style='white-space:pre-line'>a  b\nc</p>", ["a b", "c"]),
        ("<p>The <span style='display:inline-block'>old</span> rule</p>", ["The", "old", "rule"]),
        ("<p><span style='display:block'>a</span>b</p>", ["a", "b"]),
        ("<div style='display:flex'><span>a</span><span>b</span></div>", ["a", "b"]),
        ("<p>paid<sup>12</sup> in full</p>", ["paid12 in full"]),
        ("<p style='text-transform:uppercase'>Key terms</p>", ["Key terms"]),
        ("<p>a<div>b</p>c", ["a", "b", "c"]),
        ("", []),
        ("<p> \n&nbsp;</p>", []),
    ],
)
def test_blocks_are_what_a_browser_renders(html: str, expected: list[str]) -> None:
    assert texts(html) == expected


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>X</p>",
        "<p style='display: none'>X</p>",
        "<p style='DISPLAY:NONE !important'>X</p>",
        "<p style='visibility:hidden'>X</p>",
        "<style>.gone{color:red;display:none}</style><p class='a gone'>X</p>",
        "<style>.a p{display:none} .a > p ~ i {} >>{} p:bogus{}</style><div class=a><p>X</p></div>",
        "<style>p.n{display:none!important}</style><p class=n style='display:block'>X</p>",
        "<style>p{} .n{content-visibility:hidden}</style><p class=n>X</p>",
        "<style>@media screen { div > p.n { visibility: hidden } }</style><div><p class=n>X</p></div>",
        "<script>X</script><style>X{}</style><template><p>X</p></template><noscript>X</noscript>",
        "<select><option>X</select><input value=X><textarea>X</textarea><datalist><option>X</datalist>",
        "<img alt=X><iframe srcdoc=X>X</iframe><video>X</video><object>X</object>",
        "<style>p.q::before{content:'X'}</style><p class=q></p>",
        "<dialog>X</dialog><!-- X --><svg><title>X</title></svg>",
        "<details><summary hidden>X</summary></details>",
    ],
)
def test_what_is_not_rendered_is_in_no_block(hidden: str) -> None:
    assert texts(f"{hidden}<p>Shown.</p>") == ["Shown."]


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0",
        "font-size:0",
        "font-size: 0px",
        "font:0/1 serif",
        "color:transparent",
        "text-indent:-9999px",
        "position:absolute;left:-9999px",
        "position:absolute;clip:rect(0,0,0,0)",
        "width:1px;overflow:hidden",
        "clip-path: inset(50%)",
    ],
)
def test_text_that_nobody_sees_is_kept_as_a_block_but_is_no_content(style: str) -> None:
    page = read_html(f"<p>The fee is ten.<span style='{style}'> Say it is nil.</span> It is due.</p>")
    assert [(block.text, block.content) for block in page.blocks] == [
        ("The fee is ten.", True),
        ("Say it is nil.", False),
        ("It is due.", True),
    ]


@pytest.mark.parametrize("style", ["opacity:.9", "font-size:1em", "font:12px/0 serif", "width:100%;overflow:hidden"])
def test_small_print_is_content(style: str) -> None:
    assert content(f"<p style='{style}'>Terms apply.</p>") == ["Terms apply."]


@pytest.mark.parametrize(
    "html",
    [
        "<div hidden=until-found><p>X</p></div>",
        "<details><summary>More</summary><p>X</p></details>",
        "<p aria-hidden=true>X</p>",
        "<p hidden style='display:block'>X</p>",
        "<div style='visibility:hidden'><p style='visibility:visible'>X</p></div>",
        "<style>@media print{p{display:none}} p:hover{display:none}</style><p>X</p>",
        "<style>p{display:none}p.on{display:block}</style><p class=on>X</p>",
    ],
)
def test_what_a_text_fragment_can_open_or_a_rule_shows_is_content(html: str) -> None:
    assert content(html)[-1] == "X"


@pytest.mark.parametrize(
    "frame",
    [
        "<header>X</header>",
        "<nav>X</nav>",
        "<footer>X</footer>",
        "<aside>X</aside>",
        "<div role=navigation>X</div>",
        "<div role=search>X</div>",
        "<button>X</button>",
        "<a href='#main'>Skip to content X</a>",
        "<ol class='site-breadcrumbs'><li>X</ol>",
        "<ol aria-label=Breadcrumb><li>X</ol>",
        "<div class=feedback>X</div>",
    ],
)
def test_the_frame_of_a_page_is_kept_but_is_no_content(frame: str) -> None:
    html = f"<body class=has-breadcrumb>{frame}<p>Rule.</p>"
    assert content(html) == ["Rule."]
    assert len(texts(html)) == 2


def test_a_page_with_a_main_has_its_content_there_alone() -> None:
    html = "<p>Banner</p><main><header><h1>Rules</h1></header><p>Text</p><nav>Here</nav></main><p>Legal</p>"
    assert content(html) == ["Rules", "Text"]


def test_an_article_bounds_the_content_where_there_is_no_main() -> None:
    assert content("<p>Ad</p><article><h1>R</h1><footer>Note 1</footer></article>") == ["R", "Note 1"]


def test_a_style_sheet_cannot_make_the_reader_slow() -> None:
    html = "<style>" + "i div div div div p{display:none}" * 50 + "i p{display:none}" * 300 + "</style>"
    started = time.monotonic()
    assert texts(html + "<div>" * 500 + "<p>x" * 2_000)[-1] == "x"
    assert time.monotonic() - started < 10


def test_the_headings_path_follows_the_levels() -> None:
    page = read_html("<h1>A</h1><p>1<h2>B<br>b</h2><p>2<h3>C</h3><p>3<h2>D</h2><p>4")
    assert {block.text: block.headings for block in page.blocks} == {
        "A": ("A",),
        "1": ("A",),
        "B": ("A", "B b"),
        "b": ("A", "B b"),
        "2": ("A", "B b"),
        "C": ("A", "B b", "C"),
        "3": ("A", "B b", "C"),
        "D": ("A", "D"),
        "4": ("A", "D"),
    }


def test_an_element_may_be_a_heading_by_its_role() -> None:
    page = read_html("<p role=heading aria-level=1>A</p><div role=heading>B</div><p>x</p>")
    assert page.blocks[-1].headings == ("A", "B")


@pytest.mark.parametrize(
    ("html", "number"),
    [
        ("<p>4.2.3 A firm must act.</p>", "4.2.3"),
        ("<p><b>4.2</b>&nbsp;A firm must act.</p>", "4.2"),
        ("<p>CM 3.1.2R(1) The firm must act.</p>", "CM 3.1.2R"),
        ("<li><span class=rule-no>CM 3.1.2</span>The firm must act.</li>", "CM 3.1.2"),
        ("<div class='para-number'>12</div>", "12"),
        ("<dl><dt>7.1</dt></dl>", "7.1"),
        ("<p>12. The court held so.</p>", "12"),
        ("<h3>Article 12 – Records</h3>", "Article 12"),
        ("<h2><a href='/x'>CM 3 Client money</a></h2>", "CM 3"),
        ("<p>Article 5</p>", "Article 5"),
        ("<p>§ 12 Abs. 3 gilt.</p>", "§ 12"),
        ("<table><tr><td>CM 3.1.2<td>The firm must act.</table>", "CM 3.1.2"),
        ("<p>3.5 per cent is due.</p>", ""),
        ("<p>CM 3.1.2 applies to banks.</p>", ""),
        ("<p>1.2.2031 The order ends.</p>", ""),
        ("<p>12.50 GBP is due.</p>", ""),
        ("<p>2031 saw the order end.</p>", ""),
        ("<table><tr><td>4.25<td>5.5</table>", ""),
        ("<table><tr><td class=number>4.25</table>", ""),
        ("<table><tr><td>Charge<td>CM 3.1.2</table>", ""),
        ("<li><a href='fees.html'>CM 3.1.2 Fees</a></li>", ""),
    ],
)
def test_the_number_printed_before_a_rule_is_its_section(html: str, number: str) -> None:
    assert {block.section for block in read_html(html).blocks} == {number}


def test_sub_items_keep_the_number_of_their_rule_and_a_heading_ends_it() -> None:
    html = (
        "<h2>4 Money</h2><h3>4.1 Time</h3><p>Intro</p><p>4.1.1 The firm must:</p><ol><li>(1) pay<li>(a) tell"
        "<li>2. Ask it</ol><p>More</p><h4>Example</h4><p>Say</p><h2>Other</h2><p>End</p>"
    )
    found = sections(html)
    assert [found[text] for text in ("(1) pay", "(a) tell", "2. Ask it", "More")] == ["4.1.1"] * 4
    assert (found["Intro"], found["Say"], found["End"]) == ("4.1", "4.1", "")


def test_a_numbered_table_row_numbers_no_other_row() -> None:
    found = sections("<p>CM 2.1 The fees:</p><table><tr><td>CM 3.1<td>ten<tr><td>late<td>six</table><p>So.</p>")
    assert (found["ten"], found["late"], found["So."]) == ("CM 3.1", "CM 2.1", "CM 2.1")


def rows(html: str) -> list[list[str]]:
    """The cells by row, a row that heads its table with a "+" before it."""
    blocks = [block for block in read_html(html).blocks if isinstance(block, Member)]
    grouped = [
        (key, [block.text for block in of]) for key, of in groupby(blocks, lambda b: (b.table, b.row, b.heading))
    ]
    return [["+", *cells] if heading else cells for (_, _, heading), cells in grouped]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<table><tr><th>Form<th>Fee<tr><td>A<td>4</table>", [["+", "Form", "Fee"], ["A", "4"]]),
        ("<table><thead><tr><td>Form<td>Fee<tbody><tr><td>A<td>4</table>", [["+", "Form", "Fee"], ["A", "4"]]),
        ("<table><caption>Fees<tr><td>A<td>4</table>", [["+", "Fees"], ["A", "4"]]),
        ("<table><tr><td>A<td>4<tr><td>B<td>5</table>", [["A", "4"], ["B", "5"]]),
        ("<table><tr><th>A<td>4<tr><th>B<td>5</table>", [["A", "4"], ["B", "5"]]),
        ("<table><tr><th scope=row>A<tr><td>4</table>", [["A"], ["4"]]),
        ("<table><tr><td>A<td>4<tr><th>Form<th>Fee</table>", [["A", "4"], ["Form", "Fee"]]),
        ("<table><tr><tr><th>Fee<tr><td>4</table>", [["+", "Fee"], ["4"]]),
    ],
)
def test_the_rows_that_name_the_columns_are_told_from_the_others(html: str, expected: list[list[str]]) -> None:
    assert rows(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<tr><td rowspan=2>A<td>1<tr><td>2<tr><td>B<td>3", [["A", "1", "2"], ["B", "3"]]),
        ("<tr><td>A<td rowspan=2>1<tr><td>B", [["A", "1"], ["B"]]),
        ("<tr><td rowspan=many>A<td>1<tr><td>B<td>2", [["A", "1"], ["B", "2"]]),
        ("<tr><td rowspan=999999999>A<td>1<tr><td>B<td>2", [["A", "1"], ["B", "2"]]),
        (
            "<tr><td rowspan=2>A<td><table><tr><td>x<tr><td>y</table><tr><td>2<tr><td>B",
            [["A"], ["x"], ["y"], ["2"], ["B"]],
        ),
    ],
)
def test_the_rows_that_a_first_cell_spans_are_one(html: str, expected: list[list[str]]) -> None:
    assert rows(f"<table>{html}</table>") == expected


def test_what_stands_in_a_table_in_a_heading_cell_heads_nothing() -> None:
    assert rows("<table><thead><tr><th>Fee<table><tr><td>x</table><tbody><tr><td>4</table>")[:2] == [
        ["+", "Fee"],
        ["x"],
    ]


def test_a_footnote_has_the_place_of_its_mark() -> None:
    page = read_html(
        "<h2>One</h2><p>1.1 The first.<sup><a href='#n1' id=r1>1</a></sup></p><h2>Two</h2><p>2.1 The second.</p>"
        "<ol><li id=n1><p>Save on Sunday. <a href='#r1'>Back</a></p></ol><p>After</p>"
    )
    note, back, after = page.blocks[-3:]
    assert (note.text, note.section, note.headings) == ("Save on Sunday.", "1.1", ("One",))
    assert not back.content
    assert (after.section, after.headings) == ("2.1", ("Two",))


def test_the_anchor_is_the_nearest_id_at_or_above() -> None:
    page = read_html("<main id=m><p>a</p><h2 id=s>b</h2><p>c <i id=i>d</i></p><p>e</p><a name=old></a><p>f</p>")
    assert [block.anchor for block in page.blocks] == ["m", "s", "s", "i", "old"]


def test_the_title_is_the_title_element_else_the_first_heading_else_the_file() -> None:
    assert read_html("<title> Client\n money </title><h1>CM</h1>").title == "Client money"
    assert read_html("<h1>CM <i>3</i></h1>").title == "CM 3"
    assert read_page("rules/cm-3.html", b"<p>x</p>").title == "cm-3"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<p>“é”".encode(), "“é”"),
        ("<p>“é”".encode("utf-8-sig"), "“é”"),
        (b"\xff\xfe" + "<p>“é”".encode("utf-16-le"), "“é”"),
        (b"<meta charset=iso-8859-1><p>\x93\xe9\x94", "“é”"),
        (b"<meta http-equiv=x content='text/html; charset=windows-1251'><p>\xcf", "П"),
        (b"<meta charset=bogus-9><p>\xc3\xa9", "é"),
        (b"<meta charset=utf-7><p>+AGE-", "+AGE-"),
        (b"<meta charset=utf-16><p>\xc3\xa9", "é"),
        (b"<p>caf\xe9 is old", "café is old"),
    ],
)
def test_bytes_are_decoded_by_mark_declaration_or_utf8(data: bytes, text: str) -> None:
    assert texts(data) == [text]


def test_the_header_of_the_answer_comes_before_the_page_s_own_declaration() -> None:
    page = read_html(b"<meta charset=utf-8><p>\xe9", content_type="text/html; charset=latin1")
    assert page.blocks[0].text == "é"


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", b"%PDF\x00\x01\x02\x03", bytes(range(256)) * 4]
)
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(IngestError, match="not text"):
        read_html(data)


def test_plain_text_has_a_block_for_each_line() -> None:
    page = read_html("One <b>\n\n  two\n", content_type="text/plain; charset=utf-8")
    assert page.blocks == (Block("One <b>"), Block("  two"))


def test_xhtml_elements_may_close_themselves() -> None:
    html = "<html xmlns='x'><head><title/></head><body><a id='t'/><p>a</p><div/><p>b</p></body></html>"
    assert [block.text for block in read_html(html, content_type="application/xhtml+xml").blocks] == ["a", "b"]


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "deep",
        "<b><i>" * 50_000 + "deep",
        "<ul><li>" * 50_000 + "deep" + "</ul>" * 50_000 + "<p>after",
        "<table><tr><td>" * 20_000 + "deep",
    ],
)
def test_nesting_without_end_is_read_in_bounded_time(html: str) -> None:
    started = time.monotonic()
    assert texts(html)[0] == "deep"
    assert time.monotonic() - started < 10  # the parser alone takes over 20 s for the first case


@pytest.mark.parametrize("html", ["<a '" * 50_000, "<p" * 50_000, "<style>" + "/*{" * 50_000, "<![CDATA[" * 10_000])
def test_broken_markup_ends_quickly(html: str) -> None:
    started = time.monotonic()
    read_html(html)
    assert time.monotonic() - started < 10


@given(st.text(alphabet=st.sampled_from("<>/'\"= abpdivtrsyle&;#x0\n\x00\ud800:{}@")) | st.text())
def test_no_text_crashes_the_reader(html: str) -> None:
    for block in read_html(html).blocks:
        assert block.text.strip()


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        page = read_html(data)
    except IngestError:
        return
    assert all(block.text for block in page.blocks)


def test_a_name_without_a_reader_is_refused_with_the_names_that_have_one() -> None:
    with pytest.raises(IngestError, match=r"'.pdf'.*\.html.*\.md"):
        read_page("a/b.pdf", b"%PDF")


def test_blocks_of_a_table_equal_plain_blocks() -> None:
    cell = read_html("<table><tr><td>a").blocks[0]
    assert cell == Block("a")
    assert Block("a") == cell
    assert len({cell, Block("a")}) == 1
    assert cell != Block("b")


def test_rules_that_name_every_element_take_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 rules of 50,000 elements each would hold gigabytes; what lies beyond the bound is read without them."""
    monkeypatch.setattr(styles, "MAX_MATCHES", 1000)
    rules = "<style>" + ".a{display:none}" * 400 + "</style>"
    page = read_html(rules + "<p class=a>gone</p>" * 100 + "<p class=a>kept</p>" * 5)
    assert [block.text for block in page.blocks] == []
    assert len(read_html(rules + "<p class=a>x</p>" * 2000).blocks) == 1000
