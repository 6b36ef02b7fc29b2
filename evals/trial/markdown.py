"""The report as Markdown: what is worst, every measure with its interval, where cases were lost, which flipped."""

from collections.abc import Iterator, Mapping

from evals.trial.compare import Change, Comparison, Flip
from evals.trial.estimate import Estimate
from evals.trial.measure import Measure
from evals.trial.measures import all_measures
from evals.trial.trial import Trial, time_json
from evals.trial.worst import MEANING, lost_at, right_by_kind, worst_paragraph

GROUPS: Mapping[str, str] = {
    "retrieval": "Retrieval",
    "gates": "Gates",
    "answers": "Answers",
    "boundaries": "What must not happen",
    "cost": "Cost",
    "judge": "The judge's scores",
}


def report(trial: Trial, against: Comparison | None = None) -> str:
    parts = [heading(trial), worst_paragraph(trial), *measures_of(trial), kinds(trial), losses(trial), times(trial)]
    if against is not None:
        parts.append(comparison(against))
    return "\n\n".join(parts) + "\n"


def heading(trial: Trial) -> str:
    about = trial.about
    asked = f"{about['cases']} cases (split {about['split']}), model {about['model']}, judge {about['judge']}"
    return f"# Evidence: {asked}"


HEAD = ("| measure | value | 95 % interval | cases | best |", "| --- | --- | --- | --- | --- |")


def measures_of(trial: Trial) -> Iterator[str]:
    found = trial.estimates()
    for group, title in GROUPS.items():
        rows = [measure_row(m, found[m.name]) for m in all_measures() if m.group == group and m.name in found]
        if rows:
            yield "\n".join([f"## {title}", "", *HEAD, *rows])


def measure_row(measure: Measure, found: Estimate) -> str:
    unit = "" if measure.unit == "share" else f" {measure.unit}"
    interval = f"{number(found.low)} to {number(found.high)}"
    best = {"higher": "high", "lower": "low", "neither": "-"}[measure.better]
    return f"| {measure.name} | {number(found.value)}{unit} | {interval} | {found.cases} | {best} |"


def number(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"


def kinds(trial: Trial) -> str:
    rows = [f"| {kind} | {right} | {cases} | {right / cases:.2f} |" for kind, right, cases in right_by_kind(trial.rows)]
    return "\n".join(
        ["## Right by kind of question", "", "| kind | right | cases | share |", "| --- | --- | --- | --- |", *rows]
    )


def losses(trial: Trial) -> str:
    rows = [f"| {node} | {count} | {MEANING.get(node, '')} |" for node, count in lost_at(trial.rows)]
    return "\n".join(
        ["## Where cases were lost first", "", "| node | cases | what happened |", "| --- | --- | --- |", *rows]
    )


def times(trial: Trial) -> str:
    rows = [time_row(node, time_json(values)) for node, values in trial.times().items()]
    head = ["| node | runs | mean | 95 % interval | median | 95th |", "| --- | --- | --- | --- | --- | --- |"]
    took = f"All cases took {trial.seconds:.0f} s, {trial.cpu_seconds:.0f} s of them processor time; probes included."
    if trial.about.get("remembered"):
        took += " Scores of pairs were remembered (`--remember`), so that these times are not the product's."
    return "\n".join(["## Latency by node (milliseconds)", "", took, "", *head, *rows])


def time_row(node: str, found: Mapping[str, float]) -> str:
    interval = f"{found['low']:.0f} to {found['high']:.0f}"
    return (
        f"| {node} | {found['runs']:.0f} | {found['mean']:.0f} | {interval} | {found['p50']:.0f} | {found['p95']:.0f} |"
    )


def comparison(found: Comparison) -> str:
    """A against B: the flips first, then what differs for certain, then the rest."""
    flips = found.flips()
    lines = [f"## Compared over {len(found.pairs)} cases", ""]
    lines.append(f"Gained: {sum(f.gained for f in flips)}; lost: {sum(not f.gained for f in flips)}.")
    if found.left_out:
        lines[-1] += f" {found.left_out} cases were asked in one of the two only, and are left out."
    if flips:
        lines += ["", "| case | kind | flipped | before | after |", "| --- | --- | --- | --- | --- |"]
        lines += [flip_row(flip) for flip in sorted(flips, key=lambda flip: flip.gained)]
    changed = [change for change in found.changes() if change.found.value or change.found.is_real]
    if not changed:
        return "\n".join([*lines, "", "No measure differs."])
    lines += [
        "",
        "| measure | before | after | difference | 95 % interval | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    ordered = sorted(changed, key=lambda change: (not change.found.is_real, -abs(change.found.value)))
    return "\n".join([*lines, *(change_row(change) for change in ordered)])


def flip_row(flip: Flip) -> str:
    word = "gained" if flip.gained else "LOST"
    return f"| {flip.after.id} | {flip.after.kind} | {word} | {flip.before.outcome} | {flip.after.outcome} |"


def change_row(change: Change) -> str:
    found = change.found
    direction = "" if change.worse_by == 0 else ("worse" if change.worse_by > 0 else "better")
    word = f"{direction}, for certain" if direction and found.is_real else direction
    interval = f"{found.low:+.3f} to {found.high:+.3f}"
    values = f"{number(found.a)} | {number(found.b)} | {found.value:+.3f} | {interval}"
    return f"| {change.measure.name} | {values} | {word} |"
