"""Calibrate the trained cross-encoder on the development half, and report on the other half.

    python -m evals.train_calibrate service/trained/reranker.safetensors

Writes `<name>.calibration.json` beside the weights: slope and offset of the logits (Platt 1999), fitted on the pairs of
question and candidate of the development half. Prints ranking, refusal and reliability for both halves, as JSON.
"""

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from evals.metrics import auc, calibration_error, interval, mean, ndcg_at, recall_at, reliability
from evals.near_miss import Seen, Shelf, probes, see
from evals.train_low_rank import replace_file, write_checksums
from service.knowledge.embed import packaged_model
from service.knowledge.tuned import load_tuned
from service.llm.mismatch import mismatch
from service.ranking import SCORE_WEIGHT, combined_order, log_odds
from service.rerank.shipped import load_shipped

CANDIDATES = 40
GRADED = 6
"""TOP_N: only what is graded needs a score that means something."""
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5)
"""Weights of the score in the combined order that the report compares."""


def graded(item: Seen, weight: float = SCORE_WEIGHT) -> list[int]:
    """Places of the candidates that the product would grade."""
    return combined_order(item.scores, weight)[:GRADED]


def pairs_of(seen: Sequence[Seen]) -> tuple[list[float], list[bool]]:
    """Scores and labels of every graded pair."""
    scores, right = [], []
    for item in seen:
        for place in graded(item):
            scores.append(item.scores[place])
            right.append(item.found[place] in item.relevant)
    return scores, right


def fit(scores: Sequence[float], right: Sequence[bool]) -> tuple[float, float]:
    """Slope and offset that make sigmoid(slope * logit + offset) the likeliest, hardly shrunk."""
    from sklearn.linear_model import LogisticRegression

    design = np.array([[log_odds(score)] for score in scores])
    model = LogisticRegression(C=100.0).fit(design, np.array(right))
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def calibrated(score: float, slope: float, offset: float) -> float:
    return 1 / (1 + math.exp(-(slope * log_odds(score) + offset)))


def answer_scores(
    seen: Sequence[Seen], shelf: Shelf, *, with_rules: bool, weight: float = SCORE_WEIGHT
) -> tuple[list[float], list[float]]:
    """The best graded score of each answerable question, and of each unanswerable one."""
    found: tuple[list[float], list[float]] = ([], [])
    for item in seen:
        scores = [
            0.0
            if with_rules and mismatch(item.probe.question, shelf.passages[item.found[place]].indexed_text)
            else item.scores[place]
            for place in graded(item, weight)
        ]
        found[0 if item.probe.expected else 1].append(max(scores))
    return found


def halves(seen: Sequence[Seen]) -> dict[str, list[Seen]]:
    return {split: [item for item in seen if item.probe.split == split] for split in ("dev", "report")}


def ranking(seen: Sequence[Seen]) -> dict[str, Any]:
    """nDCG@10 and recall within what is graded, by the search's order, the reranker's and both combined.

    `gain` is what the combined order adds to the search's nDCG@10, question by question.
    """
    asked = [item for item in seen if item.probe.expected]
    orders = {name: [order_of(item, name) for item in asked] for name in ("search", "reranker", "combined")}
    gains = {name: [ndcg_at(10, o, i.relevant) for o, i in zip(of, asked, strict=True)] for name, of in orders.items()}
    rows: dict[str, Any] = {"questions": len(asked)}
    for name, of in orders.items():
        recalls = [recall_at(GRADED, order, item.relevant) for order, item in zip(of, asked, strict=True)]
        rows[name] = {**told(gains[name], "ndcg@10"), f"recall@{GRADED}": round(mean(recalls), 4)}
    added = [after - before for before, after in zip(gains["search"], gains["combined"], strict=True)]
    return {**rows, "gain": told(added, "ndcg@10")}


def told(values: Sequence[float], name: str) -> dict[str, Any]:
    return {name: round(mean(values), 4), "95%": [round(value, 3) for value in interval(values, mean)]}


def order_of(item: Seen, name: str) -> list[int]:
    places = list(range(len(item.found)))
    if name == "reranker":
        places.sort(key=lambda place: -item.scores[place])
    elif name == "combined":
        places = combined_order(item.scores)
    return [item.found[place] for place in places]


