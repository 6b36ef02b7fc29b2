"""The route of one case: what its labels want, then the run as `gatehouse audit show` prints it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.golden_set import Case
from service.audit.route import route
from service.record import StoredRecord

RECORDS = "records.jsonl"


def stored_record(folder: Path, case_id: str) -> dict[str, Any] | None:
    """The record that the trial in `folder` kept of the case, None where it has none."""
    file = folder / RECORDS
    if not file.exists():
        return None
    with file.open(encoding="utf-8") as lines:
        told = (json.loads(line) for line in lines)
        return next((row["record"] for row in told if row["case"] == case_id), None)


def explained(case: Case, record: dict[str, Any]) -> str:
    """The labels, then the route. The record was never in a log, so it has no place in a chain."""
    body = route([StoredRecord(0, record["ended_at"], "run", "of a trial", record)])
    return "\n".join([*labels(case), "", body])


def labels(case: Case) -> Iterator[str]:
    yield f"Case {case.id} ({', '.join(case.tags)}; {case.split}): wanted {case.status}"
    for expected in case.expected:
        yield f"  expected {expected.address} {expected.section}: {expected.text}"
    yield from (f"  must state: {fact}" for fact in case.facts)
    yield from (f"  must not state: {fact}" for fact in case.forbidden)
    if case.why:
        yield f"  why: {case.why}"
