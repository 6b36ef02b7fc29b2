import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.citations.quotation_marks import quotations
from service.citations.quotes import (
    best_sentence,
    check,
    find_verbatim,
    lexical_overlap,
    page_spans,
    stands_verbatim,
)
from service.citations.statements import statements
from service.model import Passage, Source, Span

BLOCKS = (
    "Menu",
    "A firm must keep records for five years. It may keep them longer.",
    "Records are kept\xa0in English.",
)
TEXT = f"{BLOCKS[1]}\n{BLOCKS[2]}"


def passage(
    text: str = TEXT, spans: tuple[Span, ...] = (Span(1, 0, len(BLOCKS[1])), Span(2, 0, len(BLOCKS[2])))
) -> Passage:
    return Passage(
        passage_id="p",
        sha256="0" * 64,
        source="rules",
        kind="official",
        title="Records",
        address="records.html",
        section="",
        headings=(),
        context="",
        text=text,
        spans=spans,
        fetched_at="2026-01-01T00:00:00Z",
    )


def source(n: int, text: str) -> Source:
    return Source(n, passage(text, (Span(0, 0, len(text)),)), 0.9)


SOURCES = [Source(1, passage(), 0.9), source(2, "Complaints are answered within 15 business days. No fee is due.")]


# Statements


def said(answer: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(statement.text, statement.numbers) for statement in statements(answer)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Firms keep records [[1]]. They report [[2]].", [("Firms keep records.", (1,)), ("They report.", (2,))]),
        ("Firms keep records. [[1]] They report. [[2]]", [("Firms keep records.", (1,)), ("They report.", (2,))]),
        ("Firms keep records.[[1]][[2]] They report.", [("Firms keep records.", (1, 2)), ("They report.", ())]),
        ("[[1]] says that firms keep records.", [("says that firms keep records.", (1,))]),
        ("Under [[2]] firms keep records [[1]][[2]].", [("Under firms keep records.", (2, 1))]),
        ("- one item [[1]]\n- another [[2]]\n", [("one item", (1,)), ("another", (2,))]),
        ("1. one item [[1]]\n2) another\n   goes on [[2]]", [("one item", (1,)), ("another goes on", (2,))]),
        ("## Records\nFirms keep them [[1]].", [("Records", ()), ("Firms keep them.", (1,))]),
        ("| a. B | c [[1]] |\n| d | e [[2]] |", [("| a. B | c |", (1,)), ("| d | e |", (2,))]),
        ("> One thing. Another.\n> A third. [[1]]\n\nEnd.", [("One thing. Another. A third.", (1,)), ("End.", ())]),
        ("> A quoted block.\n\n[[1]]", [("A quoted block.", (1,))]),
        ("See Smith v. Jones [2019] EWCA Civ 1 [[1]].", [("See Smith v. Jones [2019] EWCA Civ 1.", (1,))]),
        ("They say “a. B is c. D” [[1]]. End.", [("They say “a. B is c. D”.", (1,)), ("End.", ())]),
        ("A line\nthat goes on [[1]].", [("A line that goes on.", (1,))]),
        ("[[1]]", []),
        ("", []),
    ],
)
def test_a_marker_belongs_to_the_statement_before_it(answer: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert said(answer) == expected


def test_a_statement_knows_its_place_in_the_answer() -> None:
    answer = "- Firms keep records. [[1]]\n- They report [[2]]."
    assert [answer[s.start : s.end] for s in statements(answer)] == ["Firms keep records. [[1]]", "They report [[2]]."]


@given(st.text(alphabet='ab. \n|>-#“”"‘’[]12', max_size=60))
def test_every_marker_after_some_text_is_carried_by_one_statement(answer: str) -> None:
    answer = f"Start. {answer} [[7]]"
    carrying = [statement for statement in statements(answer) if 7 in statement.numbers]
    assert len(carrying) == 1
    assert carrying[0].end == len(answer)


# Quotation marks


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It says “five years” and “in English”.", ["five years", "in English"]),
        ('It says "five years" and "in English".', ["five years", "in English"]),
        ("Il dit «cinq ans» ici.", ["cinq ans"]),
        ("Es heißt „fünf Jahre“ und »mehr« hier.", ["fünf Jahre", "mehr"]),
        ("They say “the word “client” is wide” here.", ["the word “client” is wide"]),
        ('They say “it ‘may’ be "so" here”.', ['it ‘may’ be "so" here']),
        ("They say ‘five years’ here.", ["five years"]),
        ("The firm’s rule and the clients’ money are not quotes.", []),
        ("They say ‘the firm’s own rule’ here.", ["the firm’s own rule"]),
        ("They say ‘the firms’ money’ here.", ["the firms’ money"]),
        ("They say ‘five years’ and ‘ten’.", ["five years", "ten"]),
        ("The firm's rule isn't 'quoted' here.", []),
        ('A 6" pipe and a 5" pipe.', []),
        ("He said “it goes on", ["it goes on"]),
        ('He said "it goes on', ["it goes on"]),
        ("“He said: “A firm must act.”", ["He said: “A firm must act."]),
        ("They write “He said: “A firm must act”.", ["He said: “A firm must act"]),
        ('"He said: "A firm must act."', ['He said: "A firm must act.']),
        ('“He said: "A firm must act.”', ['He said: "A firm must act.']),
        ("«He said: “A firm must act.»", ["He said: “A firm must act."]),
        ("“Act at once.” The firm must.”", ["Act at once.” The firm must."]),
        ("They “act”, a 5” pipe.”", ["act"]),
        ("“One” and “two.”", ["One", "two."]),
        ("“He said “this” and went on", ["He said “this” and went on"]),
        ("Nothing ” here.", []),
        ("An empty “” one and “ ” another.", []),
        ("No marks at all.", []),
    ],
)
def test_what_stands_in_quotation_marks_is_found(sentence: str, expected: list[str]) -> None:
    assert quotations(sentence) == expected


