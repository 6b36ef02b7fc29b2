import json

import pytest

from evals.near_miss import NEAR_MISS
from evals.seed import fold
from evals.train_samples import sample_passages
from service.model import Passage

ROWS = [json.loads(line) for line in NEAR_MISS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    return sample_passages(lambda text: len(text.split()) + 2, 256)


def test_there_are_sixty_pairs_beside_those_that_training_reads() -> None:
    assert sum(row["split"] != "train" for row in ROWS) >= 60


def test_every_answer_stands_in_the_knowledge_base(passages: list[Passage]) -> None:
    for row in ROWS:
        expected = row["expected"]
        texts = [fold(p.text) for p in passages if p.address == expected["address"]]
        holding = [text for text in texts if fold(expected["text"]) in text]
        assert holding, row["id"]
        assert any(fold(fact) in text for fact in row["facts"] for text in holding), row["id"]


def test_no_question_stands_in_two_parts() -> None:
    questions = [row[kind] for row in ROWS for kind in ("question", "twin")]
    assert len(set(questions)) == len(questions)
