"""Ranking measures over binary relevance, reliability of scores, and bootstrap intervals."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


def recall_at(k: int, order: Sequence[int], relevant: frozenset[int]) -> float:
    return len(relevant.intersection(order[:k])) / len(relevant)


def average_precision_at(k: int, order: Sequence[int], relevant: frozenset[int]) -> float:
    """Precision at each relevant place, over all relevant items (trec_eval's map_cut)."""
    hits, total = 0, 0.0
    for rank, index in enumerate(order[:k], start=1):
        if index in relevant:
            hits += 1
            total += hits / rank
    return total / len(relevant)


def ndcg_at(k: int, order: Sequence[int], relevant: frozenset[int]) -> float:
    gain = sum(1 / math.log2(rank + 1) for rank, index in enumerate(order[:k], start=1) if index in relevant)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(relevant)) + 1))


def reciprocal_rank_at(k: int, order: Sequence[int], relevant: frozenset[int]) -> float:
    """1 over the rank of the first relevant item; 0 where none is within the cut."""
    return next((1 / rank for rank, index in enumerate(order[:k], start=1) if index in relevant), 0.0)


def auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that a positive scores above a negative; ties count half."""
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


@dataclass(frozen=True, slots=True)
class Bin:
    """Scores of like size: how many, their mean, and the share that was right."""

    count: int
    mean_score: float
    share_right: float


def reliability(scores: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[Bin]:
    found = []
    for number in range(bins):
        members = [i for i, score in enumerate(scores) if min(int(score * bins), bins - 1) == number]
        if members:
            mean = sum(scores[i] for i in members) / len(members)
            found.append(Bin(len(members), mean, sum(right[i] for i in members) / len(members)))
    return found


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error (Naeini et al. 2015): the mean gap of score and share, weighed by count."""
    total = sum(item.count for item in bins)
    return sum(item.count * abs(item.mean_score - item.share_right) for item in bins) / total


def interval(
    items: Sequence[T], measure: Callable[[Sequence[T]], float], *, seed: int = 1, resamples: int = 1000
) -> tuple[float, float]:
    """A 95 % bootstrap interval of `measure` over resampled items."""
    chance = random.Random(seed)
    found = sorted(measure(chance.choices(items, k=len(items))) for _ in range(resamples))
    return found[int(0.025 * resamples)], found[int(0.975 * resamples) - 1]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
