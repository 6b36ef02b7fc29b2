"""Which kinds a text names: a rule that names several holds for each of them."""

import time

import pytest

from service.llm.kinds import CONTRASTS
from service.llm.mismatch import mismatch

ALIKE = "Recordings must be kept for five years, for retail and professional clients alike."


def named(text: str) -> set[str]:
    return {kind for contrast in CONTRASTS for kind in contrast.named(text)}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (ALIKE, {"retail client", "professional client"}),
        (
            "retail, professional or eligible counterparties",
            {"retail client", "professional client", "eligible counterparty"},
        ),
        ("a retail client’s statement", {"retail client"}),
        ("professional clients' calls", {"professional client"}),
        ("an eligible counterparty", {"eligible counterparty"}),
        ("retail clients, or eligible\ncounterparties", {"retail client", "eligible counterparty"}),
        ("Category A and B", {"category A", "category B"}),
        ("categories A, B", {"category A", "category B"}),
        ("category A/B firms", {"category A", "category B"}),
        ("from category B to A", {"category A", "category B"}),
        ("category A or category B", {"category A", "category B"}),
        ("must a category b firm file", {"category B"}),
        ("is a firm in category a or b", {"category A", "category B"}),
        ("A category B firm and a bank", {"category B"}),
        ("which category a firm falls in", set()),
        ("the main and the growth market", {"main market", "growth market"}),
        ("the internal and external reconciliations", {"internal reconciliation", "external reconciliation"}),
        ("major, significant and/or minor incidents", {"major incident", "significant incident", "minor incident"}),
        ("its quarterly or annual return", {"quarterly return", "annual return"}),
        ("retail and wholesale clients", set()),
        ("eligible clients may invest", set()),
        ("a professional counterparty", set()),
        ("eligible clients and retail clients", {"retail client"}),
        ("a category a firm", {"category A"}),
        ("what own funds must a category a firm hold?", {"category A"}),
        ("is the firm in category a?", {"category A"}),
        ("what may category a firms do", {"category A"}),
        ("on a change of category a firm must tell the Authority", set()),
        ("is it for the category a firm falls in", set()),
        ("annual accounts and a professional opinion", set()),
    ],
)
def test_a_kind_is_named_where_its_head_follows_after_its_siblings(text: str, kinds: set[str]) -> None:
    assert named(text) == kinds


@pytest.mark.parametrize(
    ("question", "both", "other"),
    [
        ("How long must recordings of a retail client's calls be kept?", ALIKE, "Calls of professional clients."),
        ("How long are a professional client's calls kept?", ALIKE, "Calls of retail clients are kept."),
        ("Must eligible counterparties be told?", "Retail clients and eligible counterparties.", "Retail clients."),
        ("What may a category A firm do?", "CM 9.1.1 R\nCategory A and B\nrely on it", "Category B only"),
        ("What may a category B firm do?", "CM 9.1.1 R\nCategory A and B\nrely on it", "Category A only"),
        ("Who signs the internal reconciliation?", "internal and external reconciliations", "external reconciliations"),
        ("Who signs the external reconciliation?", "internal and external reconciliations", "internal reconciliations"),
        ("Who files the annual return?", "the annual or quarterly returns", "the quarterly returns"),
    ],
)
def test_a_rule_for_both_answers_for_each_and_a_rule_for_the_other_does_not(
    question: str, both: str, other: str
) -> None:
    assert not mismatch(question, both)
    assert mismatch(question, other)


def test_an_article_after_category_is_no_letter() -> None:
    assert not mismatch("Who decides which category a firm falls in?", "A category B firm must ask the Authority.")


def test_a_modifier_before_the_noun_of_another_kind_names_none() -> None:
    assert not mismatch("May a retail client invest?", "Eligible clients may invest from MC 500.")


@pytest.mark.parametrize("run", ["retail, ", "retail ", "category a ", "category A, B, ", "A/B/"])
def test_a_long_run_of_kinds_without_an_end_takes_no_time(run: str) -> None:
    began = time.process_time()
    assert len(named(run * 10_000)) <= 2
    assert time.process_time() - began < 2
