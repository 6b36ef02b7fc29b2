"""The table: from outcomes to rows, from rows to Markdown. A pure function of what was run."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.designs.outcome import Outcome
from evals.metrics import interval, mean

RESAMPLES = 300
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ran:
    """One design at one error rate (None where errors are the model's own), over all cases."""

    key: str
    name: str
    errors: float | None
    outcomes: tuple[Outcome, ...]


def row_of(ran: Ran, seed: int) -> dict[str, Any]:
    """The measures of one row, as primitives. Intervals are 95 %, by the bootstrap over cases."""
    outcomes = ran.outcomes
    answerable = [o for o in outcomes if o.expected == "answered"]
    unanswerable = [o for o in outcomes if o.expected == "refused"]
    private = [o for o in outcomes if o.kind == "private"]
    return {
        "key": ran.key,
        "design": ran.name,
        "errors": ran.errors,
        "cases": len(outcomes),
        "answerable": len(answerable),
        "right_answers": count(answerable, lambda o: o.right),
        "unanswerable": len(unanswerable),
        "right_refusals": count(unanswerable, lambda o: o.right),
        "right_share": share(outcomes, lambda o: o.right, seed),
        "wrong": count(outcomes, lambda o: o.wrong),
        "wrong_share": share(outcomes, lambda o: o.wrong, seed),
        "warned": count(outcomes, lambda o: o.status == "partial"),
        "stopped": count(outcomes, lambda o: o.status == "stopped"),
        "failed": count(outcomes, lambda o: o.status == "failed"),
        "unsupported": count(outcomes, lambda o: o.unsupported and o.status == "answered"),
        "unsupported_warned": count(outcomes, lambda o: o.unsupported and o.status == "partial"),
        "unasked_searches": sum(o.unasked for o in outcomes),
        "private": len(private),
        "private_sent": count(private, lambda o: o.searches > 0),
        "calls_mean": with_interval(outcomes, lambda o: float(o.calls), seed),
        "calls_max": max(o.calls for o in outcomes),
        "context_max": max(o.context_chars for o in outcomes),
        "usd_per_1000": round(1000 * mean([o.cost_usd for o in outcomes]), 3),
        "seconds_mean": round(mean([o.seconds for o in outcomes]), 2),
        "paths": paths_of(outcomes),
    }


def count(outcomes: Sequence[Outcome], is_so: Callable[[Outcome], bool]) -> int:
    return sum(map(is_so, outcomes))


def share(outcomes: Sequence[Outcome], is_so: Callable[[Outcome], bool], seed: int) -> list[float]:
    return with_interval(outcomes, lambda outcome: float(is_so(outcome)), seed)


def with_interval(outcomes: Sequence[Outcome], value: Callable[[Outcome], float], seed: int) -> list[float]:
    """[mean, low, high]."""
    values = [value(outcome) for outcome in outcomes]
    low, high = interval(values, mean, seed=seed, resamples=RESAMPLES)
    return [round(number, 4) for number in (mean(values), low, high)]


def paths_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """For each path: how many cases took it, and its fewest, mean and most model calls and searches."""
    by_path: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_path[outcome.path].append(outcome)
    return {
        path: {
            "cases": len(taken),
            "calls": [
                min(o.calls for o in taken),
                round(mean([o.calls for o in taken]), 1),
                max(o.calls for o in taken),
            ],
            "searches": max(o.searches for o in taken),
        }
        for path, taken in sorted(by_path.items())
    }


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report. Times, and they alone, may differ from one run to the next where they are measured."""
    parts = [f"# Designs compared, `{report['command']}`", "", *report["notes"], ""]
    for errors in dict.fromkeys(row["errors"] for row in report["rows"]):
        rows = [row for row in report["rows"] if row["errors"] == errors]
        title = "## As it is" if errors is None else f"## Judges wrong in {100 * errors:g} % of their judgements"
        parts += [title, "", main_table(rows, report["time"]), ""]
    if len({row["errors"] for row in report["rows"]}) > 1:
        parts += ["## How each design degrades", "", degradation(report["rows"]), ""]
    parts += ["## Model calls per path, with the fewest errors", "", path_table(first_rows(report["rows"])), ""]
    if report["left_out"]:
        parts += ["## Left out", "", *(f"* {line}" for line in report["left_out"]), ""]
    return "\n".join(parts)


HEAD = (
    "design",
    "right answers",
    "right refusals",
    "wrong, shown as an answer",
    "shown with a warning",
    "unsupported claims, no warning",
    "searches nobody asked for",
    "client matters sent out",
    "model calls, mean (most)",
    "most characters before the writer",
    "USD per 1,000",
)


def main_table(rows: Rows, time: str) -> str:
    return grid([*HEAD, f"seconds, {time}"], main_lines(rows))


def main_lines(rows: Rows) -> list[list[str]]:
    return [
        [
            f"{row['key']}. {row['design']}" + (f" ({row['stopped']} stopped by the fence)" if row["stopped"] else ""),
            f"{row['right_answers']}/{row['answerable']}",
            f"{row['right_refusals']}/{row['unanswerable']}",
            str(row["wrong"]),
            str(row["warned"]),
            str(row["unsupported"]),
            str(row["unasked_searches"]),
            f"{row['private_sent']}/{row['private']}",
            f"{row['calls_mean'][0]:.1f} ({row['calls_max']})",
            f"{row['context_max']:,}",
            f"{row['usd_per_1000']:.2f}",
            f"{row['seconds_mean']:.1f}",
        ]
        for row in rows
    ]


README_RATE = 0.05
RESULTS = Path(__file__).with_name("results.json")
"""The report that the README shows: `designs.json` of the command that stands in it."""


def readme_part(report: Mapping[str, Any]) -> str:
    """What the README shows of a report: one error rate in few columns, and how right answers fall with errors."""
    rows = [row for row in report["rows"] if row["errors"] == README_RATE]
    head = ["design", *HEAD[1:5], *HEAD[6:9]]
    narrow = [[line[0], *line[1:5], *line[6:9]] for line in main_lines(rows)]
    return "\n".join(
        [
            "```sh",
            f".venv/bin/{report['command']}",
            "```",
            "",
            f"Judges wrong in {100 * README_RATE:g} % of their judgements, {rows[0]['cases']} cases:",
            "",
            grid(head, narrow),
            "",
            "Right outcomes, and what was wrong and shown as an answer, as the judges get worse (95 % intervals):",
            "",
            degradation(report["rows"]),
        ]
    )


def degradation(rows: Rows) -> str:
    """Right outcomes and wrong answers at each error rate, with their intervals."""
    rates = list(dict.fromkeys(row["errors"] for row in rows))
    by_key: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row)
    head = ["design", *(f"right, {r:.0%}" for r in rates), *(f"wrong and shown as an answer, {r:.0%}" for r in rates)]
    lines = [
        [f"{key}. {of[0]['design']}", *(percent(row["right_share"]) for row in of)]
        + [percent(row["wrong_share"]) for row in of]
        for key, of in by_key.items()
    ]
    return grid(head, lines)


def path_table(rows: Rows) -> str:
    lines = [
        [
            f"{row['key']}. {row['design']}",
            path,
            str(taken["cases"]),
            "{}, {}, {}".format(*taken["calls"]),
            str(taken["searches"]),
        ]
        for row in rows
        for path, taken in row["paths"].items()
    ]
    return grid(["design", "path", "cases", "calls: fewest, mean, most", "most searches"], lines)


def first_rows(rows: Rows) -> Rows:
    return [row for row in rows if row["errors"] == rows[0]["errors"]]


def percent(shares: Sequence[float]) -> str:
    middle, low, high = (100 * share for share in shares)
    return f"{middle:.0f} % ({low:.0f} to {high:.0f})"


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
