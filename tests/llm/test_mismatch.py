import pytest

from service.llm.mismatch import mismatch


def test_a_rule_for_one_kind_of_client_is_no_answer_for_another() -> None:
    assert mismatch("Must it pay a professional client’s interest?", "A firm must pay a retail client all interest.")


def test_a_rule_that_names_several_kinds_answers_for_each() -> None:
    text = "Recordings are kept for retail clients and professional clients alike."
    assert not mismatch("How long are a professional client's calls kept?", text)


def test_a_rule_without_a_kind_answers_for_every_kind() -> None:
    assert not mismatch("Must a category A firm tell the Authority?", "A firm must tell the Authority within a day.")


@pytest.mark.parametrize(
    "question",
    [
        "What was the limit before 1 July 2031?",
        "What is the limit under the former rules?",
        "What did a firm have to pay in May 2030?",
    ],
)
def test_a_question_on_the_past_is_not_answered_by_a_rule_that_does_not_speak_of_it(question: str) -> None:
    assert mismatch(question, "The limit is MC 400. A firm waits until it can pay.")


def test_a_question_on_the_past_may_be_answered_by_a_rule_on_the_former_period() -> None:
    assert not mismatch("What was the period before 1 July 2031?", "Records keep the former period of four years.")
    assert not mismatch("What was the sum before 1 July 2031?", "Until 30 June 2031 the sum is MC 300,000.")


def test_a_date_that_has_not_passed_is_no_question_on_the_past() -> None:
    assert not mismatch("By when must the form for 2032 be filed?", "The form is filed within 20 business days.")


FINED = "On 3 May 2031 the Authority fined Vellmark MC 2,000,000."


@pytest.mark.parametrize(
    "question",
    [
        "Which firm was fined in 2031?",
        "How much was Vellmark fined in 2031?",
        "Who were members in 2030?",
        "Which firm was fined in 2031 for a breach of the rules on fees?",
        "Who was suspended in 2031 for charges that were too high?",
        "How long did a decision take on average when it was made in 2031?",
        "How many complaints were upheld in 2031?",
        "What penalty did Vellmark receive in 2031?",
    ],
)
def test_a_question_on_an_event_is_none_on_a_former_rule(question: str) -> None:
    assert not mismatch(question, FINED)


@pytest.mark.parametrize(
    "question",
    [
        "What was the limit in May 2030?",
        "How long did a firm keep its records in 2030?",
        "Which firms were required to file it in 2030?",
        "Did this apply to trusts in 2030?",
        "When was the return due in 2030?",
        "What did a category A firm pay for a connection in 2030?",
        "What was the levy in 2030?",
        "What was the penalty for a late return in 2030?",
        "Which capital ratio did a firm hold in 2030?",
    ],
)
def test_a_past_tense_with_a_year_and_a_word_of_rules_asks_for_a_former_rule(question: str) -> None:
    assert mismatch(question, "The limit is MC 400. A firm waits until it can pay.")