def by_weight(seen: Sequence[Seen], shelf: Shelf, weight: float) -> dict[str, float]:
    """What the combined order gives with this weight of the score: nDCG@10, and the AUC of the best graded score."""
    answerable = [item for item in seen if item.probe.expected]
    orders = [[item.found[place] for place in combined_order(item.scores, weight)] for item in answerable]
    gains = [ndcg_at(10, order, item.relevant) for order, item in zip(orders, answerable, strict=True)]
    best = answer_scores(seen, shelf, with_rules=False, weight=weight)
    return {"weight": weight, "ndcg@10": round(mean(gains), 4), "auc": round(auc(*best), 4)}


def refusal(seen: Sequence[Seen], shelf: Shelf, threshold: float | None, *, with_rules: bool) -> dict[str, Any]:
    """AUC of the best graded score, and the two kinds of error at a threshold."""
    right, wrong = answer_scores(seen, shelf, with_rules=with_rules)
    row: dict[str, Any] = {"answerable": len(right), "unanswerable": len(wrong), "auc": round(auc(right, wrong), 4)}
    if threshold is not None:
        row["false_answers"] = round(mean([float(score >= threshold) for score in wrong]), 4)
        row["false_refusals"] = round(mean([float(score < threshold) for score in right]), 4)
    return row


def threshold_for(seen: Sequence[Seen], shelf: Shelf, false_answers: float) -> float:
    """The lowest threshold at which at most this share of the unanswerable would be answered."""
    _, wrong = answer_scores(seen, shelf, with_rules=True)
    ordered = sorted(wrong, reverse=True)
    return ordered[int(false_answers * len(ordered))] + 1e-4


def report(seen: Sequence[Seen], shelf: Shelf) -> dict[str, Any]:
    parts = halves(seen)
    threshold = threshold_for(parts["dev"], shelf, 0.05)
    rows: dict[str, Any] = {"threshold": round(threshold, 4)}
    rows["weights"] = [by_weight(parts["dev"], shelf, weight) for weight in WEIGHTS]
    for split, part in parts.items():
        seed = [item for item in part if item.probe.id[0] in "ab"]
        twins = [item for item in part if item.probe.id[0] not in "ab"]
        bins = reliability(*pairs_of(part))
        rows[split] = {
            "ranking, labelled questions": ranking(seed),
            "ranking, near-miss questions": ranking(twins),
            "ranking, all": ranking(part),
            "refusal": refusal(part, shelf, threshold, with_rules=False),
            "refusal, with rules": refusal(part, shelf, threshold, with_rules=True),
            "ece": round(calibration_error(bins), 4),
            "reliability": [[b.count, round(b.mean_score, 3), round(b.share_right, 3)] for b in bins],
        }
    return rows


def save_calibration(weights: Path, fitted: dict[str, Any]) -> None:
    path = weights.with_suffix(".calibration.json")
    replace_file(path, (json.dumps(fitted) + "\n").encode())
    write_checksums(weights, path)


def main(
    weights: Annotated[Path, typer.Argument(help="The adapter.")],
    embedder: Annotated[Path | None, typer.Option(help="Adapter of the embedder that searches.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = 1,
) -> None:
    shelf = Shelf(load_tuned(threads=threads, adapter=embedder))
    reranker = load_shipped(packaged_model(), threads=threads, max_concurrent=1, weights=weights, calibration=(1, 0))
    asked = [probe for probe in probes() if probe.split in ("dev", "report")]
    seen = asyncio.run(see(shelf, reranker, asked, CANDIDATES))
    slope, offset = fit(*pairs_of([item for item in seen if item.probe.split == "dev"]))
    fitted = {"slope": round(slope, 5), "offset": round(offset, 5), "fitted_on": "development half of the samples"}
    save_calibration(weights, fitted)
    scaled = [
        Seen(item.probe, item.found, [calibrated(s, slope, offset) for s in item.scores], item.relevant)
        for item in seen
    ]
    typer.echo(json.dumps({"calibration": fitted, **report(scaled, shelf)}, indent=1))


if __name__ == "__main__":
    typer.run(main)
