import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.__main__ import app
from evals.obliqa import Asked, Rule, grouped, load_asked, load_rules, read, two_thirds
from evals.obliqa_run import (
    SOURCE,
    Ranked,
    Read,
    as_row,
    fill,
    kept_in,
    known_of,
    measures,
    read_ranked,
    read_split,
    run,
)
from service.settings import Settings
from service.store import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "documents").mkdir()
    rows = [
        {"DocumentID": 7, "PassageID": "4", "Passage": "HARBOUR DUES"},
        {"DocumentID": 7, "PassageID": "4.2", "Passage": "Time of payment"},
        {"DocumentID": 7, "PassageID": "4.2.1", "Passage": "A master must pay the dues before the ship sails."},
        {"DocumentID": 7, "PassageID": "4.2.2", "Passage": "  "},
    ]
    (tmp_path / "documents" / "7.json").write_text(json.dumps(rows))
    asked = {"QuestionID": "q1", "Question": "When are dues paid?", "Passages": [rows[2]]}
    (tmp_path / "ObliQA_dev.json").write_text(json.dumps([asked]))
    return tmp_path


def test_a_rule_carries_the_headings_above_its_number(folder: Path) -> None:
    assert load_rules(folder)[2].context == "HARBOUR DUES > Time of payment > 4.2.1"


def test_a_passage_without_text_is_left_out(folder: Path) -> None:
    assert [rule.key for rule in load_rules(folder)] == [(7, "4"), (7, "4.2"), (7, "4.2.1")]


def test_a_question_knows_the_passages_that_answer_it(folder: Path) -> None:
    assert load_asked(folder, "dev") == [Asked("q1", "When are dues paid?", frozenset({(7, "4.2.1")}))]


def questions(*answers: str) -> list[Asked]:
    return [Asked(str(i), "?", frozenset((1, letter) for letter in text)) for i, text in enumerate(answers)]


def test_questions_that_share_a_passage_over_a_third_question_are_one_group() -> None:
    assert [[q.id for q in group] for group in grouped(questions("ab", "cd", "bc", "e"))] == [["0", "1", "2"], ["3"]]


def test_no_passage_answers_on_both_sides_of_the_split() -> None:
    asked = questions(*[f"{chr(97 + i % 20)}{chr(97 + (i * 7) % 20)}" for i in range(8)], *"klmnopqrst")
    taken, kept = two_thirds(asked)
    assert {key for q in taken for key in q.answers}.isdisjoint(key for q in kept for key in q.answers)
    assert len(taken) + len(kept) == len(asked)


def test_the_full_pipelines_measures_are_those_of_both_ranks_combined() -> None:
    ranked = [Ranked("q", ["a", "b", "c"], [0.1, 0.2, 0.9], ["c"]), Ranked("r", ["a", "b"], [0.9, 0.1], ["z"])]
    found = measures(ranked, 3, "here")
    assert found["recall@10"] == found["ablation"]["both combined"]["recall@10"] == 0.5
    assert found["candidates_recall"] == 0.5
    assert found["ablation"]["reranker alone"]["map@10"] == 0.5


