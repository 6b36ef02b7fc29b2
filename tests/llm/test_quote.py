"""Quote says only what its sources say, or nothing."""

from collections.abc import Sequence
from typing import cast

import pytest

from service.citations.grounding import missing_quotations
from service.citations.quotes import check
from service.llm.quote import Quote, Thresholds
from service.model import ABSTAIN, Source, Turn
from service.usage import Usage
from tests.fakes import FixedReranker, passage

RULES = [
    Source(
        1, passage(1, "A firm must reconcile each day.\nThe MFCA may ask for the “record” at any time it chooses."), 0.9
    ),
    Source(4, passage(2, "CM 2.1 R A firm must keep\u00a0the record for five years after the end of the matter."), 0.8),
]


def quoting(relevant: float = 0.3, score: float = 0.5) -> Quote:
    return Quote(FixedReranker(lambda *_: score), Thresholds(relevant, relevant))


async def written(quote: Quote, question: str, sources: Sequence[Source] = RULES) -> str:
    return "".join([text async for text in quote.answer(question, sources, "", Usage())])


async def test_every_sentence_is_verbatim_in_quotation_marks_and_cited() -> None:
    answer = await written(quoting(), "How long must a firm keep the record?")
    drafts = check(answer, RULES)
    assert drafts
    assert all(draft.status == "verified" for draft in drafts)
    assert "for five years after the end" in answer
    assert "[[4]]" in answer


CAPITAL = "Your capital is at risk and you may lose all of it."
TERMS = "Read the terms with care before you sign anything at all in this office."


@pytest.mark.parametrize(
    "text",
    [
        f"The notice that a firm sends to each of its clients must say: “{CAPITAL} {TERMS}”",
        f'The notice that a firm sends to each of its clients must say: "{CAPITAL} {TERMS}"',
        f"The notice that a firm sends to each of its clients must say: «{CAPITAL} {TERMS}»",
        f"The firm keeps a copy of it. The notice that it sends says of “capital risk. {TERMS}”",
        f"It must say: “{CAPITAL} Read it.” The firm keeps a copy of the notice for five years after that day.",
    ],
)
@pytest.mark.parametrize("part", ["capital", "Read"])
async def test_a_sentence_with_one_quotation_mark_of_a_pair_is_verbatim_too(text: str, part: str) -> None:
    scorer = FixedReranker(lambda _, said: 0.9 if part in said else 0.5)
    found = [Source(1, passage(1, text), 0.9)]
    answer = await written(Quote(scorer, Thresholds(quotes=1)), "What must the notice say?", found)
    assert part in answer
    assert [draft.status for draft in check(answer, found)] == ["verified"]
    assert missing_quotations(answer, found) == []


async def test_it_abstains_when_all_that_could_be_quoted_looks_like_a_marker_of_ours() -> None:
    source = Source(1, passage(1, "The record is kept for five years, see [[3]] of the schedule to these rules."), 0.9)
    assert await written(quoting(), "How long must a firm keep the record?", [source]) == ABSTAIN


async def test_a_passage_far_behind_the_best_one_is_not_quoted() -> None:
    scorer = FixedReranker(lambda _, text: 0.9 if "five years" in text else 0.1)
    near, far = Thresholds(margin=1.0), Thresholds(margin=0.5)
    assert "[[1]]" in await written(Quote(scorer, near), "How long must a firm keep the record?")
    assert "[[1]]" not in await written(Quote(scorer, far), "How long must a firm keep the record?")


async def test_its_answers_gate_reads_the_quoted_passage_and_not_what_stands_beside_it() -> None:
    scorer = FixedReranker(lambda _, text: 0.9 if "five years" in text else 0.1)
    quote = Quote(scorer, Thresholds(answers=0.5))
    assert (
        await quote.judge_answers("How long must the record be kept?", "“…” [[4]]", RULES, Usage())
    ).result == "pass"
    assert (
        await quote.judge_answers("How long must the record be kept?", "“…” [[1]]", RULES, Usage())
    ).result == "fail"
    assert (
        await quote.judge_answers("How long must the record be kept?", "no citation", RULES, Usage())
    ).result == "fail"


@pytest.mark.parametrize("question", ["hello", "y", "?a", "and of the"])
async def test_a_question_that_names_nothing_is_not_answered_however_high_the_score(question: str) -> None:
    quote = quoting(score=1.0)
    assert [g.result for g in await quote.grade(question, [RULES[0].passage], Usage())] == ["fail"]
    assert (await quote.judge_answers(question, "“…” [[1]]", RULES, Usage())).result == "fail"


@pytest.mark.parametrize("question", ["purple elephants", "zebra umbrella?", "what about the walrus"])
async def test_two_words_that_stand_in_no_passage_find_none_however_high_the_score(question: str) -> None:
    [grade] = await quoting(score=1.0).grade(question, [RULES[1].passage], Usage())
    assert grade.result == "fail"


