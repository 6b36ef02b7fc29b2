"""A quotation over several lines is one quotation: no list, paragraph or block of it escapes the verbatim check."""

from cProfile import Profile
from pstats import Stats

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.citations.grounding import missing_quotations
from service.citations.quotes import check
from service.citations.statements import statements
from service.llm.quote import Quote, Thresholds
from service.model import Source
from service.usage import Usage
from tests.fakes import FixedReranker, passage

LIST = "A firm must:\nkeep its records for five years;\ntell the Authority."
NUMBERED = "Before it opens the account:\n1. obtain a letter;\n2. record it."


def source(text: str) -> list[Source]:
    return [Source(1, passage(1, text), 0.9)]


def said(answer: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(statement.text, statement.numbers) for statement in statements(answer)]


def statuses(answer: str, text: str) -> list[str | None]:
    return [draft.status for draft in check(answer, source(text))]


@pytest.mark.parametrize(
    "invented",
    [
        "A firm must:\n- burn its records within two days;\n- tell nobody.",
        "A firm must:\n1. burn its records within two days;\n2. tell nobody.",
        "A firm must:\n# burn its records within two days",
        "A firm must:\n> burn its records within two days",
        "A firm must:\n| burn | its | records |",
        'A firm must "burn:\n- its records within two days.',
        "A firm must ‘burn:\n- its records within two days.",
        "A firm must “burn” them:\n- within two days.",
    ],
)
@pytest.mark.parametrize("marks", ["“”", "«»", '""'])
def test_invented_items_in_quotation_marks_are_missing(marks: str, invented: str) -> None:
    answer = f"{marks[0]}{invented}{marks[1]} [[1]]"
    assert missing_quotations(answer, source(LIST)) == [invented]
    assert statuses(answer, LIST) == ["unsupported"]


@pytest.mark.parametrize("gap", ["\n\n", "\n \n\n", "\r\n\r\n"])
def test_an_invented_paragraph_of_a_quotation_is_missing(gap: str) -> None:
    answer = f"“A firm must:{gap}Invented second.” [[1]]"
    assert missing_quotations(answer, source(LIST))[0].split() == ["A", "firm", "must:", "Invented", "second."]
    assert statuses(answer, LIST) == ["unsupported"]


def test_an_opener_that_is_never_closed_does_not_let_items_out_of_the_quotation_round_it() -> None:
    assert missing_quotations('“A firm "must:\n- burn its records.” [[1]]', source(LIST))[0].endswith("records.")
    assert missing_quotations('"A firm “must:\n- burn its records." [[1]]', source(LIST))[0].endswith("records.")


async def test_a_numbered_list_that_quote_gives_word_for_word_is_verified() -> None:
    found = source(NUMBERED)
    written = Quote(FixedReranker(lambda *_: 0.9), Thresholds()).answer("How is an account opened?", found, "", Usage())
    answer = "".join([text async for text in written])
    assert answer == f"“{NUMBERED}” [[1]]"
    [draft] = check(answer, found)
    assert (draft.status, draft.quote) == ("verified", NUMBERED)
    assert missing_quotations(answer, found) == []


@pytest.mark.parametrize(
    "answer",
    [
        "“A firm must:\n- keep its records for five years;\n- tell the Authority.” [[1]]",
        "“A firm must: [[1]]\n* keep its records for five years; [[1]]\n* tell the Authority.” [[1]]",
        "> “A firm must:\n>\n> - keep its records for five years;\n> - tell the Authority.” [[1]]",
        "- “A firm must:\n  - keep its records for five years;\n  - tell the Authority.” [[1]]",
        "“A firm must:\n\nkeep its records for five years;\n\ntell the Authority.” [[1]]",
    ],
)
def test_bullets_are_layout_and_no_words_of_the_source(answer: str) -> None:
    assert missing_quotations(answer, source(LIST)) == []
    assert statuses(answer, LIST) == ["verified"]


