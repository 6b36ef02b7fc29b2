"""What Gatehouse does worst, said from the results alone: weakest measure, weakest kind, where cases are lost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evals.trial.estimate import Estimate
from evals.trial.measure import Measure
from evals.trial.measures import all_measures
from evals.trial.trial import Row, Trial

FEWEST = 5
"""A kind with fewer cases is not called the worst: one case would decide it."""

COMPARABLE = frozenset(
    [
        "recall@40 before rerank",
        "recall@6 after rerank",
        "gate 1 (documents) recall",
        "irrelevant passages passed",
        "gate 3 (answers) precision",
        "gate 3 (answers) recall",
        "rewrites that found what was missing",
        "answerable: right",
        "unanswerable: answered",
        "refusal precision",
        "refusal recall",
        "facts stated",
        "forbidden facts stated",
        "citation precision",
        "citation recall",
        "citations unsupported",
        "claims without a citation",
        "web reached when on",
        "runs that ended in an error",
    ]
)
"""Shares, 0..1, whose best is known. Gate 1's precision is none: labels name the passages that answer best only."""

MEANING: Mapping[str, str] = {
    "retrieve_vector": "an expected passage was not among the candidates",
    "search_web": "the page that answers was not read",
    "rerank_vector": "an expected passage was found and fell behind in the rerank",
    "grade_documents": "gate 1 dropped an expected passage, or kept one where nothing answers",
    "generate": "the passages were kept, but the answer leaves a fact out or says what it must not",
    "reflect": "gate 3 said wrong: it held back an answer that was right, or passed one where nothing answers",
    "error": "the run ended in an error",
}


@dataclass(frozen=True, slots=True)
class Weakness:
    measure: Measure
    found: Estimate

    @property
    def shortfall(self) -> float:
        """How far from the best that there could be, 0..1."""
        return 1 - self.found.value if self.measure.better == "higher" else self.found.value


def weaknesses(trial: Trial) -> list[Weakness]:
    """The comparable measures, weakest first."""
    found = trial.estimates()
    known = [Weakness(m, found[m.name]) for m in all_measures() if m.name in COMPARABLE and m.name in found]
    return sorted(known, key=lambda weakness: -weakness.shortfall)


def right_by_kind(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """(kind, right, cases), the worst share first."""
    cases = Counter(row.kind for row in rows)
    right = Counter(row.kind for row in rows if row.right)
    return sorted(((kind, right[kind], cases[kind]) for kind in cases), key=lambda k: (k[1] / k[2], -k[2], k[0]))


def lost_at(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """(node, cases that went wrong there first), most first."""
    return sorted(Counter(row.lost_at for row in rows if row.lost_at).items(), key=lambda item: (-item[1], item[0]))


def worst_paragraph(trial: Trial) -> str:
    """One paragraph of plain text; it says so where nothing went wrong."""
    wrong = sum(not row.right for row in trial.rows)
    ranked = weaknesses(trial)
    if not ranked or ranked[0].shortfall == 0:
        return f"What Gatehouse does worst: nothing that these {len(trial.rows)} cases show."
    said = [f"What Gatehouse does worst: {named(ranked[0])}"]
    said += [f"; next, {named(weakness)}" for weakness in ranked[1:2] if weakness.shortfall > 0]
    return "".join(said) + "." + kinds_said(trial.rows) + losses_said(trial.rows, wrong)


def named(weakness: Weakness) -> str:
    found = weakness.found
    wanted = "1" if weakness.measure.better == "higher" else "0"
    interval = f"95 % interval {found.low:.2f} to {found.high:.2f}"
    return f"“{weakness.measure.name}” is {found.value:.2f} where {wanted} is best ({interval}, {found.cases} cases)"


def kinds_said(rows: Sequence[Row]) -> str:
    kinds = [kind for kind in right_by_kind(rows) if kind[2] >= FEWEST and kind[1] < kind[2]][:2]
    if not kinds:
        return ""
    worst = ", then ".join(f"“{kind}” with {right} of {cases} right" for kind, right, cases in kinds)
    return f" The kind of question that fares worst is {worst}."


def losses_said(rows: Sequence[Row], wrong: int) -> str:
    losses = lost_at(rows)
    if not losses:
        return ""
    told = "; ".join(f"{count} at {node} ({MEANING.get(node, node)})" for node, count in losses[:3])
    return f" Of {wrong} cases that did not end right among {len(rows)}, most were lost here first: {told}."
