"""A row of a table is quoted whole, below what says what its figures are figures of, and every word is in the page."""

import pytest

from service.citations.grounding import missing_quotations
from service.citations.quotes import CitationDraft, check
from service.citations.text_fragment import directive_at
from service.knowledge.chunk import chunk_page
from service.knowledge.readers.html import read_html
from service.knowledge.readers.markdown import read_markdown
from service.llm.lexical import UNIT_MAX
from service.llm.pieces import pieces
from service.llm.quote import Quote, Thresholds
from service.model import ABSTAIN, Page, Source
from service.usage import Usage
from tests.fakes import FixedReranker

FEES = "<table><caption>Fees<tr><th>Form<th>Fee<tr><td>DT-1<td>400<tr><td>DT-4<td>5,500</table>"
LIMITS = "<table><tr><th>Client<th>Most<tr><td>retail<td>7<tr><td>others<td>> 900</table>"
IN_MARKDOWN = "| Form | Fee |\n|---|---|\n| DT-1 | 400 |\n| DT-4 | 5,500 |\n"


def sources(page: Page, max_tokens: int = 250) -> list[Source]:
    cut = chunk_page(
        page,
        source="rules",
        kind="official",
        address="fees.html",
        sha256="0" * 64,
        fetched_at="",
        count_tokens=lambda text: len(text.split()),
        max_tokens=max_tokens,
    )
    return [Source(n, passage, 0.9) for n, passage in enumerate(cut, start=1)]


async def quoted(found: list[Source], figure: str) -> str:
    """What Quote says where the best of what it could quote ends in `figure`."""
    scorer = FixedReranker(lambda _, text: 0.9 if text.endswith(figure) else 0.5)
    asked = Quote(scorer, Thresholds(quotes=1)).answer("What does the form cost?", found, "", Usage())
    return "".join([text async for text in asked])


def verified(answer: str, found: list[Source]) -> list[CitationDraft]:
    """The citations of an answer, all of which stand."""
    drafts = check(answer, found)
    assert {draft.status for draft in drafts} == {"verified"}
    assert not missing_quotations(answer, found)
    return drafts


@pytest.mark.parametrize(
    ("page", "head"),
    [
        (read_html(FEES), "Fees Form Fee"),
        (read_html(FEES.replace("<caption>Fees", "")), "Form Fee"),
        (read_html(FEES.replace("<tr><th>Form<th>Fee", "")), "Fees"),
        (read_markdown(IN_MARKDOWN), "Form Fee"),
    ],
)
async def test_a_row_is_quoted_below_what_heads_its_table(page: Page, head: str) -> None:
    found = sources(page)
    answer = await quoted(found, "5,500")
    assert answer == f"“{head}” [[1]]\n\n“DT-4 5,500” [[1]]"
    drafts = verified(answer, found)
    blocks = [block.text for block in page.blocks]
    assert [" ".join(draft.quote.split()) for draft in drafts] == [head, "DT-4 5,500"]
    assert all(directive_at(blocks, draft.spans) for draft in drafts)


@pytest.mark.parametrize(
    "page",
    [
        read_html("<table><tr><td>DT-1<td>400<tr><td>DT-4<td>5,500</table>"),
        read_markdown(IN_MARKDOWN.replace("Form | Fee", " | ")),
    ],
)
async def test_a_row_of_a_table_without_headings_is_quoted_alone(page: Page) -> None:
    found = sources(page)
    answer = await quoted(found, "5,500")
    assert answer == "“DT-4 5,500” [[1]]"
    verified(answer, found)


@pytest.mark.parametrize(
    ("figure", "answer"),
    [
        ("5,500", "“Fees Form Fee” [[1]]\n\n“DT-4 5,500” [[1]]"),
        ("900", "“Client Most” [[1]]\n\n“others > 900” [[1]]"),
    ],
)
async def test_of_two_tables_in_one_passage_each_row_has_its_own_headings(figure: str, answer: str) -> None:
    found = sources(read_html(FEES + LIMITS))
    assert len(found) == 1
    assert await quoted(found, figure) == answer
    verified(answer, found)


async def test_a_row_in_a_passage_that_begins_in_the_middle_of_a_table_has_the_headings_too() -> None:
    rows = "".join(f"<tr><td>Form number {n}<td>{n} crowns" for n in range(30))
    found = sources(read_html(f"<table><tr><th>Form<th>Fee{rows}</table>"), max_tokens=40)
    assert len(found) > 2
    assert (await quoted(found[-1:], "29 crowns")).startswith(f"“Form Fee” [[{len(found)}]]")


async def test_a_row_that_a_first_cell_spans_is_quoted_with_that_cell() -> None:
    page = read_html("<table><tr><th>Firm<th>Kind<th>Days<tr><td rowspan=2>B<td>in<td>9<tr><td>out<td>10</table>")
    assert await quoted(sources(page), "10") == "“Firm Kind Days” [[1]]\n\n“B in 9 out 10” [[1]]"


async def test_a_cell_that_would_be_a_line_of_markdown_does_not_break_its_quotation() -> None:
    found = sources(read_html("<table><tr><th># of days<th>- or none<tr><td>1. first<td>> 30 days</table>"))
    answer = await quoted(found, "30 days")
    assert [draft.quote.split() for draft in verified(answer, found)] == [
        ["#", "of", "days", "-", "or", "none"],
        ["1.", "first", ">", "30", "days"],
    ]


async def test_headings_that_hold_a_marker_of_ours_are_not_quoted_and_neither_is_the_row() -> None:
    found = sources(read_html("<table><tr><th>Fee, see [[3]]<tr><td>5,500</table>"))
    assert await quoted(found, "5,500") == ABSTAIN


async def test_what_heads_a_table_or_leads_in_to_one_is_never_quoted_alone() -> None:
    found = sources(
        read_html(f"<p>The firm pays these fees to the Authority for its forms:</p>{FEES}<p>It pays in May.")
    )
    text = found[0].passage.text
    said = [text[piece.start : piece.end].replace("\n", " ") for piece in pieces(found[0].passage)]
    assert said == ["DT-1 400", "DT-4 5,500", "It pays in May."]


def test_a_row_that_is_too_long_is_cut_as_other_text_and_keeps_its_headings() -> None:
    rule = "A firm must keep each record of each client for as long as the rule says that it must. " * 12
    passage = sources(read_html(f"<table><tr><th>Rule<th>Text<tr><td>First<td>{rule}</table>"))[0].passage
    found = pieces(passage)
    assert len(found) > 2
    assert all(piece.end - piece.start <= UNIT_MAX for piece in found)
    assert {passage.text[slice(*piece.head)] for piece in found if piece.head} == {"Rule\nText"}