@pytest.mark.parametrize(
    ("figure", "written"),
    [
        ("5", "> 5"),
        ("5", "+ 5"),
        ("5", "- 5"),
        ("5", "-  5"),
        ("5", "- - 5"),
        ("£5", "- £5"),
        ("£5", "> £5"),
        (".5", "- .5"),
        ("five", "> five"),
        ("five", "+ five"),
    ],
)
def test_a_sign_before_a_figure_is_no_bullet(figure: str, written: str) -> None:
    text = f"The charge is due where the ratio is {figure} per cent."
    answer = f"“The charge is due where the ratio is\n{written} per cent.” [[1]]"
    assert len(missing_quotations(answer, source(text))) == 1
    assert statuses(answer, text) == ["unsupported"]


def test_a_sign_that_the_source_has_may_begin_a_line_of_the_quotation() -> None:
    for sign in (">", "+", "-"):
        answer = f"“The charge is due where the ratio is\n{sign} 5 per cent.” [[1]]"
        assert statuses(answer, f"The charge is due where the ratio is {sign} 5 per cent.") == ["verified"]


def test_a_number_of_an_item_is_a_word_of_the_source() -> None:
    answer = "“A firm must:\n1. keep its records for five years;” [[1]]"
    assert len(missing_quotations(answer, source(LIST))) == 1


@pytest.mark.parametrize("mark", ["“", '"', "„", "«"])
def test_a_mark_that_is_never_closed_holds_no_further_line(mark: str) -> None:
    answer = (
        f"It says {mark}keep records [[1]].\n\n- “One” rule [[2]].\n- Another ({mark}two”) [[3]].\n\nThe end [[4]]."
    )
    assert [numbers for _, numbers in said(answer)] == [(1,), (2,), (3,), (4,)]


def test_a_paragraph_cited_at_its_end_is_one_quotation_though_one_mark_in_it_is_never_closed() -> None:
    assert said("“One. The “two.” [[1]]") == [("“One. The “two.”", (1,))]
    assert [numbers for _, numbers in said("“One. [[1]] The “two.” [[2]]")] == [(1,), (2,)]


def test_a_closer_too_many_at_the_end_holds_no_further_line() -> None:
    assert said("“One.” [[1]]\n\n“Two.” Three.” [[2]]") == [("“One.”", (1,)), ("“Two.” Three.”", (2,))]


@pytest.mark.parametrize("opening", ["(", "—", "**", "| ", "> ", "- ", ""])
def test_a_straight_mark_before_a_word_opens_and_closes_no_earlier_one(opening: str) -> None:
    answer = f'It says "keep records [[1]].\n\n{opening}"One" rule stands [[2]].'
    assert [numbers for _, numbers in said(answer)] == [(1,), (2,)]


def test_an_apostrophe_holds_no_lines_together() -> None:
    assert len(said("It says ‘keep [[1]].\n\n- the firms’ records [[2]].")) == 2


def test_what_follows_a_long_quotation_is_a_statement_of_its_own() -> None:
    assert said("- “A:\n- b.” [[1]]\n- c [[2]]\n\nDone. “E” [[3]]") == [
        ("“A:\n- b.”", (1,)),
        ("c", (2,)),
        ("Done.", ()),
        ("“E”", (3,)),
    ]


@given(
    st.lists(st.sampled_from(["a b.", "- c", "1. d", "> e", "| f |", "# g", "", "[[1]]", '("h")', "‘i"]), max_size=8)
)
def test_no_line_between_two_marks_is_parted_from_them(lines: list[str]) -> None:
    answer = "\n".join(["Before.", "", "It says “x", *lines, "y” [[2]].", "", "After."])
    [holding] = [statement for statement in statements(answer) if "x" in statement.text]
    assert holding.text.count("“") == holding.text.count("”") == 1
    assert 2 in holding.numbers


def calls(piece: str, times: int) -> int:
    """How many functions are called: what the clock says is no property of the code."""
    long = piece * times
    answers = f'"x “y {long}” z" [[1]]', f"“{long}.\n- {long}” [[1]]"
    with Profile() as profile:
        assert all(map(statements, answers))
    return int(Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "piece", ["“a. ", '"a. ', "‘a. ", "” ", '“a" ', "“a” b. ", "s’_", "„a “ ", "“a\n- ", "“a\n\nb” c\n", "‘“"]
)
def test_a_long_answer_is_cut_in_proportion_to_its_length(piece: str) -> None:
    assert calls(piece, 2_000) < 9 * calls(piece, 250)  # 8 times as long; by its square 64 times
