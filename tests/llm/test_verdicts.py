"""What is believed of a grader's text, case by case."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.llm.verdicts import (
    ANSWERS_SCHEMA,
    BATCH_SCHEMA,
    GRADE_SCHEMA,
    GROUNDED_SCHEMA,
    MAX_LINE,
    Doubt,
    grade_of,
    grades_of,
    judgement_of,
    one_line,
    one_object,
)
from service.model import Grade, Judgement, Verdict, is_down

BELIEVED = {
    "bare": '{"relevant": "yes"}',
    "fenced": '```json\n{"relevant": "yes"}\n```',
    "fenced without a language": '```\n{"relevant":"yes"}\n```',
    "prose around": 'Sure! {"relevant": "yes"} hope that helps',
    "capitals and blanks": '{"relevant": " YES "}',
    "blank lines": '\n\n {"relevant":\n"yes"}\n',
    "further keys": '{"confidence": 0.4, "relevant": "yes", "reason": "r"}',
    "a brace in a string": '{"reason": "the set {a} is meant", "relevant": "yes"}',
    "a closing brace after": '{"relevant": "yes"}}',
}
DOUBTED = {
    "D15 cut": '{"relevant":"ye',
    "D15 bare word": "yes",
    "D15 boolean": '{"relevant":true}',
    "D15 number": '{"relevant":1}',
    "D15 a full stop": '{"relevant":"Yes."}',
    "D15 empty object": "{}",
    "D15 list": "[]",
    "D15 nothing": "",
    "D15 refusal": "I cannot help",
    "D15 two objects": '{"relevant":"yes"}{"relevant":"no"}',
    "D15 blanks": " " * 200_000,
    "U25 a score": "Score: 0 (out of 2)",
    "U25 a score in an object": '{"relevant": "0 out of 2"}',
    "U25 a score in prose": "I give it a 2: fully relevant.",
    "two alike": '{"relevant":"yes"} {"relevant":"yes"}',
    "one in a list": '[{"relevant": "yes"}]',
    "nested": '{"verdict": {"relevant": "yes"}}',
    "a doubled key": '{"relevant": "no", "relevant": "yes"}',
    "braces in prose before": 'Given {this}: {"relevant": "yes"}',
    "null": '{"relevant": null}',
    "a list of words": '{"relevant": ["yes"]}',
    "another word": '{"relevant": "maybe"}',
    "another key": '{"grade": "yes"}',
    "not a number": '{"relevant": "yes", "score": NaN}',
    "single quotes": "{'relevant': 'yes'}",
    "a trailing comma": '{"relevant": "yes",}',
    "a reason that is no text": '{"relevant": "yes", "reason": {"a": 1}}',
    "too long": '{"relevant": "yes", "reason": "' + "x" * 100_000 + '"}',
}


def grade(text: str) -> Grade:
    return grade_of(one_object(text))


@pytest.mark.parametrize("text", BELIEVED.values(), ids=BELIEVED.keys())
def test_one_plain_object_is_believed(text: str) -> None:
    assert grade(text).result == "pass"


@pytest.mark.parametrize("text", DOUBTED.values(), ids=DOUBTED.keys())
def test_anything_else_is_doubted(text: str) -> None:
    """D15, U25: no text is searched for a word or a number that would do."""
    with pytest.raises(Doubt) as doubt:
        grade(text)
    assert doubt.value.words.startswith("unparsable: ")


def test_no_is_a_fail_and_not_an_error() -> None:
    assert grade('{"relevant": "no", "reason": "Another period."}') == Grade("fail", "Another period.")


@pytest.mark.parametrize("key", ["supported", "answers"])
def test_yes_is_good_in_both_judges(key: str) -> None:
    assert judgement_of({key: "yes", "problem": ""}, key) == Judgement("pass", "")
    assert judgement_of({key: "no", "problem": "p"}, key) == Judgement("fail", "p")


@pytest.mark.parametrize(
    "text",
    [
        " " * 100_000,
        "{" * 100_000,
        "[" * 100_000,
        '{"a":' * 20_000,
        '{"relevant":' + "[" * 90_000,
        "{}" * 50_000,
        '{"relevant": "' + '\\"' * 49_000,
        '{"relevant": ' + "9" * 99_000 + "}",
    ],
)
def test_hostile_text_is_doubted_at_once(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(Doubt):
        grade(text)
    # A quadratic reading of these takes a processor many seconds; a linear one about a millisecond.
    assert time.thread_time() - began < 4


@given(st.text(max_size=200))
def test_no_text_raises_anything_but_doubt(text: str) -> None:
    try:
        believed = grade(text)
    except Doubt:
        return
    assert believed.result in ("pass", "fail")


@given(st.integers(min_value=0, max_value=38))
def test_every_cut_of_a_yes_is_doubted(length: int) -> None:
    whole = '{"relevant": "yes", "reason": "short"}'
    assert len(whole) == 38
    if length == 38:
        assert grade(whole).result == "pass"
        return
    with pytest.raises(Doubt):
        grade(whole[:length])


def test_the_judges_words_are_one_clean_bounded_line() -> None:
    words = grade('{"relevant": "no", "reason": "a\\nb\\u0000c \\ud800 ' + "x" * 2000 + '"}').words
    assert words.startswith("a bc x")
    assert len(words) <= 500
    assert words.encode("utf-8")


# Batches


def batch(*entries: object, count: int = 2) -> list[str]:
    return [graded.result for graded in grades_of({"grades": list(entries)}, count)]


def entry(index: object, relevant: object = "yes") -> dict[str, object]:
    return {"index": index, "relevant": relevant, "reason": ""}


def test_a_batch_is_read_by_index_not_by_order() -> None:
    assert batch(entry(2, "no"), entry(1, "yes")) == ["pass", "fail"]


def test_a_short_list_is_an_error_for_what_it_lacks() -> None:
    assert batch(entry(1), count=3) == ["pass", "error", "error"]
    assert batch() == ["error", "error"]


def test_a_doubled_index_is_an_error_for_its_passage() -> None:
    assert batch(entry(1), entry(1), entry(2)) == ["error", "pass"]
    assert batch(entry(1, "yes"), entry(1, "no"), entry(2)) == ["error", "pass"]


def test_a_bad_word_is_an_error_for_its_passage() -> None:
    assert batch(entry(1, True), entry(2)) == ["error", "pass"]


@pytest.mark.parametrize("index", [0, 3, -1, True, "1", 1.0, None])
def test_an_index_that_names_no_passage_throws_doubt_on_the_whole_batch(index: object) -> None:
    with pytest.raises(Doubt):
        batch(entry(1), entry(index))


@pytest.mark.parametrize("found", [{}, {"grades": {}}, {"grades": "yes"}, {"grades": ["yes"]}, {"grades": [[]]}])
def test_a_batch_that_is_no_list_of_entries_is_doubted(found: dict[str, object]) -> None:
    with pytest.raises(Doubt):
        grades_of(found, 2)


def test_a_model_counting_from_zero_passes_nothing() -> None:
    with pytest.raises(Doubt):
        batch(entry(0, "no"), entry(1, "yes"))


# Lines, codes and schemas


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("What is a prompt payment?", "What is a prompt payment?"),
        ("  What\nis\t it? ", "What is it?"),
        ('"What is it?"', "What is it?"),
        ("", "otherwise"),
        ('""', "otherwise"),
        ("\x00\x07", "otherwise"),
        ("x" * MAX_LINE, "x" * MAX_LINE),
        ("x" * (MAX_LINE + 1), "otherwise"),
        (" " * 200_000, "otherwise"),
        ("x" + " " * 5000 + "y", "otherwise"),
    ],
)
def test_a_line_is_taken_whole_or_not_at_all(text: str, line: str) -> None:
    assert one_line(text, "otherwise") == line


def test_only_an_api_that_is_down_for_every_passage_or_draft_is_down() -> None:
    down, cut, good = Grade("error", "unavailable: x"), Grade("error", "cut: max_tokens"), Grade("pass", "")
    assert is_down([down, down])
    assert not is_down([down, cut])
    assert not is_down([down, good])
    assert not is_down([Grade("fail", "unavailable: so says the judge")])
    assert not is_down([])
    assert is_down([Verdict("grounded", "error", "not_assessed", "unavailable: x")])


@pytest.mark.parametrize("schema", [GRADE_SCHEMA, BATCH_SCHEMA, GROUNDED_SCHEMA, ANSWERS_SCHEMA])
def test_a_schema_asks_for_every_field_and_no_other(schema: dict[str, object]) -> None:
    assert schema["additionalProperties"] is False
    assert isinstance(schema["properties"], dict)
    assert schema["required"] == list(schema["properties"])