def test_a_line_that_was_cut_off_is_ranked_again(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    path.write_text('{"id": "q", "question": "?", "found": ["a"], "scores": [0.5]}\n{"id": "r", "fou')
    assert list(read_ranked(path)) == [("q", "?")]


ASKED = Asked("q", "When are dues paid?", frozenset({(7, "4.2")}))


def test_a_kept_row_counts_for_the_same_question_alone_and_under_the_labels_of_today(tmp_path: Path) -> None:
    path = tmp_path / "ranked.jsonl"
    path.write_text(json.dumps(as_row(ASKED, Ranked("q", ["7/4", "7/4.2"], [0.5, 0.1], ["7/4.2"]))))
    known = read_ranked(path)
    assert known_of(ASKED, known) == Ranked("q", ["7/4", "7/4.2"], [0.5, 0.1], ["7/4.2"])
    assert known_of(replace(ASKED, question="Who pays dues?"), known) is None
    relabelled = known_of(replace(ASKED, answers=frozenset({(7, "4")})), known)
    assert relabelled is not None
    assert relabelled.relevant() == {0}


def test_rows_are_kept_apart_for_other_documents_and_models(tmp_path: Path) -> None:
    rule = Rule((7, "4"), "HARBOUR DUES", "A master must pay.")
    sets = [[rule], [], [replace(rule, text="A master pays.")], [replace(rule, key=(8, "4"))], [rule, rule]]
    paths = [kept_in(tmp_path, "models", rules) for rules in sets] + [kept_in(tmp_path, "others", [rule])]
    assert len(set(paths)) == 6
    assert kept_in(tmp_path, "models", [replace(rule)]) == paths[0]


def rewrite(file: str, content: object) -> Callable[[Path], object]:
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda folder: (folder / file).write_text(text)


def drop(file: str) -> Callable[[Path], object]:
    return lambda folder: (folder / file).unlink()


DOCUMENT, QUESTIONS = "documents/7.json", "ObliQA_dev.json"
ELSEWHERE = [{"QuestionID": "q1", "Question": "?", "Passages": [{"DocumentID": 8, "PassageID": "1"}]}]
BROKEN = {
    "no documents": (drop(DOCUMENT), r"documents holds no \*\.json.*DIR must hold"),
    "no questions": (drop(QUESTIONS), r"There is no ObliQA_dev\.json.*DIR must hold"),
    "broken document": (rewrite(DOCUMENT, "[{"), r"7\.json: Invalid JSON.*DIR must hold"),
    "broken questions": (rewrite(QUESTIONS, "[{"), r"ObliQA_dev\.json: Invalid JSON"),
    "a document without rows": (rewrite(DOCUMENT, []), r"7\.json: List should have at least 1 item"),
    "an object for rows": (rewrite(QUESTIONS, {}), r"ObliQA_dev\.json: Input should be a valid array"),
    "a row without fields": (rewrite(DOCUMENT, [{"DocumentID": 7}]), r"7\.json: \[0\]\.PassageID: Field required"),
    "a question without fields": (rewrite(QUESTIONS, [{}]), r"\[0\]\.QuestionID: Field required"),
    "a question without an answer": (rewrite(QUESTIONS, [ELSEWHERE[0] | {"Passages": []}]), r"\[0\]\.Passages: List"),
    "another file among the documents": (rewrite("documents/notes.json", []), r"notes\.json is named after no"),
    "no text": (rewrite(DOCUMENT, [{"DocumentID": 7, "PassageID": "4", "Passage": " "}]), "has any text"),
    "the answers of other documents": (rewrite(QUESTIONS, ELSEWHERE), r"passage '1' of document 8"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("command", ["obliqa", "ablation"])
def test_a_folder_that_cannot_be_read_is_a_usage_error_before_any_model_is_loaded(
    folder: Path, case: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loads(*_: object, **__: object) -> None:
        raise AssertionError("a model or the store was opened")

    monkeypatch.setattr("evals.obliqa_run.open_store", loads)
    monkeypatch.setattr("evals.ablation.passage_vectors", loads)
    spoil, said = BROKEN[case]
    spoil(folder)
    with pytest.raises(ValueError, match=said):
        read(folder, "dev", whole=False)
    assert CliRunner().invoke(app, [command, str(folder)]).exit_code == 2


def test_a_missing_folder_and_a_missing_split_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="There is no folder"):
        read(folder / "none", "dev")
    with pytest.raises(ValueError, match="It holds these splits: dev"):
        read(folder, "nosuch")


def test_an_answer_that_no_document_holds_is_refused_where_every_answer_is_needed(folder: Path) -> None:
    rows = json.loads((folder / QUESTIONS).read_text())
    rewrite(QUESTIONS, [*rows, *ELSEWHERE])(folder)
    assert len(read(folder, "dev", whole=False)[1]) == 2
    with pytest.raises(ValueError, match="1 of the answers"):
        read(folder, "dev")


@pytest.mark.slow
async def test_a_second_run_ranks_and_stores_nothing_anew(folder: Path, tmp_path: Path) -> None:
    settings = Settings(DATA_DIR=tmp_path / "data", RERANKER_MODEL="keep-order", TORCH_THREADS=1)
    first: list[str] = []
    found = await run(read_split(folder, "dev"), settings, first.append)
    again: list[str] = []
    assert await run(read_split(folder, "dev"), settings, again.append) == found
    assert found["recall@10"] == 1
    assert any(line.startswith("document 7") for line in first)
    assert not any(line.startswith("document 7") for line in again)


@pytest.mark.slow
async def test_what_an_earlier_run_found_in_other_documents_is_neither_kept_nor_stored(
    folder: Path, tmp_path: Path
) -> None:
    settings = Settings(DATA_DIR=tmp_path / "data", RERANKER_MODEL="keep-order", TORCH_THREADS=1)
    data = read_split(folder, "dev")
    elsewhere = Read([Rule((8, "1"), "", "Cakes are sold on the quay.")], data.asked)
    assert (await run(elsewhere, settings, print))["recall@10"] == 0
    assert (await run(data, settings, print))["recall@10"] == 1
    async with open_store(settings, print) as store:
        assert set(await store.knowledge.documents(SOURCE)) == {"7"}
        assert await fill(store.knowledge, elsewhere.rules, print) == 1
        assert set(await store.knowledge.documents(SOURCE)) == {"8"}
