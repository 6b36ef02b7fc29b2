"""Train the low-rank adapter of the embedder: in-batch negatives and one hard negative per question (MNRL).

python -m evals.train_embedder DIR --out service/trained
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from evals.obliqa import Asked, Rule, read, two_thirds
from evals.train_bm25 import Bm25
from evals.train_loop import descend
from evals.train_low_rank import adapt, digest_of, falling, save_adapter
from evals.usage import usage
from service.knowledge.embed import BASE_SHA256, packaged_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SEED = 7
RANK, SCALE, FIRST_LAYER = 32, 2.0, 2
BATCH, EPOCHS, PEAK, WARMUP = 48, 2, 5e-4, 10
TEMPERATURE = 20.0
MAX_TOKENS = 96
HARD_FROM = range(1, 15)
"""Ranks of BM25 that a hard negative is drawn from."""


@dataclass(frozen=True, slots=True)
class Pair:
    question: str
    positive: int
    negatives: tuple[int, ...]
    answers: frozenset[int]


def pairs_of(asked: Sequence[Asked], rules: Sequence[Rule]) -> list[Pair]:
    index_of = {rule.key: index for index, rule in enumerate(rules)}
    bm25 = Bm25([rule.text for rule in rules])
    pairs = []
    for question in asked:
        answers = frozenset(index_of[key] for key in question.answers)
        same = {rules[index].text for index in answers}
        hard = [i for i in bm25.top(question.question, 30) if i not in answers and rules[i].text not in same]
        pairs += [Pair(question.question, index, tuple(hard), answers) for index in sorted(answers)]
    return pairs


def schedule(pairs: Sequence[Pair], epochs: int) -> list[list[Pair]]:
    """Return the batches of all epochs, the same for the same seed."""
    chance = random.Random(SEED)
    batches = []
    for _ in range(epochs):
        order = list(pairs)
        chance.shuffle(order)
        batches += [order[start : start + BATCH] for start in range(0, len(order) - BATCH // 2, BATCH)]
    return batches


def loss_of(model: "SentenceTransformer", batch: Sequence[Pair], texts: Sequence[str]) -> torch.Tensor:
    """Softmax over the batch's positives and hard negatives; another right answer of a question is no negative."""
    chance = random.Random(f"{batch[0].question}{len(batch)}{batch[0].positive}")
    columns = [pair.positive for pair in batch]
    columns += [chance.choice(pair.negatives[HARD_FROM.start : HARD_FROM.stop]) for pair in batch]
    questions = embedded(model, [pair.question for pair in batch])
    passages = embedded(model, [texts[index] for index in columns])
    scores = TEMPERATURE * questions @ passages.T
    for row, pair in enumerate(batch):
        for column, index in enumerate(columns):
            if index in pair.answers and column != row:
                scores[row, column] = float("-inf")
    return cross_entropy(scores, torch.arange(len(batch)))


def embedded(model: "SentenceTransformer", texts: Sequence[str]) -> torch.Tensor:
    """float32 (n, dim), unit length, with gradients; computed in four parts of like length, which saves padding."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    step = -(-len(order) // 4)
    parts, places = [], []
    for start in range(0, len(order), step):
        part = order[start : start + step]
        features = model.tokenizer(
            [texts[i] for i in part], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        )
        parts.append(model(dict(features))["sentence_embedding"])
        places += part
    return normalize(torch.cat(parts), dim=1)[torch.tensor(places).argsort()]


def train(model: "SentenceTransformer", pairs: Sequence[Pair], texts: Sequence[str], state: Path) -> None:
    """`texts`: one per passage index. Goes on from `state` when a run was stopped."""
    batches = schedule(pairs, EPOCHS)
    descend(
        model,
        state,
        made_of=made_of(batches, texts),
        steps=len(batches),
        loss_at=lambda step: loss_of(model, batches[step], texts),
        rate_at=lambda step: falling(PEAK, step, len(batches), WARMUP),
    )


def made_of(batches: Sequence[Sequence[Pair]], texts: Sequence[str]) -> str:
    """Return the digest of a training: its base, its numbers, its batches in their order and the passages."""
    numbers = (SEED, RANK, SCALE, FIRST_LAYER, BATCH, EPOCHS, PEAK, WARMUP, TEMPERATURE, MAX_TOKENS, HARD_FROM)
    rows = [[(p.question, p.positive, p.negatives, sorted(p.answers)) for p in batch] for batch in batches]
    return digest_of("embedder", BASE_SHA256, numbers, rows, list(texts))


def without_dropout(model: nn.Module) -> None:
    """Measured: half of a step's time on a CPU, and an adapter of this size does not need it."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of ObliQA: documents/ and ObliQA_dev.json.")],
    out: Annotated[Path, typer.Option(help="Folder for the adapter.")],
    cache: Annotated[Path, typer.Option(help="Folder for checkpoints.")] = Path("build/training"),
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
) -> None:
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    rules, every = usage(lambda: read(folder, "dev"), ValueError)
    asked, _ = two_thirds(every)
    cache.mkdir(parents=True, exist_ok=True)
    model = SentenceTransformer(str(packaged_model()), device="cpu", local_files_only=True)
    adapt(model, rank=RANK, scale=SCALE, first_layer=FIRST_LAYER)
    without_dropout(model)
    model.train()
    train(model, pairs_of(asked, rules), [rule.indexed_text for rule in rules], cache / "embedder.pt")
    typer.echo(save_adapter(model, SCALE, out / "embedder.safetensors"))


if __name__ == "__main__":
    typer.run(main)
