"""How the order of the search and the order of the reranker become one."""

from collections.abc import Sequence

RANK_SMOOTHING = 10


def combined_order(scores: Sequence[float]) -> list[int]:
    """Return the indices of candidates, best first. `scores[i]` is the reranker's for the i-th best of the search.

    The sum of 1 / (10 + rank) in both orders (Cormack et al. 2009, with a steeper head): on the ObliQA development
    questions neither order alone is as good, see the table beside the shipped weights.
    """
    by_score = sorted(range(len(scores)), key=lambda i: -scores[i])
    total = [1 / (RANK_SMOOTHING + rank) for rank in range(1, len(scores) + 1)]
    for rank, index in enumerate(by_score, start=1):
        total[index] += 1 / (RANK_SMOOTHING + rank)
    return sorted(range(len(scores)), key=lambda i: -total[i])
