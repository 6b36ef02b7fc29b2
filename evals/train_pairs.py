"""Pair the hand-written near misses of the part "train" with passages of the sample knowledge base.

    python -m evals.train_pairs        # writes golden/near_miss_pairs.jsonl

What training reads is the file, so that a change in how pages are cut does not change what is learnt: the shipped
reranker was trained on the passages of November 2026.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.near_miss import NEAR_MISS, load_near_miss
from evals.seed import Expected
from evals.train_bm25 import Bm25
from evals.train_groups import PAIRS, Group
from evals.train_samples import sample_passages
from service.knowledge.embed import packaged_model
from service.model import Passage

MAX_TOKENS = 256


def groups_of(path: Path, count_tokens: Any, max_tokens: int) -> list[Group]:
    """Of each pair two groups: question against twin, and passage against its neighbours."""
    passages = sample_passages(count_tokens, max_tokens)
    bm25 = Bm25([passage.indexed_text for passage in passages])
    groups = []
    for row in load_near_miss(path):
        if row["split"] == "train":
            place = row["expected"]
            expected = Expected(place["address"], place["section"], place["text"])
            right = next(passage for passage in passages if expected.is_in(passage))
            others = [passage for passage in passages if not expected.is_in(passage)]
            near = nearest(row["question"], passages, bm25, others, 4)
            twins = [(row["twin"], text) for text in nearest(row["twin"], passages, bm25, others, 2)]
            asked = (row["question"], right.indexed_text)
            groups.append(Group((asked, (row["twin"], right.indexed_text), *twins)))
            groups.append(Group((asked, *((row["question"], text) for text in near))))
    return groups


def nearest(question: str, passages: Sequence[Passage], bm25: Bm25, among: Sequence[Passage], count: int) -> list[str]:
    """Texts of the passages with the most of the question's words, the right ones left out."""
    found = [passages[index] for index in bm25.top(question, 2 * count)]
    return [passage.indexed_text for passage in found if passage in among][:count]


def main() -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(packaged_model(), local_files_only=True)
    groups = groups_of(NEAR_MISS, lambda text: len(tokenizer(text)["input_ids"]), MAX_TOKENS)
    lines = [json.dumps({"pairs": group.pairs}, ensure_ascii=False) + "\n" for group in groups]
    PAIRS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
