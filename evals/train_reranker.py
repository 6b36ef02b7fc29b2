"""Train the cross-encoder that ships: a low-rank adapter on the verified all-MiniLM-L6-v2, with a head of one score.

    python -m evals.train_reranker DIR

Every step holds three kinds of groups, each with one right pair: a question with its passage and hard negatives; an
answerable question and twins of it that the same passage does not answer; and both kinds from an invented rulebook.
The loss is a softmax over each group plus a pointwise one, so that a score means something by itself. This is done once
for each seed, from the same start, and the mean of the trained weights ships: it ranks and refuses better than each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from evals import train_calibrate, train_embedder
from evals.obliqa import Asked, Rule, read, two_thirds
from evals.train_bm25 import Bm25, best, fused
from evals.train_candidates import passage_vectors
from evals.train_embedder import without_dropout
from evals.train_groups import Example, Group, Groups, examples_of, sample_groups
from evals.train_lessons import Lesson, LessonPairs, load_lessons
from evals.train_loop import descend
from evals.train_low_rank import adapt, digest_of, falling, save_adapter, save_average
from evals.usage import usage
from service.knowledge.embed import BASE_SHA256, packaged_model
from service.weights import sha256_of_file

START = 11
"""Seed of the head and of the adapter's layers before the first step: the same for all, or a mean would be nonsense."""
SEEDS = (11, 12)
"""Seeds of what the steps draw, one training each."""
RANK, SCALE, FIRST_LAYER = 32, 2.0, 1
PEAK, WARMUP = 8e-4, 40
SLOW, COOLDOWN, STEPS = 2200, 850, 1650
"""The rate falls as if for `SLOW` steps until `COOLDOWN`, and from there along a line to zero at `STEPS`."""
MAX_TOKENS = 160
POINTWISE = 0.6
POOL = 100
TRAINED = Path("service/trained")


def loss_of(model: nn.Module, tokenizer: Any, groups: Sequence[Group]) -> torch.Tensor:
    pairs = [pair for group in groups for pair in group.pairs]
    logits = scores_of(model, tokenizer, pairs)
    labels = torch.tensor([float(i == 0) for group in groups for i in range(len(group.pairs))])
    weights = torch.where(labels > 0, 1.6, 1.0)
    pointwise = binary_cross_entropy_with_logits(logits, labels, weight=weights)
    listwise = torch.stack(
        [
            cross_entropy(part[None], torch.zeros(1, dtype=torch.long))
            for part in torch.split(logits, [len(group.pairs) for group in groups])
        ]
    ).mean()
    return listwise + POINTWISE * pointwise


