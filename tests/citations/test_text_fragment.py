import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from service.citations import page_text, text_fragment
from service.citations.page_text import PageText, fold, is_boundary
from service.citations.terms import Context
from service.citations.text_fragment import directive, directive_at, fragments_at, link
from service.model import Span
from tests.citations.fragment_matcher import annex_29, find, unbounded

EXAMPLES = max(300, settings().max_examples)


def highlighted(text_directive: str, blocks: Sequence[str]) -> str:
    """What a browser highlights, blocks joined with "|"; "" where nothing."""
    found = find(text_directive, blocks)
    if found is None:
        return ""
    (first, start), (last, end) = found
    parts = [
        blocks[number][start if number == first else 0 : end if number == last else None]
        for number in range(first, last + 1)
    ]
    return "|".join(parts)


# The matcher itself


@pytest.mark.parametrize(
    ("text_directive", "expected"),
    [
        ("text=fee%20is%20due", "fee is due"),
        ("text=ee%20is%20due", ""),
        ("text=FEE%20IS%20DUE", "fee is due"),
        ("text=fee+is+due", ""),
        ("text=due,yearly", "due. It is paid|yearly"),
        ("text=It-,is", "is"),
        ("text=is,-paid", "is"),
        ("text=due.%20It%20is%20paid%20yearly", ""),
        ("text=resume", "résumé"),
        ("text=absent", ""),
        ("text=-absent", ""),
        ("text=25", ""),
        ("text=25%2C000", "25,000"),
    ],
)
def test_the_matcher_follows_the_specification(text_directive: str, expected: str) -> None:
    blocks = ["The fee is due. It is paid", "yearly with a résumé of 25,000 lines."]
    assert highlighted(text_directive, blocks) == expected


# Encoding


@pytest.mark.parametrize(
    ("block", "passage", "expected"),
    [
        ("Levies & charges fall due.", "Levies & charges", "text=Levies%20%26%20charges"),
        ("A cap of 1,500 units holds.", "cap of 1,500 units", "text=cap%20of%201%2C500%20units"),
        ("Use Annex #3 (part b/c?) here.", "Annex #3 (part b/c?)", "text=Annex%20%233%20%28part%20b%2Fc%3F%29"),
        ("The non-bank lender pays.", "non-bank lender", "text=non%2Dbank%20lender"),
        ("Die Prüfgebühr fällt an.", "Prüfgebühr fällt an.", "text=Pr%C3%BCfgeb%C3%BChr%20f%C3%A4llt%20an."),
        ("Nach § 7 Abs. 2 gilt es.", "§ 7 Abs. 2", "text=%C2%A7%207%20Abs.%202"),
        ("It rose 5 % + 2 here.", "5 % + 2", "text=5%20%25%20%2B%202"),
    ],
)
def test_every_reserved_character_is_percent_encoded(block: str, passage: str, expected: str) -> None:
    assert directive([block], passage) == expected


# The page's own characters


@pytest.mark.parametrize(
    ("block", "passage", "expected"),
    [
        ("the firm’s “own” funds count.", 'the firm\'s "own" funds', "the firm’s “own” funds"),
        ("years 2020–2022 inclusive", "2020-2022 inclusive", "2020–2022 inclusive"),
        ("a ﬁrst oﬃcer signs", "a first officer signs", "a ﬁrst oﬃcer signs"),
        ("GBP\xa09\xa0000 a year is due", "GBP 9 000 a year", "GBP\xa09\xa0000 a year"),
        ("The Nova™ plan ends.", "NovaTM plan", "Nova™ plan"),
        ("Die Straße der Maße hier", "Strasse der Masse", "Straße der Maße"),
        ("A long\u200bish\u200btoken clause.", "longishtoken clause", "long\u200bish\u200btoken clause"),
        ("ANNUAL RETURN DATES apply", "Annual return dates", "ANNUAL RETURN DATES"),
        ("a plain line of text here", "a plain\r\nline\x00 of text", "a plain line of text"),
    ],
)
def test_a_straightened_passage_is_found_and_sent_as_the_page_writes_it(
    block: str, passage: str, expected: str
) -> None:
    assert highlighted(directive([block], passage), [block]) == expected


def test_a_no_break_space_is_sent_as_a_plain_space() -> None:
    assert directive(["GBP\xa09\xa0000 a year is due"], "GBP 9 000 a year") == "text=GBP%209%20000%20a%20year"


