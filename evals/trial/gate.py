"""A trial held against limits: what must never happen, what must not be worse than a bound or than the baseline."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.trial.compare import Change, Comparison, compare
from evals.trial.measure import Measure
from evals.trial.measures import all_measures
from evals.trial.trial import Row, Trial

HERE = Path(__file__).parent.parent
LIMITS = HERE / "gate.toml"

ALONG_THE_GRAPH = (
    "contextualize",
    "retrieve_vector",
    "rerank_vector",
    "search_web",
    "grade_documents",
    "rewrite_query",
    "give_up",
    "assemble_sources",
    "generate",
    "reflect",
    "prepare_regen",
    "finalize",
    "",
)
"""The order in which a fault shows: what is broken early makes what follows look broken too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`never`: must be 0. `floors` and `ceilings`: bounds that the whole interval must not lie beyond.

    `drops`: how much worse than the baseline is let pass, by measure; beyond it, a drop whose paired interval leaves
    zero out fails.
    """

    never: Sequence[str] = ()
    floors: Mapping[str, float] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)
    drops: Mapping[str, float] = field(default_factory=dict)
    baseline: Path | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A limit that does not hold, and the cases that show it."""

    measure: Measure
    said: str
    cases: Sequence[str] = ()

    def __str__(self) -> str:
        node = f" Look at {self.measure.node}." if self.measure.node else ""
        shown = ", ".join(self.cases[:SHOWN]) + (f" and {len(self.cases) - SHOWN} more" if self.more else "")
        return f"{self.measure.name}: {self.said}.{node}" + (f" Cases: {shown}." if self.cases else "")

    @property
    def more(self) -> bool:
        return len(self.cases) > SHOWN


SHOWN = 12
NOT_MEASURED = "was not measured in this report"
NOT_SHARED = "was not measured in the cases that this report shares with the baseline"
NO_BASELINE = "has no baseline to be held against"


def load_limits(model: str, path: Path = LIMITS) -> Limits:
    """The limits of a model. Raises `ValueError` that says what to mend in the file."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: it cannot be read as TOML ({error}).") from error
    if model not in told:
        raise ValueError(f"{path}: it has no limits for the model {model!r}. Add a table [{model}].")
    return limits_of(told[model], path)


def limits_of(told: Mapping[str, Any], path: Path) -> Limits:
    known = {measure.name for measure in all_measures()}
    named = [*told.get("never", []), *(name for part in ("floors", "ceilings", "drops") for name in told.get(part, {}))]
    unknown = [name for name in named if name not in known]
    odd = sorted(set(told) - {"never", "floors", "ceilings", "drops", "baseline"})
    if unknown or odd:
        raise ValueError(f"{path}: there is no such measure or key: {', '.join([*unknown, *odd])}.")
    baseline = path.parent / told["baseline"] if "baseline" in told else None
    parts = {name: dict(told.get(name, {})) for name in ("floors", "ceilings", "drops")}
    return Limits(never=list(told.get("never", [])), baseline=baseline, **parts)


def load_trial_report(path: Path) -> Trial:
    """A stored report; a folder stands for its report.json. Raises `ValueError` that says what to do."""
    file = path / "report.json" if path.is_dir() else path
    try:
        return Trial.of_json(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{file}: no report can be read there. Make one with `python -m evals run`.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: it is no report of `python -m evals run` ({error}). Make it anew.") from error


def failures(trial: Trial, limits: Limits, baseline: Trial | None) -> list[Failure]:
    """Every limit that does not hold or was not measured, in the order of the graph's nodes."""
    by_name = {measure.name: measure for measure in all_measures()}
    found = [*never_failures(trial, limits, by_name), *bound_failures(trial, limits, by_name)]
    if baseline is not None:
        found += drop_failures(compare(baseline, trial), limits, by_name)
    else:
        found += [Failure(by_name[name], NO_BASELINE) for name in limits.drops]
    return sorted(found, key=lambda failure: place_of(failure.measure.node))


