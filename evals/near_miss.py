"""The sample knowledge base in memory: how the passages rank before and after, and how far scores tell twins apart."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.seed import HERE, Expected, Question, load_questions
from evals.train_bm25 import Bm25, best, fused
from evals.train_samples import sample_passages
from service.knowledge.embed import Embedder
from service.llm import lexical
from service.model import Passage
from service.ports import Reranker

NEAR_MISS = HERE / "golden" / "near_miss.jsonl"


@dataclass(frozen=True, slots=True)
class Probe:
    """A question that stands alone. `expected` is empty where the knowledge base does not answer it."""

    id: str
    question: str
    expected: tuple[Expected, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a probe found: passages in the search's order, the scores, and which of them were expected."""

    probe: Probe
    found: list[int]
    scores: list[float]
    relevant: frozenset[int]


def load_near_miss(path: Path = NEAR_MISS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def near_miss_questions() -> list[Question]:
    """Both questions of each pair that nothing was trained on; the twin is one that the sample does not answer."""
    found = []
    for row in load_near_miss():
        if row["split"] != "train":
            place = row["expected"]
            expected = Expected(place["address"], place["section"], place["text"])
            facts, tags = tuple(row["facts"]), ("pair", row["changed"])
            asked, twin = row["question"], row["twin"]
            found.append(Question(row["id"], asked, (), (expected,), "answered", facts, (), tags, row["split"]))
            found.append(Question(f"{row['id']}x", twin, (), (), "refused", (), facts, tags, row["split"]))
    return found


def probes() -> list[Probe]:
    """The labelled sample questions, follow-ups made to stand alone, and both questions of every near-miss pair."""
    found = []
    for question in load_questions():
        asked = question.question
        if question.history and lexical.is_follow_up(asked):
            asked = lexical.carry_topic(question.history[-1][0], asked)
        found.append(Probe(question.id, asked, question.expected, question.split))
    for row in load_near_miss():
        place = row["expected"]
        expected = Expected(place["address"], place["section"], place["text"])
        found.append(Probe(row["id"], row["question"], (expected,), row["split"]))
        found.append(Probe(f"{row['id']}x", row["twin"], (), row["split"]))
    return found


class Shelf:
    """The sample passages, searched as the store searches: dense and BM25, fused by reciprocal rank."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.passages: list[Passage] = sample_passages(embedder.count_tokens, embedder.max_tokens)
        texts = [passage.indexed_text for passage in self.passages]
        self._vectors = embedder.encode(texts)
        self._bm25 = Bm25(texts)

    def search(self, question: str, limit: int) -> list[int]:
        dense = best(self._vectors @ self._embedder.encode([question])[0], limit)
        return fused([dense, self._bm25.top(question, limit)], limit)

    def relevant(self, probe: Probe) -> frozenset[int]:
        return frozenset(
            i for i, passage in enumerate(self.passages) if any(item.is_in(passage) for item in probe.expected)
        )


async def see(shelf: Shelf, reranker: Reranker, asked: Sequence[Probe], limit: int) -> list[Seen]:
    """Search and score each probe's candidates."""
    seen = []
    for probe in asked:
        found = shelf.search(probe.question, limit)
        scores = await reranker.scores(probe.question, [shelf.passages[i].indexed_text for i in found])
        seen.append(Seen(probe, found, scores, shelf.relevant(probe)))
    return seen
