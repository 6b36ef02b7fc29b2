import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.train_samples import sample_passages
from service.knowledge.chunk import MERGE_TOKENS, chunk_page, context_line
from service.knowledge.milvus_rows import CUT
from service.knowledge.readers.html import read_html
from service.knowledge.tables import table_heads
from service.knowledge.terms import terms_of
from service.model import Block, Page, Passage


def words(text: str) -> int:
    """A token for each word of up to ten letters, and two for the text's ends."""
    return 2 + sum(1 + (len(word) - 1) // 10 for word in text.split())


def cut(page: Page | str, max_tokens: int = 250, address: str = "cm.html") -> list[Passage]:
    return chunk_page(
        read_html(page) if isinstance(page, str) else page,
        source="rulebook",
        kind="official",
        address=address,
        sha256="0" * 64,
        fetched_at="2031-01-01T00:00:00Z",
        count_tokens=words,
        max_tokens=max_tokens,
    )


def texts(page: Page | str, max_tokens: int = 250) -> list[str]:
    return [passage.text for passage in cut(page, max_tokens)]


RULE = (
    "<title>Book</title><h1>CM 3 Money</h1><p>Intro.</p><h2>CM 3.1 Time</h2>"
    "<p>CM 3.1.1 The firm must:</p><ol><li>(1) pay it in;<li>(2) tell the client.</ol>"
    "<p>CM 3.1.2 It must do so on the day.<sup><a href='#n'>1</a></sup></p>"
    "<h2>Other</h2><p>Some prose.</p><p id=n>1 Not on a Sunday.</p>"
)


def test_a_rule_stays_whole_with_its_items_and_its_footnote() -> None:
    assert texts(RULE) == [
        "Intro.",
        "CM 3.1.1 The firm must:\n(1) pay it in;\n(2) tell the client.",
        "CM 3.1.2 It must do so on the day.1\n1 Not on a Sunday.",
        "Some prose.",
    ]


def test_the_context_names_document_headings_and_number_and_is_no_part_of_the_text() -> None:
    passage = cut(RULE)[1]
    assert passage.context == "Book > CM 3 Money > CM 3.1 Time > CM 3.1.1"
    assert (passage.section, passage.headings) == ("CM 3.1.1", ("CM 3 Money", "CM 3.1 Time"))
    assert passage.indexed_text == f"{passage.context}\n{passage.text}"


def test_the_fields_of_the_document_are_carried() -> None:
    passage = cut(RULE)[0]
    assert (passage.source, passage.kind, passage.address) == ("rulebook", "official", "cm.html")
    assert (passage.sha256, passage.fetched_at, passage.title) == ("0" * 64, "2031-01-01T00:00:00Z", "Book")


def test_a_long_rule_is_cut_between_its_items_first() -> None:
    items = "".join(f"<li>({n}) " + "word " * 20 for n in range(1, 9))
    passages = cut(f"<p>CM 3.1.1 The firm must:</p><ol>{items}</ol>", max_tokens=60)
    assert len(passages) == 4
    assert all(re.match(r"CM 3|\(\d\)", passage.text) for passage in passages)


def test_a_lead_in_goes_with_what_it_announces() -> None:
    html = "<p>4.1 The firm acts. " + "word " * 30 + "</p><p>It must:</p><p>(a) " + "word " * 30 + "</p>"
    assert [text[:7] for text in texts(html, max_tokens=50)] == ["4.1 The", "It must"]


def test_a_caption_goes_with_what_follows_it() -> None:
    html = "<p>" + "Word " * 100 + ".</p><p>Worked example</p><p>" + "Word " * 100 + ".</p>"
    assert [text.split()[0] for text in texts(html)] == ["Word", "Worked"]


def test_a_long_block_is_cut_between_sentences_and_a_long_sentence_between_words() -> None:
    sentence = "The firm must pay the money in on the same day."
    assert texts("<p>" + f"{sentence} " * 4, max_tokens=24) == [f"{sentence} {sentence}"] * 2
    assert set(" ".join(texts("<p>" + "word " * 100, max_tokens=20)).split()) == {"word"}


def test_a_word_longer_than_the_budget_is_cut() -> None:
    passages = cut("<p>" + "x" * 2000, max_tokens=20)
    assert "".join(passage.text for passage in passages) == "x" * 2000


def test_a_word_that_the_tokenizer_does_not_count_is_cut_too() -> None:
    page = Page("", (Block("x" * 100_000),))
    passages = chunk_page(
        page,
        source="s",
        kind="web",
        address="",
        sha256="",
        fetched_at="",
        count_tokens=lambda text: len(text.split()),
        max_tokens=20,
    )
    assert max(len(passage.text) for passage in passages) <= 320


def test_short_paragraphs_under_one_heading_are_gathered_but_not_across_a_heading() -> None:
    html = "<h2>A</h2><p>One is here.</p><p>Two is here.</p><h2>B</h2><p>Three is here.</p>"
    assert texts(html) == ["One is here.\nTwo is here.", "Three is here."]


def test_gathering_stops_before_passages_get_long() -> None:
    passages = cut("".join(f"<p>{'Word ' * 50}ends {n}.</p>" for n in range(6)))
    assert [words(passage.text) <= MERGE_TOKENS for passage in passages] == [True] * 3


def test_differently_numbered_rules_are_not_joined() -> None:
    assert texts("<p>1.1 Yes it is.</p><p>1.2 No it is not.</p>") == ["1.1 Yes it is.", "1.2 No it is not."]


def test_two_sections_of_one_name_are_not_joined() -> None:
    html = "<h2>CM 3.1 Time</h2><h3>Note</h3><p>First.</p><h3>Rule</h3><p>Second.</p><h3>Note</h3><p>Third.</p>"
    passages = cut(html)
    assert [passage.text for passage in passages] == ["First.", "Second.", "Third."]
    assert len({passage.passage_id for passage in passages}) == 3


def test_the_cells_of_a_row_stay_together() -> None:
    rows = "".join(f"<tr><td>Row {n} of the table<td>costs {n} crowns</tr>" for n in range(12))
    for text in texts(f"<table>{rows}</table>", max_tokens=30):
        lines = text.split("\n")
        assert [line.startswith("Row") for line in lines] == [True, False] * (len(lines) // 2)


def table(rows: int, head: str = "<caption>Fees<tr><th>Form<th>Fee") -> str:
    return f"<table>{head}{''.join(f'<tr><td>Form {n} of the firm<td>{n} crowns' for n in range(rows))}</table>"


def rows_of(passage: Passage) -> list[tuple[str, bool]]:
    return [(passage.text[row.start : row.end].replace("\n", "/"), row.heading) for row in passage.rows]


def test_caption_and_column_headings_stand_above_the_rows_in_every_passage_of_a_table() -> None:
    passages = cut("<p>They are these.</p>" + table(12), max_tokens=30)
    assert len(passages) > 2
    assert passages[0].text.startswith("They are these.\nFees\nForm\nFee\nForm 0")
    assert all(passage.text.startswith("Fees\nForm\nFee\nForm ") for passage in passages[1:])
    assert [rows_of(passage)[:3] for passage in passages[:2]] == [
        [("Fees", True), ("Form/Fee", True), ("Form 0 of the firm/0 crowns", False)],
        [("Fees", True), ("Form/Fee", True), (rows_of(passages[1])[2][0], False)],
    ]


def test_column_headings_stand_above_a_row_that_is_a_rule_of_its_own_and_make_no_passage() -> None:
    html = "<table><tr><th>Rule<th>Until<tr><td>CM 9.1.1 R<td>1 May 2031<tr><td>CM 9.1.2 R<td>2 May 2031</table>"
    assert texts(html) == ["Rule\nUntil\nCM 9.1.1 R\n1 May 2031", "Rule\nUntil\nCM 9.1.2 R\n2 May 2031"]


def test_two_tables_in_one_passage_have_each_its_own_headings() -> None:
    other = "<table><tr><th>Kind<th>Most<tr><td>retail<td>7</table>"
    [passage] = cut(table(1) + other)
    assert [(text, passage.rows[index].table) for index, (text, _) in enumerate(rows_of(passage))] == [
        ("Fees", 1),
        ("Form/Fee", 1),
        ("Form 0 of the firm/0 crowns", 1),
        ("Kind/Most", 2),
        ("retail/7", 2),
    ]


def test_headings_that_would_fill_the_passages_stand_where_the_page_has_them_alone() -> None:
    found = texts(table(4, head=f"<tr><th>{'word ' * 12}<th>Fee"), max_tokens=30)
    assert sum(text.count("word word") > 0 for text in found) == 1
    assert "3 crowns" in found[-1]


def test_a_table_without_rows_is_kept_as_it_is() -> None:
    [passage] = cut("<table><tr><th>Form<th>Fee</table>")
    assert rows_of(passage) == [("Form/Fee", True)]


def test_what_is_no_table_has_no_rows() -> None:
    assert [passage.rows for passage in cut("<p>Text.</p><dl><dt>term<dd>its meaning</dl>")] == [()]


def test_a_term_stays_with_its_definition() -> None:
    entries = "".join(f"<dt>term {n}<dd>{'word ' * 40}." for n in range(4))
    assert [text.split("\n")[0] for text in texts(f"<dl>{entries}</dl>")] == ["term 0", "term 2"]


def test_what_is_no_content_is_in_no_passage() -> None:
    html = "<nav>Home</nav><p>Pay ten.<span style='opacity:0'> Pay nil.</span></p><footer>Legal</footer>"
    assert texts(html) == ["Pay ten."]


def test_headings_make_no_passage_unless_the_page_holds_nothing_else() -> None:
    assert texts("<h1>A<br>a</h1><h2>B</h2><p>Text.</p><h2>C</h2>") == ["Text."]
    assert texts("<h1>Only</h1><h2>Headings</h2>") == ["Only", "Headings"]


def test_a_page_without_content_has_no_passages() -> None:
    assert cut("<nav>Home</nav><p>—</p>") == []


def test_ids_are_stable_unique_and_survive_edits_elsewhere() -> None:
    before = {passage.text: passage.passage_id for passage in cut(RULE)}
    edited = RULE.replace("Intro.", "A new intro. " * 50).replace("on the day", "on the same day")
    after = {passage.text: passage.passage_id for passage in cut(edited)}
    kept = "CM 3.1.1 The firm must:\n(1) pay it in;\n(2) tell the client."
    assert after[kept] == before[kept]
    assert len(set(after.values())) == len(cut(edited))
    assert all(re.fullmatch("[a-z0-9]{16}", identifier) for identifier in after.values())
    assert not {passage.passage_id for passage in cut(RULE, address="b.html")} & set(before.values())


def test_a_long_context_loses_outer_headings_then_words_but_keeps_the_number() -> None:
    headings = ["Outer heading of many words", "Inner"]
    assert context_line("Book", headings, "4.1", words, 30) == "Book > Outer heading of many words > Inner > 4.1"
    assert context_line("Book", headings, "4.1", words, 9) == "Book > Inner > 4.1"
    assert context_line("A book of many words", headings, "4.1", words, 7) == "A book of > 4.1"
    assert context_line("Title", [], "4.1", words, 3) == "4.1"
    assert context_line("Title", [], "", words, 1) == ""


def test_no_room_for_any_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_tokens=1"):
        cut("<p>word</p>", max_tokens=1)


_TABLE = ("<table><tr><th>", "<th>", "<table><caption>", "<tr><td rowspan=2>", "</table>")
_TAGS = ("<p>", "<h2>", "<li>", "<tr><td>", "<td>", "<dt>", "<dd>", "<p>1.1 A ", "<p>1.2 B ", "<nav>", *_TABLE)
_PAGES = st.lists(
    st.tuples(
        st.sampled_from(_TAGS),
        st.integers(0, 60),
        st.sampled_from(["word", "Ends. Next", "extraordinarily", "a:", "“Q.”"]),
    ),
    max_size=12,
)


def _markup(part: tuple[str, int, str]) -> str:
    tag, repeats, words_of_it = part
    return tag + f"{words_of_it} " * repeats + ("</h2>" if tag == "<h2>" else "")


@given(_PAGES, st.integers(12, 80))
def test_every_passage_is_verbatim_within_the_budget_and_nothing_is_lost_or_doubled_but_what_heads_a_table(
    parts: list[tuple[str, int, str]], max_tokens: int
) -> None:
    page = read_html("<title>A title of some words</title>" + "".join(map(_markup, parts)))
    passages = cut(page, max_tokens)
    heads = {index for of in table_heads(page.blocks).values() for index in of}
    seen: set[tuple[int, int]] = set()
    for passage in passages:
        assert words(passage.indexed_text) <= max_tokens
        assert passage.text == "\n".join(page.blocks[s.block].text[s.start : s.end] for s in passage.spans)
        here: set[tuple[int, int]] = set()
        for span in passage.spans:
            places = {(span.block, index) for index in range(span.start, span.end)}
            assert page.blocks[span.block].content
            assert not places & (here if span.block in heads else seen)
            here |= places
            seen |= places
    for number, block in enumerate(page.blocks):
        if block.content and block.text not in block.headings:
            assert {(number, index) for index, character in enumerate(block.text) if character.isalnum()} <= seen
    assert len({passage.passage_id for passage in passages}) == len(passages)


def test_pages_are_cut_as_the_number_in_each_row_says() -> None:
    """A store that was filled earlier keeps its passages until their number says that they are cut otherwise now."""
    rows = [
        (of.passage_id, of.indexed_text, of.spans, of.rows, terms_of(of.indexed_text))
        for of in sample_passages(words, 256)
    ]
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    assert (CUT, digest) == (2, "2f08400e787af805"), "raise CUT, unless only the sample changed, and write the new pair"
