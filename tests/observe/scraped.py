"""What Prometheus would read, parsed by its own client's parser."""

from collections.abc import Mapping
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from service.observe.metrics import Metrics
from service.record import RunRecord

Labels = frozenset[tuple[str, str]]


def samples(text: str) -> dict[tuple[str, Labels], float]:
    """Every sample by its name and labels. A series that stands there twice fails the test."""
    found: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def read(metrics: Metrics) -> dict[tuple[str, Labels], float]:
    return samples(metrics.text().decode())


def value(found: Mapping[tuple[str, Labels], float], name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def above_zero(found: Mapping[tuple[str, Labels], float], name: str) -> dict[Labels, float]:
    return {labels: count for (named, labels), count in found.items() if named == name and count}


def labels_by_name(metrics: Metrics) -> dict[str, set[str]]:
    """The name of every series, with the names of its labels."""
    names: dict[str, set[str]] = {}
    for name, labels in read(metrics):
        names.setdefault(name, set()).update(label for label, _ in labels)
    return names


def a_busy_registry() -> Metrics:
    """A registry that has seen a run and watches a queue: every series it can have is there."""
    metrics = Metrics()
    metrics.queue("rerank", lambda: 0)
    step = {"node": "generate", "ms": 1.0}
    usage = {"calls": {"answer": 1}, "input_tokens": 1, "output_tokens": 1, "cost_usd": 0.0}
    record = {
        "ending": {"outcome": "answered", "stopped_by": ""},
        "passes": [],
        "forks": [],
        "steps": [step],
        "verdicts": [],
        "usage": usage,
        "timings": {"total": 1.0},
    }
    metrics.ended(cast(RunRecord, record))
    return metrics