# Verbatim


@pytest.mark.parametrize(
    "quote",
    [
        "keep records",
        "keep\n  records",
        "Records are kept in English",
        "for five years. It may",
        "longer. Records are",
        "A firm … five years",
        "A firm ... five years [...] longer",
        "A firm [ … ] longer.",
        " keep records ",
        "years…",
    ],
)
def test_a_quote_stands_whatever_its_white_space(quote: str) -> None:
    assert stands_verbatim(quote, TEXT)


@pytest.mark.parametrize(
    "quote",
    [
        "Keep records",
        "keep record",
        "eep records",
        "keep records for six years",
        "keep, records",
        "five years … A firm",
        "",
        "…",
        "[...]",
        "A firm … ten years",
        "keeprecords",
    ],
)
def test_a_changed_quote_does_not_stand(quote: str) -> None:
    assert not stands_verbatim(quote, TEXT)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("5 business days", "within 15 business days"),
        ("5 percent", "a rate of 3.5 percent"),
        ("a fee of 25", "a fee of 25,000"),
        ("bank lenders", "non-bank lenders"),
        ("firm's", "firm’s"),
        ("2019-2021", "2019–2021"),
    ],
)
def test_a_part_of_a_word_or_number_does_not_stand(quote: str, text: str) -> None:
    assert not stands_verbatim(quote, text)


def test_a_whole_word_is_found_after_a_broken_one() -> None:
    assert find_verbatim("5 days", "in 15 days or 5 days") == (14, 20)


def test_an_ellipsis_of_the_page_itself_is_text() -> None:
    assert find_verbatim("wait … then", "go, then wait … then go") == (9, 20)


def test_a_long_quote_is_refused_without_delay() -> None:
    assert not stands_verbatim("a " * 2000 + "b", "a " * 4000)


# The best sentence


def test_the_best_sentence_shares_the_words_of_the_claim() -> None:
    start, end = best_sentence("They can keep them for longer than that.", TEXT)
    assert TEXT[start:end] == "It may keep them longer."


def test_the_score_decides_on_the_best_sentence_and_the_first_wins_a_tie() -> None:
    start, end = best_sentence("x", TEXT, lambda _, sentence: sentence.count("English"))
    assert TEXT[start:end] == "Records are kept\xa0in English."
    assert best_sentence("x", TEXT, lambda *_: 0.5) == (0, 40)
    assert best_sentence("x", "") == (0, 0)


def test_overlap_counts_figures_and_ignores_common_words() -> None:
    assert lexical_overlap("the records of the firm", "it is to be or not") == 0.0
    assert lexical_overlap("within 15 days", "answer in 15 days") > lexical_overlap(
        "within 15 days", "answer in 30 days"
    )
    assert lexical_overlap("15 30", "15 30") == 1.0


# Spans


def test_offsets_in_a_passage_lead_to_the_blocks_of_its_page() -> None:
    start = TEXT.index("longer")
    end = TEXT.index("in English")
    spans = page_spans(passage(), start, end)
    assert spans == (Span(1, 58, 65), Span(2, 0, 17))
    assert [BLOCKS[span.block][span.start : span.end] for span in spans] == ["longer.", "Records are kept\xa0"]


def test_a_passage_that_begins_inside_a_block_keeps_its_offsets() -> None:
    cut = passage("It may keep them longer.", (Span(1, 41, 65),))
    assert page_spans(cut, 3, 6) == (Span(1, 44, 47),)


# Citations


def outcome(answer: str) -> list[tuple[int, str | None, str]]:
    return [(draft.n, draft.status, draft.quote) for draft in check(answer, SOURCES)]


def test_a_quotation_that_stands_is_verified_and_shown() -> None:
    assert outcome("Firms must “keep records for five years” [[1]].") == [
        (1, "verified", "keep records for five years")
    ]