async def test_a_paraphrase_that_shares_no_word_is_left_to_the_score() -> None:
    question = "When may papers about past trades be thrown away?"
    [grade] = await quoting(score=1.0).grade(question, [RULES[1].passage], Usage())
    assert grade.result == "pass"


DATED = "Page last updated 17 October 2031."


@pytest.mark.parametrize(
    ("question", "quoted"), [("How long must a firm keep the record?", False), ("When was this page updated?", True)]
)
async def test_the_line_that_dates_a_page_is_quoted_only_to_a_question_about_it(question: str, quoted: bool) -> None:
    scorer = FixedReranker(lambda _, text: 0.9 if "2031" in text else 0.5)
    rule = "The record must be kept by the firm for five years after the day on which it was made."
    answer = await written(Quote(scorer), question, [Source(1, passage(1, f"{rule}\n{DATED}"), 0.9)])
    assert (DATED in answer) is quoted


async def test_a_single_word_finds_its_passages_but_no_answer() -> None:
    quote = quoting(score=1.0)
    assert [g.result for g in await quote.grade("records?", [RULES[1].passage], Usage())] == ["pass"]
    assert (await quote.judge_answers("records?", "“…” [[4]]", RULES, Usage())).result == "fail"


async def test_a_rule_for_another_kind_of_client_is_graded_away_with_the_reason() -> None:
    rule = passage(3, "A firm must send a retail client a statement once in each quarter.")
    grades = await quoting(score=1.0).grade("How often does a professional client get a statement?", [rule], Usage())
    assert grades[0].result == "fail"
    assert "retail client" in grades[0].words


async def test_it_grades_by_evidence_and_says_what_was_missing() -> None:
    grades = await quoting().grade("How long to keep Form X-9?", [RULES[1].passage], Usage())
    assert grades[0].result == "fail"
    assert "x-9" in grades[0].words
    grades = await quoting().grade("How long must the record be kept?", [RULES[1].passage], Usage())
    assert grades[0].result == "pass"


async def test_its_grounded_gate_is_a_verbatim_check() -> None:
    answer = await written(quoting(), "How long must a firm keep the record?")
    said = await quoting().judge_grounded("", answer, RULES, Usage())
    assert said.result == "pass"
    said = await quoting().judge_grounded("", answer.replace("five", "six"), RULES, Usage())
    assert said.result == "fail"


async def test_no_model_call_is_counted() -> None:
    usage = Usage()
    quote = quoting()
    await quote.grade("q", [RULES[0].passage], usage)
    await quote.judge_answers("q", "a", RULES, usage)
    assert usage.model_calls == 0


def turn(standalone: str) -> Turn:
    return cast(Turn, {"standalone": standalone})


@pytest.mark.parametrize(
    ("before", "question", "rule"),
    [
        ("When is the quarterly return due?", "And the annual one?", "The annual return is due within 80 days."),
        (
            "When must a category A firm file its quarterly return on Form PR-1?",
            "What is client money?",
            "Client money is money that a firm holds for a client.",
        ),
        (
            "How are calls of a retail client kept in 2031?",
            "And what about the statements?",
            "A professional client gets a statement.",
        ),
    ],
)
async def test_a_passage_need_not_hold_what_only_the_turn_before_named(before: str, question: str, rule: str) -> None:
    quote = quoting(score=1.0)
    standalone = await quote.condense([turn(before)], question, Usage())
    [grade] = await quote.grade(standalone, [passage(3, rule)], Usage())
    assert grade.result == "pass"


async def test_a_passage_must_hold_what_the_follow_up_itself_names() -> None:
    quote = quoting(score=1.0)
    standalone = await quote.condense([turn("When is Form PR-1 due?")], "And Form PR-2?", Usage())
    [grade] = await quote.grade(standalone, [passage(3, "Form PR-1 is due within 20 business days.")], Usage())
    assert "pr-2" in grade.words


@pytest.mark.parametrize("question", ["Is there a 14-day period to cancel?", "Is there a period of 14 days to cancel?"])
@pytest.mark.parametrize("rule", ["A client may cancel within 14 days.", "It tells the client of the 14-day period."])
async def test_a_figure_is_found_however_its_unit_is_joined_to_it(question: str, rule: str) -> None:
    [grade] = await quoting(score=1.0).grade(question, [passage(3, rule)], Usage())
    assert grade.result == "pass"


async def test_another_figure_with_the_same_unit_is_another_rule() -> None:
    rule = passage(3, "It tells the client of the 30-day period to cancel.")
    [grade] = await quoting(score=1.0).grade("Is there a 14-day period to cancel?", [rule], Usage())
    assert grade.words == "does not name 14"


async def test_the_unit_that_holds_the_figure_asked_for_is_quoted_with_its_unit_joined() -> None:
    rule = (
        "A client may cancel a distance contract within the 14-day period that follows its conclusion.\n"
        "A client may cancel a pension contract within the 30-day period that follows its conclusion."
    )
    answer = await written(quoting(score=1.0), "What is cancelled within 30 days?", [Source(1, passage(1, rule), 0.9)])
    assert "pension" in answer