# Word boundaries


@pytest.mark.parametrize(
    ("block", "passage", "expected"),
    [
        ("All margin must be posted daily.", "argin must be posted daily.", "must be posted daily."),
        ("All margin must be posted daily.", "All margin must be post", "All margin must be"),
        ("A rate of 4.5 percent holds.", "5 percent holds", "percent holds"),
        ("the clerk's consent is needed", "the clerk", "the"),
        ("借主は毎月返済する。以上。", "借主は毎月返済する。", "借主は毎月返済する。"),
        ("- due in advance - as told", "- due in advance -", "due in advance"),
        (":~: opens a part of it", ":~: opens a part", "opens a part"),
        ("It waives the defence of all.", "It waives the defence…", "It waives the defence"),
    ],
)
def test_a_broken_word_or_a_loose_mark_at_an_end_is_dropped(block: str, passage: str, expected: str) -> None:
    assert highlighted(directive([block], passage), [block]) == expected


@pytest.mark.parametrize("passage", ["", "   ", " -- , ", "…", "\x00", "借主は", "\ud800"])
def test_nothing_is_emitted_for_what_holds_no_whole_word(passage: str) -> None:
    assert directive(["-- , & -- …", "借主は毎月返済する。"], passage) == ""


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("3.5", 1),
        ("3.5", 2),
        ("25,000", 2),
        ("lender's", 6),
        ("e.g", 1),
        ("word12", 4),
        ("e\u0301t", 1),
        ("a\u200bb", 1),
    ],
)
def test_no_boundary_inside_a_word(text: str, inside: int) -> None:
    assert not is_boundary(text, inside)


@pytest.mark.parametrize(("text", "at"), [("non-bank", 3), ("yes,no", 3), ("end.", 3), ("(a)", 1), ("a b", 1), ("", 0)])
def test_a_boundary_beside_a_mark(text: str, at: int) -> None:
    assert is_boundary(text, at)


# Blocks and gaps


def test_a_passage_over_two_blocks_becomes_a_range() -> None:
    blocks = ["Fees", "A firm pays yearly."]
    assert directive(blocks, "Fees A firm pays yearly.") == "text=Fees,A%20firm%20pays%20yearly."
    assert directive(blocks, "Fees\nA firm pays yearly.") == "text=Fees,A%20firm%20pays%20yearly."


@pytest.mark.parametrize(
    ("blocks", "passage", "expected"),
    [
        (
            ["each legal duty7 must be met in full now"],
            "each legal duty must be met in full",
            "each legal,must be met in full",
        ),
        (["The act of 1999 [4] governs sales here"], "The act of 1999 governs sales", "The act of 1999,governs sales"),
        (["The keeper", "Advert", "acts alone"], "The keeper acts alone", "The keeper,acts alone"),
        (["Rents rise", "(new tab)", "in spring again."], "Rents rise in spring", "Rents rise,in spring"),
        (
            ["firm must give pre\u0301avis of two months now"],
            "firm must give préavis of two months",
            "firm must give,of two months",
        ),
        (["a gap  of two  spaces is here"], "a gap of two spaces is", "a gap,spaces is"),
    ],
)
def test_what_a_term_cannot_hold_is_bridged_by_a_range(blocks: list[str], passage: str, expected: str) -> None:
    start, end = expected.split(",")
    assert directive(blocks, passage) == f"text={start},{end}".replace(" ", "%20")


@pytest.mark.parametrize(
    ("block", "passage"),
    [
        ("the keeper holds books of account", "1. the keeper holds books of account"),
        ("the keeper holds books of account", "Figure by the chair: the keeper holds books of account"),
        ("the keeper holds books of account", "Note: the keeper holds books of account"),
    ],
)
def test_words_that_are_not_on_the_page_are_left_out(block: str, passage: str) -> None:
    assert highlighted(directive([block], passage), [block]) == "the keeper holds books of account"


def test_a_passage_of_which_the_page_holds_less_than_half_gets_no_directive() -> None:
    assert directive(["Cookies are used here."], "Hidden terms on cookies apply to every visitor of the site") == ""
    assert directive([], "any passage") == ""