def test_the_quote_shown_is_the_passages_own_text() -> None:
    assert outcome("They are “kept in English” [[1]].") == [(1, "verified", "kept\xa0in English")]


def test_a_statement_without_a_quotation_is_left_to_the_score() -> None:
    assert outcome("Complaints get an answer in 15 business days [[2]].") == [
        (2, None, "Complaints are answered within 15 business days.")
    ]


@pytest.mark.parametrize(
    "quote", ["keep records for six years", "keep Records", "invented words", "keep records for five years, always"]
)
def test_an_invented_or_altered_quotation_is_unsupported(quote: str) -> None:
    """U12."""
    (draft,) = check(f"Firms must “{quote}” [[1]].", SOURCES)
    assert draft.status == "unsupported"
    assert draft.quote in TEXT


def test_a_quotation_from_another_source_is_unsupported() -> None:
    assert outcome("Firms must “keep records for five years” [[2]].")[0][:2] == (2, "unsupported")


def test_all_quotations_of_a_statement_must_stand() -> None:
    statuses = [status for _, status, _ in outcome("“A firm” must “keep books” [[1]].")]
    assert statuses == ["unsupported"]


def test_quotations_may_stand_in_different_sources_of_one_statement() -> None:
    assert outcome("“must keep records” and “No fee is due” [[1]][[2]].") == [
        (1, "verified", "must keep records"),
        (2, "verified", "No fee is due"),
    ]


def test_a_source_that_holds_none_of_the_quotations_is_unsupported() -> None:
    assert [entry[:2] for entry in outcome("“keep records” [[1]][[2]].")] == [(1, "verified"), (2, "unsupported")]


def test_one_invented_quotation_takes_the_others_of_its_statement_along() -> None:
    assert [entry[:2] for entry in outcome("“keep records” and “made up” [[1]][[2]].")] == [
        (1, "unsupported"),
        (2, "unsupported"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "“keep records” for ten years [[1]].",
        "“keep … records” for ten years [[1]].",
        "“records” of “A firm” are burnt [[1]].",
    ],
)
def test_terms_alone_leave_a_statement_to_the_score_and_show_a_sentence(answer: str) -> None:
    assert outcome(answer) == [(1, None, "A firm must keep records for five years.")]


def test_a_term_that_does_not_stand_fails_its_statement() -> None:
    assert outcome("A firm must keep “client books” [[1]].")[0][:2] == (1, "unsupported")


def test_a_term_is_held_against_all_sources_of_its_statement_and_scored_against_each() -> None:
    assert [entry[:2] for entry in outcome("A firm shall “keep records” for 15 days [[1]][[2]].")] == [
        (1, None),
        (2, None),
    ]


def test_beside_a_quoted_sentence_a_term_verifies_no_other_source() -> None:
    entries = outcome("Firms “must keep records for five years” and answer “Complaints” [[1]][[2]].")
    assert [entry[:2] for entry in entries] == [(1, "verified"), (2, None)]
    assert entries[1][2] == "Complaints are answered within 15 business days."


@pytest.mark.parametrize("answer", ["“keep records” [[1]]", "- **“keep records”**. [[1]]"])
def test_a_statement_that_is_one_short_quotation_and_nothing_else_is_verified(answer: str) -> None:
    assert outcome(answer) == [(1, "verified", "keep records")]


def test_a_number_without_a_source_is_unsupported_and_quotes_nothing() -> None:
    assert outcome("Firms pay a levy [[9]].") == [(9, "unsupported", "")]


def test_a_quotation_of_several_sentences_is_judged_as_one() -> None:
    answer = "The rule: “A firm must keep records for five years. It may keep them longer.” [[1]]"
    assert outcome(answer) == [(1, "verified", BLOCKS[1])]


def test_a_number_cited_twice_is_checked_twice() -> None:
    assert [entry[:2] for entry in outcome("“keep records” [[1]]. Firms “burn records” [[1]].")] == [
        (1, "verified"),
        (1, "unsupported"),
    ]


def test_a_quotation_across_two_blocks_has_a_span_in_each() -> None:
    (draft,) = check("It says “keep them longer. Records are kept” [[1]].", SOURCES)
    assert draft.status == "verified"
    assert draft.spans == (Span(1, 48, 65), Span(2, 0, 16))


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_the_shown_quote_is_always_verbatim_and_its_spans_lead_to_it(start: int, end: int) -> None:
    piece = TEXT[min(start, end) : max(start, end)]
    for draft in check(f"It says “{piece}” and more [[1]].", SOURCES):
        assert draft.quote in TEXT
        shown = "\n".join(BLOCKS[span.block][span.start : span.end] for span in draft.spans)
        assert shown == draft.quote.strip("\n") or "\n" in draft.quote
