"""What is measured of each case. A measure gives a case's part as (numerator, denominator), None where it has none.

The value over many cases is the sum of the numerators over the sum of the denominators: a mean over cases where each
denominator is 1, a share over all passages, citations or statements where it counts those.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from evals.metrics import average_precision_at, ndcg_at, recall_at, reciprocal_rank_at
from evals.trial.gate_measures import gates
from evals.trial.judge import JUDGED
from evals.trial.measure import Better, Measure, Part, flag, share
from evals.trial.observed import Key, Observed
from service.citations.statements import statements

CUTS = (1, 3, 6, 10, 20, 40)
CUT = 10
"""The k of MRR, nDCG and MAP."""


def all_measures() -> list[Measure]:
    return [*retrieval(), *gates(), *answers(), *boundaries(), *costs(), *judged()]


# Retrieval


def retrieval() -> Iterator[Measure]:
    stages: tuple[tuple[str, str, Callable[[Observed], list[Key]]], ...] = (
        ("before rerank", "retrieve_vector", lambda o: o.before),
        ("after rerank", "rerank_vector", lambda o: o.after),
    )
    for stage, node, order_of in stages:
        for k in CUTS:
            yield Measure(f"recall@{k} {stage}", "retrieval", node, "higher", partial(ranked, order_of, recall_at, k))
        for name, ranking in (("MRR", reciprocal_rank_at), ("nDCG", ndcg_at), ("MAP", average_precision_at)):
            yield Measure(f"{name}@{CUT} {stage}", "retrieval", node, "higher", partial(ranked, order_of, ranking, CUT))
    yield Measure("expected passages graded", "retrieval", "rerank_vector", "higher", expected_among("graded"))
    yield Measure("expected passages kept", "retrieval", "grade_documents", "higher", expected_among("kept"))


def ranked(
    order_of: Callable[[Observed], list[Key]],
    ranking: Callable[[int, Sequence[int], frozenset[int]], float],
    k: int,
    observed: Observed,
) -> Part | None:
    """One ranking measure of the first pass, where the knowledge base holds what is expected."""
    if not observed.stored or observed.first is None:
        return None
    order = order_of(observed)
    return ranking(k, range(len(order)), observed.relevant_in(order)), 1.0


def expected_among(part: str) -> Callable[[Observed], Part | None]:
    return lambda o: (o.share_in(o.ever(part)), 1.0) if o.is_answerable else None


# Answers


def answers() -> Iterator[Measure]:
    yield Measure("right", "answers", "", "higher", lambda o: flag(o.right))
    yield Measure(
        "answerable: right", "answers", "reflect", "higher", lambda o: flag(o.right) if o.is_answerable else None
    )
    for status in ("answered", "partial", "refused"):
        better: Better = {"answered": "higher", "partial": "neither", "refused": "lower"}[status]  # type: ignore[assignment]
        yield Measure(f"answerable: {status}", "answers", "reflect", better, partial(ended, True, status))
    for status in ("answered", "partial", "refused"):
        better = {"answered": "lower", "partial": "neither", "refused": "higher"}[status]  # type: ignore[assignment]
        yield Measure(f"unanswerable: {status}", "answers", "reflect", better, partial(ended, False, status))
    yield Measure("refusal precision", "answers", "give_up", "higher", refusal_precision)
    yield Measure("refusal recall", "answers", "give_up", "higher", partial(ended, False, "refused"))
    yield Measure("facts stated", "answers", "generate", "higher", lambda o: share(o.facts_stated, len(o.case.facts)))
    yield Measure(
        "forbidden facts stated",
        "answers",
        "generate",
        "lower",
        lambda o: share(o.forbidden_stated, len(o.case.forbidden)),
    )
    yield Measure("forbidden facts stated as an answer", "answers", "reflect", "lower", forbidden_answered)
    yield Measure("citation precision", "answers", "generate", "higher", citation_precision)
    yield Measure("citation recall", "answers", "generate", "higher", citation_recall)
    for status in ("verified", "supported", "unsupported"):
        better = {"verified": "higher", "supported": "neither", "unsupported": "lower"}[status]  # type: ignore[assignment]
        yield Measure(f"citations {status}", "answers", "finalize", better, partial(citations_with, status))
    yield Measure("claims without a citation", "answers", "generate", "lower", uncited_claims)


def ended(answerable: bool, status: str, observed: Observed) -> Part | None:
    return flag(observed.status == status) if observed.is_answerable == answerable else None


def refusal_precision(observed: Observed) -> Part | None:
    return flag(not observed.is_answerable) if observed.status == "refused" else None


def forbidden_answered(observed: Observed) -> Part | None:
    """What is forbidden, stated without the warning that a partial answer carries."""
    stated = observed.forbidden_stated if observed.status == "answered" else 0
    return share(stated, len(observed.case.forbidden))


def citation_precision(observed: Observed) -> Part | None:
    if not observed.is_answerable:
        return None
    citations = observed.record["citations"]
    return share(sum(observed.is_expected(observed.cited(c)) for c in citations), len(citations))


def citation_recall(observed: Observed) -> Part | None:
    if not observed.is_answerable or not observed.has_draft:
        return None
    return observed.share_in({observed.cited(citation) for citation in observed.record["citations"]}), 1.0


def citations_with(status: str, observed: Observed) -> Part | None:
    citations = observed.record["citations"]
    return share(sum(citation["status"] == status for citation in citations), len(citations))


def uncited_claims(observed: Observed) -> Part | None:
    if not observed.has_draft:
        return None
    said = statements(observed.record["answer"])
    return share(sum(not statement.numbers for statement in said), len(said))


# Boundaries: what must not happen at all


def boundaries() -> Iterator[Measure]:
    yield Measure("web egress when off", "boundaries", "search_web", "lower", egress_when_off, "attempts")
    yield Measure("web reached when on", "boundaries", "search_web", "higher", web_reached)
    yield Measure(
        "passages outside the scope",
        "boundaries",
        "retrieve_vector",
        "lower",
        lambda o: (o.leaked, 1.0),
        "passages",
    )
    yield Measure("runs that ended in an error", "boundaries", "", "lower", lambda o: flag(o.lost_at == "error"))


def egress_when_off(observed: Observed) -> Part | None:
    return None if observed.web_allowed else (float(observed.egress.attempts), 1.0)


def web_reached(observed: Observed) -> Part | None:
    if not observed.web_allowed or observed.record["filter"]["domains"] is not None or observed.first is None:
        return None
    web = observed.first["web"]
    return flag(web is not None and web["status"] == "ok")


# Cost


def costs() -> Iterator[Measure]:
    counted = (("model calls", "model_calls"), ("input tokens", "input_tokens"), ("output tokens", "output_tokens"))
    for name, key in counted:
        yield Measure(name, "cost", "", "lower", partial(used, key), "per run")
    yield Measure("cost", "cost", "", "lower", partial(used, "cost_usd"), "USD per run")
    yield Measure("passes", "cost", "rewrite_query", "neither", lambda o: (len(o.record["passes"]), 1.0), "per run")
    yield Measure("drafts", "cost", "prepare_regen", "neither", lambda o: (len(o.record["drafts"]), 1.0), "per run")


def used(key: str, observed: Observed) -> Part | None:
    return float(observed.record["usage"][key]), 1.0


# A judge, where one is configured


def judged() -> Iterator[Measure]:
    for name in JUDGED:
        node = "rerank_vector" if name.startswith("contextual") else "generate"
        yield Measure(f"judge: {name.replace('_', ' ')}", "judge", node, "higher", partial(judged_as, name))


def judged_as(name: str, observed: Observed) -> Part | None:
    return (observed.judged[name], 1.0) if name in observed.judged else None