def test_a_long_passage_is_named_by_its_two_ends() -> None:
    words = " ".join(f"word{number}" for number in range(120))
    block = f"Before it. {words} After it."
    emitted = directive([block], words)
    assert len(emitted) < 150
    assert highlighted(emitted, [block]) == words


# Uniqueness


def test_a_repeated_line_is_told_by_the_heading_above_it() -> None:
    blocks = ["Plan A", "Fees accrue daily.", "Plan B", "Fees accrue daily."]
    assert directive_at(blocks, [Span(3, 0, 18)]) == "text=Plan%20B-,Fees%20accrue%20daily."
    assert directive_at(blocks, [Span(1, 0, 18)]) == "text=Plan%20A-,Fees%20accrue%20daily."


def test_a_repeated_opening_is_told_by_the_words_after_it() -> None:
    blocks = ["The term is two years from sale.", "The term is two years from delivery."]
    assert directive_at(blocks, [Span(1, 0, 21)]) == "text=The%20term%20is%20two%20years,-from%20delivery"


def test_uniqueness_ignores_case_and_accents() -> None:
    blocks = ["PRÉCIS OF COSTS", "Precis of costs follows."]
    assert directive(blocks, "Precis of costs") == "text=Precis%20of%20costs,-follows"


def test_a_repeat_inside_a_longer_word_counts_since_browsers_differ_on_words() -> None:
    blocks = ["a rate of 14.5 percent", "the older rate was", "5 percent"]
    emitted = directive_at(blocks, [Span(2, 0, 9)])
    assert find(emitted, blocks, unbounded) == ((2, 0), (2, 9))


def test_identical_lines_in_identical_surroundings_get_no_directive() -> None:
    blocks = ["Same words here."] * 4
    assert directive(blocks, "Same words here.") == ""
    assert directive_at(blocks, [Span(2, 0, 16)]) == ""


def test_the_first_of_identical_lines_can_be_named_where_the_place_is_known() -> None:
    blocks = ["Same words here."] * 4
    assert highlighted(directive_at(blocks, [Span(0, 0, 16)]), blocks) == "Same words here."
    assert find(directive_at(blocks, [Span(0, 0, 16)]), blocks) == ((0, 0), (0, 16))


def test_a_repeated_ending_is_told_by_the_words_before_it() -> None:
    blocks = ["From sale the term is two years.", "From delivery the term is two years."]
    assert directive_at(blocks, [Span(1, 14, 36)]) == "text=From%20delivery-,the%20term%20is%20two%20years."


def test_a_line_is_never_told_by_its_own_twin() -> None:
    blocks = ["Scope", "It is capped.", "It is capped."]
    assert directive_at(blocks, [Span(1, 0, 13)]) == "text=Scope-,It%20is%20capped."
    assert directive_at(blocks, [Span(2, 0, 13)]) == ""


def test_a_context_stays_in_one_block() -> None:
    blocks = ["Part One", "Scope", "It is capped.", "Rest", "It is capped."]
    assert directive_at(blocks, [Span(2, 0, 13)]) == "text=Scope-,It%20is%20capped."


def test_an_end_term_that_comes_too_early_is_told_by_what_follows_it() -> None:
    blocks = ["Opening words", "a due date", "middle", "a due date", "closing line"]
    emitted = directive_at(blocks, [Span(0, 0, 13), Span(1, 0, 10), Span(2, 0, 6), Span(3, 0, 10)])
    assert emitted == "text=Opening%20words,a%20due%20date,-closing%20line"


def test_a_target_that_cannot_be_named_whole_is_named_by_its_longest_part() -> None:
    blocks = ["Yes", "Yes", "Yes", "a firm keeps its own records", "Yes"]
    [fragment] = fragments_at(blocks, [Span(1, 0, 3), Span(2, 0, 3), Span(3, 0, 28)])
    assert fragment.last == Span(3, 0, 28)
    assert find(fragment.directive, blocks) == ((fragment.first.block, fragment.first.start), (3, 28))


def test_what_stands_apart_has_a_directive_each_and_what_lies_between_stays_dark() -> None:
    blocks = ["A firm keeps books.1", "Another rule stands here.", "1 Electronic books will do."]
    emitted = directive_at(blocks, [Span(0, 0, 20), Span(2, 0, 27)])
    assert [highlighted(part, blocks) for part in emitted.split("&")] == [blocks[0], blocks[2]]