def place_of(node: str) -> int:
    """A node's place along the graph; one that is not listed comes last."""
    return ALONG_THE_GRAPH.index(node) if node in ALONG_THE_GRAPH else len(ALONG_THE_GRAPH)


def never_failures(trial: Trial, limits: Limits, by_name: Mapping[str, Measure]) -> Iterator[Failure]:
    for name in limits.never:
        if not any(name in row.parts for row in trial.rows):
            yield Failure(by_name[name], NOT_MEASURED)
        cases = [row.id for row in trial.rows if name in row.parts and row.parts[name][0] > 0]
        if cases:
            yield Failure(by_name[name], f"must never happen, and did in {len(cases)} case(s)", cases)


def bound_failures(trial: Trial, limits: Limits, by_name: Mapping[str, Measure]) -> Iterator[Failure]:
    found = trial.estimates()
    for name in [*limits.floors, *limits.ceilings]:
        if name not in found:
            yield Failure(by_name[name], NOT_MEASURED)
    for name, floor in limits.floors.items():
        if name in found and found[name].high < floor:
            said = f"{found[name].value:.3f} (at most {found[name].high:.3f}) is below {floor:g}"
            yield Failure(by_name[name], said, lacking(trial.rows, name))
    for name, ceiling in limits.ceilings.items():
        if name in found and found[name].low > ceiling:
            said = f"{found[name].value:.3f} (at least {found[name].low:.3f}) is above {ceiling:g}"
            yield Failure(by_name[name], said, having(trial.rows, name))


def lacking(rows: Sequence[Row], name: str) -> list[str]:
    return [row.id for row in rows if name in row.parts and row.parts[name][0] < row.parts[name][1]]


def having(rows: Sequence[Row], name: str) -> list[str]:
    return [row.id for row in rows if name in row.parts and row.parts[name][0] > 0]


def drop_failures(comparison: Comparison, limits: Limits, by_name: Mapping[str, Measure]) -> Iterator[Failure]:
    changes = {change.measure.name: change for change in comparison.changes()}
    for name, allowed in limits.drops.items():
        change = changes.get(name)
        if change is None:
            yield Failure(by_name[name], NOT_SHARED)
        elif change.worse_by > allowed and change.found.is_real:
            yield Failure(change.measure, drop_said(change, allowed), worse_cases(comparison, change.measure))


def drop_said(change: Change, allowed: float) -> str:
    found = change.found
    interval = f"95 % interval of the difference {found.low:+.3f} to {found.high:+.3f}"
    return f"{found.a:.3f} in the baseline, {found.b:.3f} now ({interval}; {allowed:g} worse is let pass)"


def worse_cases(comparison: Comparison, measure: Measure) -> list[str]:
    """The cases that became worse in what the measure counts."""

    def faults(row: Row) -> float:
        part = row.parts.get(measure.name, (0.0, 0.0))
        return part[1] - part[0] if measure.better == "higher" else part[0]

    return [after.id for before, after in comparison.pairs if faults(after) > faults(before)]


def verdict(found: Sequence[Failure], comparison: Comparison | None) -> str:
    """The text of the gate: what failed, where it begins, which cases flipped."""
    if not found:
        return "The gate is open: every limit holds."
    lines = [f"FAIL {failure}" for failure in found]
    lines.append(f"Where it begins: {found[0].measure.node or 'see above'}.")
    if comparison is not None:
        flips = comparison.flips()
        for word, gained in (("lost", False), ("gained", True)):
            ids = [flip.after.id for flip in flips if flip.gained is gained]
            lines.append(f"Cases {word} since the baseline: {len(ids)}" + (f" ({', '.join(ids)})" if ids else ""))
        moved = "; ".join(f"{node} {before} -> {after}" for node, before, after in comparison.moved())
        lines.append(f"Lost at, by node: {moved or 'as before'}")
    return "\n".join(lines)
