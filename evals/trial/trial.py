"""A trial as it is stored and compared: a row for each case, numbers apart from times."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from evals.trial.estimate import Estimate, estimate
from evals.trial.measure import Measure, Part
from evals.trial.measures import all_measures
from evals.trial.observed import Observed

DIGITS = 6


@dataclass(frozen=True, slots=True)
class Row:
    """What one case came to. `parts` are its parts by measure; `ms` are milliseconds by node, `total` among them."""

    id: str
    kind: str
    split: str
    wanted: str
    status: str
    right: bool
    lost_at: str
    parts: Mapping[str, Part]
    funnel: int
    ms: Mapping[str, float]

    @property
    def outcome(self) -> str:
        return "right" if self.right else f"{self.status}, lost at {self.lost_at}"


FUNNEL = ("asked", "found", "graded", "kept", "stated", "answered")
"""How far an answerable case came: its expected passages found, graded, kept, its facts stated, answered right."""


def row_of(observed: Observed, measures: Sequence[Measure]) -> Row:
    parts = {measure.name: measure.of(observed) for measure in measures}
    return Row(
        id=observed.case.id,
        kind=observed.case.kind,
        split=observed.case.split,
        wanted=observed.case.status,
        status=observed.status,
        right=observed.right,
        lost_at=observed.lost_at,
        parts={name: part for name, part in parts.items() if part is not None},
        funnel=funnel_of(observed),
        ms=dict(observed.record["timings"]),
    )


def funnel_of(observed: Observed) -> int:
    """The index in `FUNNEL` of the last stage that the case came through; 0 where nothing answers."""
    if not observed.is_answerable:
        return 0
    stages = [observed.share_in(observed.ever(part)) == 1 for part in ("found", "graded", "kept")]
    stages += [observed.states_all, observed.right]
    return next((index for index, came in enumerate(stages) if not came), len(stages))


@dataclass(frozen=True, slots=True)
class Trial:
    """`about` says what was asked of what: model, weights, settings, cases. `seconds` is how long all
    the cases took, `cpu_seconds` the processor time of the process meanwhile, all threads added up."""

    about: Mapping[str, Any]
    rows: Sequence[Row]
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    when: str = ""

    @property
    def model(self) -> str:
        return str(self.about["model"])

    def parts(self, name: str) -> list[Part | None]:
        return [row.parts.get(name) for row in self.rows]

    def estimates(self) -> dict[str, Estimate]:
        found = {measure.name: estimate(self.parts(measure.name)) for measure in all_measures()}
        return {name: value for name, value in found.items() if value is not None}

    def times(self) -> dict[str, list[float]]:
        """Milliseconds of each run by node, in the order in which nodes are first met."""
        nodes = dict.fromkeys(node for row in self.rows for node in row.ms)
        return {node: [row.ms[node] for row in self.rows if node in row.ms] for node in nodes}

    def as_json(self) -> dict[str, Any]:
        """`numbers` are the same for the same code, cases and model; `times` never are."""
        names = [measure.name for measure in all_measures()]
        return {
            "about": dict(self.about),
            "numbers": {
                "measures": {name: rounded(asdict(found)) for name, found in self.estimates().items()},
                "columns": names,
                "cases": [case_json(row, names) for row in self.rows],
            },
            "times": {
                "when": self.when,
                "seconds": round(self.seconds, 1),
                "cpu_seconds": round(self.cpu_seconds, 1),
                "nodes": {node: time_json(values) for node, values in self.times().items()},
                "cases": {row.id: dict(row.ms) for row in self.rows},
            },
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Self:
        """Raises `KeyError` or `TypeError` for what is no report."""
        numbers, times = told["numbers"], told["times"]
        columns = numbers["columns"]
        rows = [row_of_json(case, columns, times["cases"].get(case["id"], {})) for case in numbers["cases"]]
        return cls(told["about"], rows, times["seconds"], times["cpu_seconds"], times["when"])


def case_json(row: Row, names: Sequence[str]) -> dict[str, Any]:
    parts = [part_json(row.parts.get(name)) for name in names]
    fields = ("id", "kind", "split", "wanted", "status", "right", "lost_at", "funnel")
    return {**{name: getattr(row, name) for name in fields}, "parts": parts}


def row_of_json(case: Mapping[str, Any], columns: Sequence[str], ms: Mapping[str, float]) -> Row:
    known = {name: part_of_json(part) for name, part in zip(columns, case["parts"], strict=True) if part is not None}
    fields = {name: value for name, value in case.items() if name != "parts"}
    return Row(**fields, parts=known, ms=ms)


def part_json(part: Part | None) -> Any:
    """A number where the denominator is 1, a pair otherwise: a report of the whole set stays small."""
    if part is None:
        return None
    numerator, denominator = (whole(value) for value in part)
    return numerator if denominator == 1 else [numerator, denominator]


def part_of_json(told: Any) -> Part:
    return (float(told[0]), float(told[1])) if isinstance(told, list) else (float(told), 1.0)


def whole(value: float) -> float:
    return int(value) if value == int(value) else round(value, DIGITS)


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in values.items()}


def time_json(values: Sequence[float]) -> dict[str, float]:
    """Mean with its interval, median and 95th percentile, in milliseconds, over the runs that came to the node."""
    found = estimate([(value, 1.0) for value in values])
    assert found is not None
    ordered = sorted(values)
    return {
        "runs": len(values),
        "mean": round(found.value, 1),
        "low": round(found.low, 1),
        "high": round(found.high, 1),
        "p50": round(ordered[len(ordered) // 2], 1),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
    }
