"""Each choice about candidates as one row, on the kept third of ObliQA's development split, computed in memory.

The product's own terms, heading paths, embedders and fusion; the store itself is left out so that a row costs seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.metrics import average_precision_at, mean, recall_at
from evals.obliqa import Asked, Rule, two_thirds
from evals.train_bm25 import Bm25, best, fused
from evals.train_candidates import passage_vectors
from evals.train_groups import NEAR_DUPLICATE, alike, words_of
from service.knowledge.terms import terms_of
from service.knowledge.tuned import WEIGHTS
from service.llm.lexical import STOP_WORDS, words

POOL = 200
FEEDBACK, ADDED = 3, 6
Order = list[int]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    orders: list[Order]


@dataclass(frozen=True, slots=True)
class Bench:
    """What the rows share. Vectors are float32 (n, dim), unit length: one per passage, one per question."""

    rules: list[Rule]
    asked: list[Asked]
    tuned: tuple[NDArray[np.float32], NDArray[np.float32]]
    base: tuple[NDArray[np.float32], NDArray[np.float32]]

    def lexical(self, texts: Sequence[str], terms: Callable[[str], str] = terms_of) -> list[Order]:
        bm25 = Bm25(texts, terms)
        return [bm25.top(question.question, POOL) for question in self.asked]


def open_bench(rules: list[Rule], asked: Sequence[Asked], cache: Path) -> Bench:
    taken, kept = two_thirds(asked)
    texts, questions = [rule.indexed_text for rule in rules], [each.question for each in (*taken, *kept)]
    vectors = {
        adapter: (passage_vectors(texts, cache, adapter), passage_vectors(questions, cache, adapter)[len(taken) :])
        for adapter in (WEIGHTS, None)
    }
    return Bench(rules, kept, vectors[WEIGHTS], vectors[None])


def dense(vectors: tuple[NDArray[np.float32], NDArray[np.float32]]) -> list[Order]:
    passages, questions = vectors
    return [best(passages @ question, POOL) for question in questions]


def rows_of(bench: Bench) -> Iterable[Row]:
    texts, indexed = [rule.text for rule in bench.rules], [rule.indexed_text for rule in bench.rules]
    yield Row("BM25, plain words", bench.lexical(texts, plain))
    yield Row("BM25, no stop words", bench.lexical(texts, without_stop_words))
    yield Row("BM25, no stop words, stems", bench.lexical(texts))
    lexical = bench.lexical(indexed)
    yield Row("BM25, no stop words, stems, heading path", lexical)
    base, tuned = dense(bench.base), dense(bench.tuned)
    yield Row("dense, base embedder", base)
    yield Row("dense, our embedder", tuned)
    yield Row("fused, base embedder, k 60", both(base, lexical, 60))
    for k in (10, 20, 60):
        yield Row(f"fused, our embedder, k {k}", both(tuned, lexical, k))
    yield Row("fused, our embedder, dense counted twice", three(tuned, tuned, lexical))
    yield Row("fused, our embedder, BM25 counted twice", three(tuned, lexical, lexical))
    found = both(tuned, lexical, 60)
    yield Row("fused, near-duplicates left out", [without_duplicates(order, bench.rules) for order in found])
    yield Row("fused, corpus's own words added to BM25", enriched(bench, indexed, found, tuned))


def both(one: Sequence[Order], two: Sequence[Order], k: int) -> list[Order]:
    return [fused([a, b], POOL, k) for a, b in zip(one, two, strict=True)]


def three(one: Sequence[Order], two: Sequence[Order], more: Sequence[Order]) -> list[Order]:
    return [fused(orders, POOL) for orders in zip(one, two, more, strict=True)]


def plain(text: str) -> str:
    return " ".join(words(text))


def without_stop_words(text: str) -> str:
    return " ".join(word for word in words(text) if word not in STOP_WORDS)


def without_duplicates(order: Order, rules: Sequence[Rule]) -> Order:
    """Leaves out what is nearly the same as a better candidate; the hundred best are looked at."""
    kept: Order = []
    for index in order[:100]:
        if all(alike(words_of(rules[index].text), words_of(rules[other].text)) < NEAR_DUPLICATE for other in kept):
            kept.append(index)
    return kept


def enriched(bench: Bench, indexed: Sequence[str], found: Sequence[Order], tuned: Sequence[Order]) -> list[Order]:
    """Pseudo-relevance feedback: the commonest new terms of the three best candidates join the query of BM25."""
    bm25 = Bm25(indexed)
    orders = []
    for question, order, near in zip(bench.asked, found, tuned, strict=True):
        known = set(terms_of(question.question).split())
        counts: dict[str, int] = {}
        for index in order[:FEEDBACK]:
            for term in set(terms_of(indexed[index]).split()) - known:
                counts[term] = counts.get(term, 0) + 1
        added = sorted(counts, key=lambda term: (-counts[term], term))[:ADDED]
        lexical = best(bm25.scores_of([*terms_of(question.question).split(), *added]), POOL)
        orders.append(fused([near, lexical], POOL))
    return orders


def table(rules: list[Rule], asked: Sequence[Asked], cache: Path) -> str:
    """`asked`: the whole development split."""
    bench = open_bench(rules, asked, cache)
    index_of = {rule.key: index for index, rule in enumerate(bench.rules)}
    relevant = [frozenset(index_of[key] for key in question.answers) for question in bench.asked]
    lines = [
        f"{len(bench.asked)} questions",
        "",
        "| candidates | Recall@10 | MAP@10 | Recall@25 | Recall@40 | Recall@100 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows_of(bench):
        pairs = list(zip(row.orders, relevant, strict=True))
        measures = [
            mean([recall_at(10, order, right) for order, right in pairs]),
            mean([average_precision_at(10, order, right) for order, right in pairs]),
            *(mean([recall_at(cut, order, right) for order, right in pairs]) for cut in (25, 40, 100)),
        ]
        lines.append(f"| {row.name} | {' | '.join(f'{value:.3f}' for value in measures)} |")
    return "\n".join(lines)
