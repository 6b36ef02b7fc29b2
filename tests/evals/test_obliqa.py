import json
from pathlib import Path

import pytest

from evals.obliqa import Asked, grouped, load_asked, load_rules, two_thirds
from evals.obliqa_run import Ranked, measures, read_ranked, run
from service.settings import Settings


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
    path.write_text('{"id": "q", "found": ["a"], "scores": [0.5], "answers": ["a"]}\n{"id": "r", "fou')
    assert list(read_ranked(path)) == ["q"]


@pytest.mark.slow
async def test_a_second_run_ranks_and_stores_nothing_anew(folder: Path, tmp_path: Path) -> None:
    settings = Settings(DATA_DIR=tmp_path / "data", RERANKER_MODEL="keep-order", TORCH_THREADS=1)
    first: list[str] = []
    found = await run(folder, "dev", None, settings, first.append)
    again: list[str] = []
    assert await run(folder, "dev", None, settings, again.append) == found
    assert found["recall@10"] == 1
    assert any(line.startswith("document 7") for line in first)
    assert not any(line.startswith("document 7") for line in again)
