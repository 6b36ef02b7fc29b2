"""What Quote does with words alone."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.llm.lexical import carry_topic, coverage, enrich, figures, is_follow_up, names, own_words, terms, units
from tests.fakes import passage


@pytest.mark.parametrize(
    "question",
    [
        "What about joint accounts?",
        "And for category B?",
        "Does it apply to trusts?",
        "How long is that?",
        "Why?",
        "Is it the same if the provider is our sister company?",
    ],
)
def test_a_question_that_leans_on_the_turn_before_is_a_follow_up(question: str) -> None:
    assert is_follow_up(question)


@pytest.mark.parametrize(
    "question",
    [
        "How often must a firm reconcile its client money records?",
        "Which documents identify a trust under standard due diligence?",
        "When must a complaint be answered, and what must the letter say about the Ombuds Office?",
        "Must a firm tell a retail client when it changes the terms that apply to them?",
    ],
)
def test_a_question_that_names_its_topic_stands_alone(question: str) -> None:
    assert not is_follow_up(question)


def test_the_topic_of_the_turn_before_is_carried_without_repeating_what_was_said() -> None:
    carried = carry_topic("How often must a firm reconcile client money?", "What about client accounts?")
    assert carried == "What about client accounts? (firm reconcile money)"


def test_a_rewrite_adds_the_words_of_the_headings_that_came_back() -> None:
    rewritten = enrich("cash of customers", "cash of customers", [passage(1), passage(2)])
    assert rewritten.startswith("cash of customers ")
    assert "rulebook" in rewritten


def test_words_that_are_equally_common_are_added_in_the_order_of_the_text() -> None:
    seen = [replace(passage(1), context="zulu yankee xray whisky victor uniform tango sierra romeo quebec")]
    assert enrich("cash", "cash", seen) == "cash zulu yankee xray whisky victor uniform"


def test_words_that_differ_only_in_their_ending_count_as_covered() -> None:
    assert coverage("Which firms reconcile accounts?", "A firm reconciled its account.") == 1.0
    assert coverage("Which firms reconcile accounts?", "Nothing of the kind.") == 0.0
    assert coverage("and of the", "anything") == 0.0


def test_figures_dates_and_identifiers_are_names() -> None:
    assert names("Is Form OUT-2 due before 1 July 2031, or MC 15,000 short?") == {"out-2", "1", "2031", "15", "000"}


def test_a_citation_mark_in_a_question_names_no_figure() -> None:
    assert names("What does [[1]] say of 2031?") == {"2031"}


@given(st.text(max_size=600))
def test_units_cover_every_character_that_is_not_white_space(text: str) -> None:
    cut = units(text)
    assert all(start < end for start, end in cut)
    assert all(first[1] <= second[0] for first, second in pairwise(cut))
    covered = "".join(text[start:end] for start, end in cut)
    assert "".join(covered.split()) == "".join(text.split())


def test_a_lead_in_stays_with_the_items_it_introduces() -> None:
    items = "(a) keep a record of each transfer;\n(b) tell the client."
    text = f"A firm must:\n{items}\nThe MFCA may ask for the record and a firm must send it within two business days."
    first, *rest = [text[start:end] for start, end in units(text)]
    assert first.startswith("A firm must:")
    assert first.endswith("(b) tell the client.")
    assert len(rest) == 1


def test_terms_leave_out_words_that_carry_no_meaning() -> None:
    assert terms("What must the firms have done?") == ["firm"]


def test_what_is_carried_is_no_word_of_the_person() -> None:
    carried = carry_topic("When is the quarterly return due?", "And the one for 2031?")
    assert carried.endswith(" (quarterly return due)")
    assert own_words(carried) == "And the one for 2031?"


@pytest.mark.parametrize(
    "question", ["When must a firm file its prudential return (form pr-1)?", "And the other form (PR-1)", "And (why)?"]
)
def test_a_bracket_of_the_persons_own_is_their_words(question: str) -> None:
    assert own_words(question) == question


def test_a_kind_that_the_follow_up_replaces_is_not_carried() -> None:
    assert carry_topic("When is the quarterly return due?", "And the annual one?") == "And the annual one? (return due)"


@pytest.mark.parametrize(
    ("previous", "question", "carried"),
    [
        ("When may a firm leave the growth market?", "And the main exceptions?", "may firm leave growth market"),
        ("What must a retail client be told?", "Who is eligible?", "retail client told"),
    ],
)
def test_a_kind_that_the_follow_up_does_not_replace_is_carried(previous: str, question: str, carried: str) -> None:
    assert carry_topic(previous, question) == f"{question} ({carried})"


@pytest.mark.parametrize(
    "question",
    [
        "And annual?",
        "Or the annual?",
        "What about annual ones?",
        "And for an annual\nreturn?",
        "And the annual returns?",
    ],
)
def test_a_kind_before_its_noun_or_at_the_end_replaces_its_siblings(question: str) -> None:
    assert "quarterly" not in carry_topic("When is the quarterly return due?", question)


@pytest.mark.parametrize(
    "question",
    ["And if it turns out to be only significant?", "What if it turns out to be minor?", "If classed as significant?"],
)
def test_a_kind_that_the_thing_turns_out_to_be_replaces_its_siblings(question: str) -> None:
    assert "major" not in carry_topic("When must a major operational incident be first reported?", question)


@pytest.mark.parametrize("question", ["And the deadline?", "And the main exceptions?", "What about late payment?"])
def test_a_figure_is_carried_where_the_follow_up_names_nothing_in_its_place(question: str) -> None:
    assert carry_topic("What is the fee for Form PR-1?", question) == f"{question} (fee form pr-1)"


def test_a_figure_is_not_carried_to_a_question_for_the_meaning_of_something_else() -> None:
    assert not is_follow_up("What is client money?")
    assert carry_topic("What is the fee for Form PR-1?", "And what is client money?").endswith(" (fee form)")


def test_a_figure_is_carried_only_where_the_follow_up_names_none_and_no_other_name() -> None:
    assert carry_topic("What is the fee for Form PR-1?", "How is it paid?") == "How is it paid? (fee form pr-1)"
    assert carry_topic("What is the fee for Form PR-1?", "And why?") == "And why? (fee form pr-1)"
    assert carry_topic("What is the fee for Form PR-1?", "And for Form CA?") == "And for Form CA? (fee)"
    assert carry_topic("What is the fee for Form PR-1?", "Is it the same for PR-2?").endswith(" (fee form)")


@pytest.mark.parametrize(
    "question",
    [
        "What is client money?",
        "What is a trust?",
        "What does market abuse mean?",
        "Why must records of calls be kept for five years?",
        "So when must a category B firm file its annual return?",
        "Why must a firm keep its records?",
        "Okay, what is client money?",
        "Ok, so what is a trust?",
        "What are own funds?",
    ],
)
def test_a_question_that_opens_like_a_follow_up_and_names_its_topic_stands_alone(question: str) -> None:
    assert not is_follow_up(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is the limit?",
        "What is due?",
        "What is that one?",
        "Why not?",
        "So how long?",
        "So what is required?",
        "Ok, why?",
    ],
)
def test_a_question_that_opens_like_one_and_names_no_topic_of_its_own_is_a_follow_up(question: str) -> None:
    assert is_follow_up(question)


def test_a_question_of_openings_alone_is_a_follow_up_however_many_there_are() -> None:
    assert is_follow_up("ok " * 1200)
    assert is_follow_up("So, why, okay? " * 4000)


@pytest.mark.parametrize("filling", [" ", "-", "mean ", " mean  ", "so ", "?"])
def test_a_long_question_that_opens_like_a_definition_takes_no_time(filling: str) -> None:
    began = time.process_time()
    for opening in ("What is a", "What does", "So what does a"):
        is_follow_up(f"{opening} {filling * 20_000}?x")
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Is there a 14-day period to cancel?", {"14"}),
        ("within a 25-business-day or 24-hour limit", {"25", "24"}),
        ("a 10.5-hour day", {"10.5"}),
        ("2031’s rules, Form OUT-2's fee", {"2031", "out-2"}),
        ("from the 1st of July", {"1"}),
        ("Form 10-K for 2031-Q1 under 4.2-b", {"10-k", "2031-q1", "4.2-b"}),
        ("OUT-2, CM 4.2.3, PR-1, 2031-07-01 and 15a", {"out-2", "4.2.3", "pr-1", "2031-07-01", "15a"}),
    ],
)
def test_a_figure_is_the_same_with_its_unit_joined_to_it(text: str, found: set[str]) -> None:
    assert names(text) == found
    assert figures(text) == found


@pytest.mark.parametrize(
    "question",
    [
        "1. How long are calls kept? 2. Who keeps them in 2031?",
        "1) How long are calls kept?\n2) Who keeps them in 2031?",
        "(1) How long are calls kept? (2) Who keeps them in 2031?\n (3) Why?",
        "Tell me this.\n 1: How long are calls kept.\n 2: Who keeps them in 2031?",
    ],
)
def test_the_number_of_an_item_is_no_figure_that_a_question_names(question: str) -> None:
    assert names(question) == {"2031"}
    assert "1" in figures(question)


def test_a_number_that_ends_a_sentence_is_a_figure() -> None:
    assert names("Is it done by day 10. And by whom?") == {"10"}
    assert names("4.2.3 says what?") == {"4.2.3"}