def scores_of(model: nn.Module, tokenizer: Any, pairs: Sequence[tuple[str, str]], parts: int = 4) -> torch.Tensor:
    """Logits float32 (n,) in the order given; computed in parts of like length, which saves padding."""
    lengths = [len(q) + len(t) for q, t in pairs]
    order = sorted(range(len(pairs)), key=lambda i: min(lengths[i], 5 * MAX_TOKENS))
    size = -(-len(order) // parts)
    found, places = [], []
    for start in range(0, len(order), size):
        part = order[start : start + size]
        features = tokenizer(
            [pairs[i][0] for i in part],
            [pairs[i][1] for i in part],
            padding=True,
            truncation="longest_first",
            max_length=MAX_TOKENS,
            return_tensors="pt",
        )
        found.append(model(**features).logits[:, 0])
        places += part
    return torch.cat(found)[torch.tensor(places).argsort()]


def rate_at(step: int, steps: int) -> float:
    slow = falling(PEAK, min(step, COOLDOWN), SLOW, WARMUP)
    return slow * max(0.0, min(1.0, (steps - step) / max(1, steps - COOLDOWN)))


@dataclass(frozen=True, slots=True)
class Data:
    """What training and measuring read: the passages, the questions of both parts, and each one's candidates."""

    rules: list[Rule]
    taken: list[Asked]
    kept: list[Asked]
    found: dict[str, list[int]]


def load_data(rules: list[Rule], every: Sequence[Asked], cache: Path, embedder: Path | None) -> Data:
    taken, kept = two_thirds(every)
    vectors = passage_vectors([rule.indexed_text for rule in rules], cache, embedder)
    questions = [question.question for question in (*taken, *kept)]
    asked = passage_vectors(questions, cache, embedder)
    bm25 = Bm25([rule.text for rule in rules])
    found = {
        question: fused([best(vectors @ vector, POOL), bm25.top(question, POOL)], POOL)
        for question, vector in zip(questions, asked, strict=True)
    }
    return Data(rules, taken, kept, found)


def new_model(threads: int) -> tuple[nn.Module, Any]:
    """Return the base with a fresh head, the adapter's layers in place, and the tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.set_num_threads(threads)
    torch.manual_seed(START)
    folder = packaged_model()
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    adapt(model, rank=RANK, scale=SCALE, first_layer=FIRST_LAYER, whole=("classifier", "bert.pooler"))
    without_dropout(model)
    model.train()
    return model, tokenizer


def made_of(
    seed: int,
    steps: int,
    embedder: Path,
    rules: Sequence[Rule],
    examples: Sequence[Example],
    samples: Sequence[Group],
    lessons: Sequence[Lesson],
) -> str:
    """Return the digest of a training: its base and embedder, its numbers, and all that its groups are drawn from."""
    numbers = (seed, START, RANK, SCALE, FIRST_LAYER, PEAK, WARMUP, SLOW, COOLDOWN, MAX_TOKENS, POINTWISE, POOL)
    drawn_from = (list(rules), list(examples), list(samples), list(lessons))
    return digest_of("reranker", BASE_SHA256, sha256_of_file(embedder), steps, numbers, *drawn_from)


def keep_the_published(out: Path, steps: int, seeds: Sequence[int]) -> None:
    """Raise `typer.BadParameter` where another training would be written over the adapter that ships."""
    if (steps, tuple(seeds)) != (STEPS, SEEDS) and out.resolve() == TRAINED.resolve():
        raise typer.BadParameter(
            f"This is not the training that was published ({STEPS} steps, seeds {SEEDS}), and {TRAINED} holds its "
            "adapter: name another folder with --out, such as --out build/trained."
        )


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of ObliQA: documents/ and ObliQA_dev.json.")],
    out: Annotated[Path, typer.Option(help="Folder for the adapters.")] = TRAINED,
    cache: Annotated[Path, typer.Option(help="Folder for vectors and checkpoints.")] = Path("build/training"),
    steps: Annotated[int, typer.Option(min=1, help="Steps; the published adapter took the default.")] = STEPS,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", min=0, help=f"Once for each training, of which the mean is kept; {SEEDS} by default."),
    ] = None,
) -> None:
    """Train the embedder, then the reranker on its candidates, then calibrate. What is done is not done again."""
    seeded = seeds or SEEDS
    keep_the_published(out, steps, seeded)
    rules, asked = usage(lambda: read(folder, "dev"), ValueError)
    torch.set_num_threads(threads)
    cache.mkdir(parents=True, exist_ok=True)
    embedder, reranker = out / "embedder.safetensors", out / "reranker.safetensors"
    if not embedder.is_file():
        train_embedder.main(folder, out, cache, threads)
    data = load_data(rules, asked, cache, embedder)
    trained = [train(data, seed, steps, embedder, cache / f"reranker-{seed}.safetensors", threads) for seed in seeded]
    typer.echo(save_average(trained, reranker))
    train_calibrate.main(reranker, embedder, threads)


def train(data: Data, seed: int, steps: int, embedder: Path, weights: Path, threads: int) -> Path:
    """Write the adapter of one seed to `weights`, and return that."""
    examples = examples_of(data.taken, data.rules, [data.found[q.question] for q in data.taken])
    samples, lessons = sample_groups(), load_lessons()
    groups = Groups(data.rules, examples, samples, LessonPairs(lessons), seed)
    model, tokenizer = new_model(threads)
    descend(
        model,
        weights.with_suffix(".pt"),
        made_of=made_of(seed, steps, embedder, data.rules, examples, samples, lessons),
        steps=steps,
        loss_at=lambda step: loss_of(model, tokenizer, groups.of(step)),
        rate_at=lambda step: rate_at(step, steps),
    )
    typer.echo(f"seed {seed}: {save_adapter(model, SCALE, weights)}")
    return weights


if __name__ == "__main__":
    typer.run(main)
