"""What is measured of the gates: against the labels in the runs, and by probes outside them."""

from collections.abc import Iterator
from functools import partial

from evals.trial.measure import Measure, Part, flag, share
from evals.trial.observed import Observed
from evals.trial.probes import ProbedGate


def gates() -> Iterator[Measure]:
    first = "gate 1 (documents)"
    yield Measure(f"{first} precision", "gates", "grade_documents", "higher", lambda o: graded(o, "pass"))
    yield Measure(f"{first} recall", "gates", "grade_documents", "higher", passed_of_expected)
    yield Measure("irrelevant passages passed", "gates", "grade_documents", "lower", passed_of_irrelevant)
    third = "gate 3 (answers)"
    yield Measure(f"{third} precision", "gates", "reflect", "higher", lambda o: drafts(o, o.states_all, passed(o)))
    yield Measure(f"{third} recall", "gates", "reflect", "higher", lambda o: drafts(o, passed(o), is_right_draft(o)))
    yield Measure("gate 4 (rewrite) precision", "gates", "rewrite_query", "higher", rewrites_needed)
    yield Measure("gate 4 (rewrite) recall", "gates", "rewrite_query", "higher", needs_rewritten)
    yield Measure("rewrites that found what was missing", "gates", "rewrite_query", "higher", rescued)
    nodes: tuple[tuple[ProbedGate, str], ...] = (
        ("documents", "grade_documents"),
        ("grounded", "reflect"),
        ("answers", "reflect"),
    )
    for gate, node in nodes:
        yield Measure(f"probe {gate}: precision", "gates", node, "higher", partial(probe_precision, gate))
        yield Measure(f"probe {gate}: recall", "gates", node, "higher", partial(probe_recall, gate))
        yield Measure(f"probe {gate}: polarity inverted", "gates", node, "lower", partial(inverted, gate))


def graded(observed: Observed, result: str) -> Part | None:
    """Share of the grades `result` that stand on an expected passage: a lower bound, as labels name the best only."""
    given = [grade for one in observed.record["passes"] for grade in one["grades"] if grade["result"] == result]
    return share(sum(observed.is_expected((g["passage_id"], g["sha256"])) for g in given), len(given))


def passed_of_expected(observed: Observed) -> Part | None:
    expected = {key for key in observed.ever("graded") if observed.is_expected(key)}
    return share(len(expected & observed.ever("kept")), len(expected))


def passed_of_irrelevant(observed: Observed) -> Part | None:
    irrelevant = {key for key in observed.ever("graded") if not observed.is_expected(key)}
    return share(len(irrelevant & observed.ever("kept")), len(irrelevant))


def passed(observed: Observed) -> bool:
    """Whether gate 3 passed the last draft."""
    said = [verdict for verdict in observed.record["verdicts"] if verdict["gate"] == "answers"]
    return bool(said) and said[-1]["result"] == "pass"


def is_right_draft(observed: Observed) -> bool:
    return observed.is_answerable and observed.states_all


def drafts(observed: Observed, part: bool, whole: bool) -> Part | None:
    """Among the cases that showed a draft: 1 of 1 where `part` and `whole`, 0 of 1 where `whole` alone."""
    if not observed.has_draft or not whole:
        return None
    return flag(part and observed.is_answerable)


def missed_first(observed: Observed) -> bool:
    """Whether the first pass kept nothing of what was expected, so that a rewrite was called for."""
    if not observed.is_answerable or observed.first is None:
        return False
    kept = {(g["passage_id"], g["sha256"]) for g in observed.first["grades"] if g["result"] == "pass"}
    return observed.share_in(kept) == 0


def was_rewritten(observed: Observed) -> bool:
    return len(observed.record["passes"]) > 1


def rewrites_needed(observed: Observed) -> Part | None:
    return flag(missed_first(observed)) if was_rewritten(observed) and observed.is_answerable else None


def needs_rewritten(observed: Observed) -> Part | None:
    return flag(was_rewritten(observed)) if missed_first(observed) else None


def rescued(observed: Observed) -> Part | None:
    if not (was_rewritten(observed) and missed_first(observed)):
        return None
    return flag(observed.share_in(observed.ever("kept")) > 0)


def probe_precision(gate: ProbedGate, observed: Observed) -> Part | None:
    passes = [probe for probe in observed.probes if probe.gate == gate and probe.said == "pass"]
    return share(sum(probe.good for probe in passes), len(passes))


def probe_recall(gate: ProbedGate, observed: Observed) -> Part | None:
    good = [probe for probe in observed.probes if probe.gate == gate and probe.good]
    return share(sum(probe.said == "pass" for probe in good), len(good))


def inverted(gate: ProbedGate, observed: Observed) -> Part | None:
    """The bad one passed and the good one did not: a judge turned round does that to every pair."""
    said = {probe.good: probe.said for probe in observed.probes if probe.gate == gate}
    return flag(said[False] == "pass" and said[True] == "fail") if said else None
