"""How the order of the search and the scores of the reranker become one order."""

import math
from collections.abc import Sequence

SCORE_WEIGHT = 0.6
"""Weight of the reranker's log odds: of 0.1 to 1.5 the one with the highest sum of nDCG@10 and AUC of refusing on the
development half of the sample questions (`weights` in the report of `evals/train_calibrate.py`)."""
CERTAIN = 1e-7
"""Scores are held this far from 0 and 1, where the log odds end."""


def combined_order(scores: Sequence[float], weight: float = SCORE_WEIGHT) -> list[int]:
    """Return the indices of candidates, best first. `scores[i]` (0..1) is the score of the i-th best of the search.

    The search's i-th candidate is right with odds that fall about as 1 / i; the score brings odds of its own, and log
    odds add up: weight * log(score / (1 - score)) - log(i). Unlike a sum of ranks this keeps how sure the reranker is.
    What it brings stands in the table beside the shipped weights (`trained/README.md`).
    """
    total = [weight * log_odds(score) - math.log(rank) for rank, score in enumerate(scores, start=1)]
    return sorted(range(len(scores)), key=lambda i: -total[i])


def log_odds(score: float) -> float:
    held = min(max(score, CERTAIN), 1 - CERTAIN)
    return math.log(held / (1 - held))
