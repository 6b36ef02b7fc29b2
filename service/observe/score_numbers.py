"""Scores as Prometheus reads them: how many of each kind, and how good. Never which run's."""

from prometheus_client import CollectorRegistry, Histogram

BUCKETS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
KNOWN = frozenset({"faithfulness", "answer_relevancy", "contextual_relevancy", "citation_support", "thumbs"})


class ScoreNumbers:
    """A `ScoreSink` that counts. Names that are not known go under `other`: a label has few values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._scores = Histogram(
            "gatehouse_score",
            "Scores of answers, 0 to 1, by name; thumbs up is 1, down is 0.",
            ["name"],
            buckets=BUCKETS,
            registry=registry,
        )
        for name in sorted(KNOWN):
            self._scores.labels(name)

    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None:  # noqa: ARG002 - the port's
        self._scores.labels(name if name in KNOWN else "other").observe(value)