def test_a_stretch_that_cannot_be_told_apart_is_left_out_and_the_rest_is_named() -> None:
    blocks = ["A firm keeps books.", "Another rule.", *["Yes"] * 4]
    assert directive_at(blocks, [Span(0, 0, 19), Span(4, 0, 3)]) == "text=A%20firm%20keeps%20books."


def test_spans_with_only_marks_between_them_are_one_stretch() -> None:
    blocks = ["A firm keeps books", "—", "and shows them."]
    assert highlighted(directive_at(blocks, [Span(0, 0, 18), Span(2, 0, 15)]), blocks) == "|".join(blocks)


def test_spans_outside_the_page_are_ignored() -> None:
    assert directive_at(["one block of text"], [Span(7, 0, 3), Span(-1, 0, 3)]) == ""
    assert directive_at(["one block of text"], [Span(0, 4, 99)]) == "text=block%20of%20text"


# Properties

WORDS = [
    "a",
    "rule",
    "Rule",
    "applies",
    "to",
    "firm",
    "firm's",
    "3.5",
    "1,000",
    "non-bank",
    "naïve",
    "(a)",
    "end.",
    "–",
    "“so”",
]
BLOCK = st.lists(st.sampled_from(WORDS), min_size=0, max_size=7).map(" ".join)
BLOCKS = st.lists(BLOCK, min_size=1, max_size=9)


def places(blocks: list[str], draw: st.DataObject) -> list[Span]:
    """A random stretch of the page as spans."""
    first = draw.draw(st.integers(0, len(blocks) - 1))
    last = draw.draw(st.integers(first, min(first + 3, len(blocks) - 1)))
    start = draw.draw(st.integers(0, len(blocks[first])))
    end = draw.draw(st.integers(start if first == last else 0, len(blocks[last])))
    spans = [
        Span(number, start if number == first else 0, end if number == last else len(blocks[number]))
        for number in range(first, last + 1)
    ]
    return spans


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=BLOCKS, data=st.data())
def test_what_is_emitted_highlights_exactly_the_named_range_in_every_browser(
    blocks: list[str], data: st.DataObject
) -> None:
    spans = places(blocks, data)
    fragments = fragments_at(blocks, spans)
    assume(fragments)
    [fragment] = fragments
    expected = ((fragment.first.block, fragment.first.start), (fragment.last.block, fragment.last.end))
    assert find(fragment.directive, blocks, annex_29) == expected
    assert find(fragment.directive, blocks, unbounded) == expected
    assert (spans[0].block, spans[0].start) <= expected[0]
    assert expected[1] <= (spans[-1].block, spans[-1].end)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=BLOCKS, data=st.data())
def test_a_passage_known_by_its_text_alone_is_highlighted_where_that_text_stands(
    blocks: list[str], data: st.DataObject
) -> None:
    spans = places(blocks, data)
    passage = " ".join(blocks[span.block][span.start : span.end] for span in spans)
    emitted = directive(blocks, passage)
    assume(emitted)
    found = find(emitted, blocks)
    assert found is not None
    assert found == find(emitted, blocks, unbounded)
    assert fold(highlighted(emitted, blocks).replace("|", " ")).strip() in fold(passage)


@settings(max_examples=EXAMPLES, deadline=None)
@given(blocks=BLOCKS, marker=st.integers(0, 8))
def test_a_block_that_stands_once_is_always_named_whole(blocks: list[str], marker: int) -> None:
    at = min(marker, len(blocks) - 1)
    blocks = [*blocks[:at], "the quaestor keeps the ledger", *blocks[at:]]
    [fragment] = fragments_at(blocks, [Span(at, 0, 29)])
    assert (fragment.first, fragment.last) == (Span(at, 0, 29), Span(at, 0, 29))
    assert directive(blocks, "the quaestor keeps the ledger") == fragment.directive


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    block=st.text(st.one_of(st.sampled_from("a \xa0\u200b\u0301™ﬁß…"), st.characters()), max_size=30), data=st.data()
)
def test_folded_positions_lead_back_to_the_raw_characters(block: str, data: st.DataObject) -> None:
    page = PageText(["other", block])
    start = data.draw(st.integers(0, len(block)))
    end = data.draw(st.integers(start, len(block)))
    low, high = page.folded_at(1, start), page.folded_at(1, end)
    assert page.text[low:high].strip() == fold(block[start:end]).strip()
    raw = "".join(page.raw(piece) for piece in page.slices(low, high)) if low < high else ""
    assert fold(raw).strip() == fold(block[start:end]).strip()


