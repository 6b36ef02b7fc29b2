"""What a machine can check of the labels. Whether a rule says what its case claims, only a reader can tell."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from evals.golden_set import CASES, KINDS, Case, count_by_kind, load_cases, load_golden
from evals.seed import QUESTIONS, Expected, fold, states
from service.knowledge.chunk import chunk_page
from service.knowledge.readers import SUFFIXES, read_page
from service.model import Passage
from service.sample import SAMPLE

FIELDS = {
    "id",
    "question",
    "history",
    "expected",
    "status",
    "facts",
    "forbidden",
    "tags",
    "split",
    "web_search",
    "skill",
    "why",
}
MARKS = {"any-of"}
UNASKED = {"index.html", "about.html"}  # a list of links, and how to read the rest
FUNCTION_WORDS = frozenset(["does", "over", "that", "when", "with", "from", "this", "they", "them", "into"])

golden = load_golden()
cases = load_cases(CASES)
each_case = pytest.mark.parametrize("case", golden, ids=lambda case: case.id)


@cache
def passages() -> dict[str, list[Passage]]:
    """The sample knowledge base as it is cut for the index, by address; words stand in for the model's tokens."""
    found: dict[str, list[Passage]] = defaultdict(list)
    for source in SAMPLE:
        for path in sorted(path for path in source.folder.rglob("*") if path.suffix in SUFFIXES):
            address = path.relative_to(source.folder).as_posix()
            found[address] += chunk_page(
                read_page(path.name, path.read_bytes()),
                source=source.name,
                kind=source.kind,
                address=address,
                sha256="",
                fetched_at="",
                count_tokens=lambda text: len(re.findall(r"\w+|[^\w\s]", text)),
                max_tokens=200,
            )
    return found


def passages_of(expected: Expected) -> list[Passage]:
    """All passages of the page that hold the words; a metric takes each of them for the one that answers."""
    return [passage for passage in passages()[expected.address] if expected.is_in(passage)]


def prints(passage: Passage, section: str) -> bool:
    """Whether the section is the passage's number or, for one definition among several, stands at its head."""
    return section == passage.section or (section != "" and section in passage.text)


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", fold(text))) - FUNCTION_WORDS


def repeated(items: Iterable[object]) -> list[object]:
    return [item for item, times in Counter(items).items() if times > 1]


def test_no_two_cases_share_an_id() -> None:
    assert repeated(case.id for case in golden) == []


def test_no_question_is_asked_twice_over_all_files() -> None:
    asked = []
    for path in sorted(CASES.parent.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        asked += [(fold(row["question"]), json.dumps(row.get("history", []))) for row in rows if "question" in row]
    assert repeated(asked) == []


def test_every_row_has_the_same_fields_and_says_why() -> None:
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    assert all(set(row) == FIELDS and row["why"].endswith(".") for row in rows)


@each_case
def test_every_expected_text_stands_once_on_its_page_and_at_its_section(case: Case) -> None:
    for expected in case.expected:
        (passage,) = passages_of(expected)
        assert prints(passage, expected.section)


@each_case
def test_every_fact_stands_in_an_expected_passage(case: Case) -> None:
    held = [passage.text for expected in case.expected for passage in passages_of(expected)]
    assert [fact for fact in case.facts if not any(states(text, fact) for text in held)] == []


@each_case
def test_no_fact_is_given_away_by_its_question(case: Case) -> None:
    assert [fact for fact in case.facts if fold(fact) in fold(case.question)] == []


@each_case
def test_what_is_forbidden_is_not_said_by_the_words_that_answer(case: Case) -> None:
    said = [fold(text) for text in (*case.facts, *(expected.text for expected in case.expected))]
    assert [wrong for wrong in case.forbidden if any(fold(wrong) in text for text in said)] == []


@each_case
def test_an_answered_case_has_a_passage_and_a_fact_and_a_refused_one_neither(case: Case) -> None:
    answered = case.status == "answered"
    assert case.status in ("answered", "refused")
    assert (bool(case.expected), bool(case.facts)) == (answered, answered)
    assert not (answered and {"unanswerable", "out-of-scope"} & set(case.tags))


@each_case
def test_tags_and_history_fit_the_kind(case: Case) -> None:
    assert case.kind in KINDS
    assert set(case.tags) <= set(KINDS) | MARKS
    assert ("follow-up" in case.tags) == bool(case.history)
    assert case.split in ("dev", "report")


@pytest.mark.parametrize("case", [c for c in cases if "multi-passage" in c.tags], ids=lambda case: case.id)
def test_a_multi_passage_case_takes_a_fact_from_each_of_its_passages(case: Case) -> None:
    assert len(case.expected) > 1
    for expected in case.expected:
        (passage,) = passages_of(expected)
        assert any(states(passage.text, fact) for fact in case.facts), expected


@pytest.mark.parametrize("case", [c for c in cases if c.any_of], ids=lambda case: case.id)
def test_where_any_passage_answers_each_holds_every_fact(case: Case) -> None:
    assert len(case.expected) > 1
    for expected in case.expected:
        (passage,) = passages_of(expected)
        assert all(states(passage.text, fact) for fact in case.facts), expected


@pytest.mark.parametrize("case", [c for c in cases if c.kind == "paraphrased"], ids=lambda case: case.id)
def test_a_paraphrase_shares_no_content_word_with_the_words_that_answer(case: Case) -> None:
    for expected in case.expected:
        assert content_words(case.question) & content_words(expected.text) == set()


def test_the_set_is_large_and_a_third_of_the_new_cases_is_kept_for_reports() -> None:
    splits = Counter(case.split for case in cases)
    assert len(golden) >= 150
    assert splits["dev"] == 2 * splits["report"]


def test_every_kind_has_cases_in_both_halves() -> None:
    counts = count_by_kind(golden)
    small = {
        kind: halves for kind, halves in counts.items() if kind != "notes" and halves["dev"] + halves["report"] < 7
    }
    assert small == {}
    assert [
        kind for kind, halves in counts.items() if kind != "notes" and not (halves["dev"] and halves["report"])
    ] == []


def test_every_page_is_asked_about_in_both_halves() -> None:
    asked = {split: {e.address for c in golden if c.split == split for e in c.expected} for split in ("dev", "report")}
    pages = {address for address in passages() if address.endswith(".html")} - UNASKED
    assert {split: pages - addresses for split, addresses in asked.items()} == {"dev": set(), "report": set()}


def test_every_note_is_asked_about_or_is_the_trap_of_a_case() -> None:
    expected = {e.address for case in golden for e in case.expected}
    traps = [fold(wrong) for case in golden for wrong in case.forbidden]
    for address in (address for address in passages() if address.endswith(".md")):
        text = fold(" ".join(passage.text for passage in passages()[address]))
        assert address in expected or any(trap in text for trap in traps), address


def test_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    first = QUESTIONS.read_text(encoding="utf-8").splitlines()[0]
    path.write_text(first + "\n{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"more\.jsonl, line 2: the field 'id' is missing"):
        load_cases(path)
    path.write_text(first + "\n\n{\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"more\.jsonl, line 3: not JSON"):
        load_cases(path)