def test_positions_hold_in_a_block_as_long_as_a_file() -> None:
    block = "  " + "Ｆ a  b​™  c " * 2000 + "the end."
    page = PageText([block])
    at = block.index("the end.")
    assert page.text[page.folded_at(0, at) : page.folded_at(0, at + 8)] == "the end."
    assert page.slices(page.folded_at(0, at), page.folded_at(0, at + 8)) == [Span(0, at, at + 8)]
    assert highlighted(directive([block], "the end."), [block]) == "the end."


class Steps:
    """Counts what costs time on a page: how often the whole of it is searched, and how many characters are folded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searches = self.folded = 0
        pattern, folding = text_fragment._pattern, page_text.fold

        def counted_pattern(page: PageText, term: Span, context: Context) -> re.Pattern[str]:
            self.searches += 1
            return pattern(page, term, context)

        def counted_fold(text: str) -> str:
            self.folded += len(text)
            return folding(text)

        monkeypatch.setattr(text_fragment, "_pattern", counted_pattern)
        monkeypatch.setattr(page_text, "fold", counted_fold)

    def of(self, blocks: list[str]) -> tuple[int, int]:
        """The steps of naming the block before the last ten, by its place and by its text."""
        self.searches = self.folded = 0
        number = len(blocks) - 10
        assert directive_at(blocks, [Span(number, 0, len(blocks[number]))]) == directive(blocks, blocks[number]) != ""
        return self.searches, self.folded


def test_a_large_page_is_folded_once_and_searched_no_more_often_than_a_small_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = (
        "The firm must keep a record of each “client” account numbered {} for a period of five years after it closes, "
        "and the rule applies to every record so kept until then."
    )
    steps = Steps(monkeypatch)
    small, large = ([line.format(number) for number in range(10_000, 10_000 + count)] for count in (30, 3000))
    assert sum(map(len, large)) > 480_000
    searches, folded = steps.of(large)
    assert searches == steps.of(small)[0] <= 20
    assert sum(map(len, large)) <= folded < 1.1 * sum(map(len, large))


# Links


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.test/p", "https://a.test/p#:~:text=x"),
        ("https://a.test/p#", "https://a.test/p#:~:text=x"),
        ("https://a.test/p#s4", "https://a.test/p#s4:~:text=x"),
        ("https://a.test/p#:~:text=old", "https://a.test/p#:~:text=x"),
        ("https://a.test/p#s4:~:text=old", "https://a.test/p#s4:~:text=x"),
        ("https://a.test/p?q=1", "https://a.test/p?q=1#:~:text=x"),
    ],
)
def test_a_directive_replaces_an_older_one_and_keeps_the_element_id(url: str, expected: str) -> None:
    assert link(url, "text=x") == expected


@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "image/png", "application/json"])
def test_other_content_types_get_no_directive(content_type: str) -> None:
    assert link("https://a.test/p#s4", "text=x", content_type=content_type) == "https://a.test/p#s4"


@pytest.mark.parametrize("content_type", [None, "text/html; charset=utf-8", "TEXT/HTML", "text/plain"])
def test_html_and_plain_text_take_a_directive(content_type: str | None) -> None:
    assert link("https://a.test/p", "text=x", content_type=content_type) == "https://a.test/p#:~:text=x"


def test_a_pdf_opens_at_its_page_with_or_without_a_directive() -> None:
    assert link("https://a.test/d.pdf", "text=x", page=4) == "https://a.test/d.pdf#page=4:~:text=x"
    assert (
        link("https://a.test/d.pdf#page=1", "", page=4, content_type="application/pdf") == "https://a.test/d.pdf#page=4"
    )


def test_no_directive_leaves_the_address_without_an_empty_fragment() -> None:
    assert link("https://a.test/p", "") == "https://a.test/p"
    assert link("https://a.test/p#:~:text=old", "") == "https://a.test/p"


def test_an_address_of_extreme_length_gets_no_directive() -> None:
    url = "https://a.test/" + "a" * 3000
    assert link(url, "text=x") == url
