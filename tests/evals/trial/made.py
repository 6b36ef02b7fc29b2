"""Cases, records and rows made by hand, so that a measure's value can be worked out on paper."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evals.golden_set import Case
from evals.seed import Expected
from evals.trial.measure import Part
from evals.trial.measures import all_measures
from evals.trial.observed import Observed
from evals.trial.trial import Row, Trial
from evals.trial.web import Egress
from service.graph.state import Limits
from service.model import Passage
from service.record import GradeRecord, PassRecord, RunRecord
from tests import fakes
from tests.running import installation

SHA = "a" * 64


def expects(*numbers: int) -> tuple[Expected, ...]:
    """What the fixed passages of these numbers say."""
    return tuple(Expected(f"part/{n}.html", f"R {n}", f"record {n} for {n} years") for n in numbers)


def case(
    *numbers: int,
    case_id: str = "t1",
    facts: Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
    tags: Sequence[str] = ("plain",),
    **given: Any,
) -> Case:
    """A case that the passages of these numbers answer; one that nothing answers without numbers."""
    said = [f"{n} years" for n in numbers] if facts is None else facts
    return Case(
        id=case_id,
        question=given.pop("question", "How long?"),
        history=(),
        expected=expects(*numbers),
        status="answered" if numbers else "refused",
        facts=tuple(said),
        forbidden=tuple(forbidden),
        tags=tuple(tags),
        split=given.pop("split", "dev"),
        **given,
    )


def key(number: int) -> tuple[str, str]:
    return fakes.passage(number).passage_id, SHA


def passages(*numbers: int) -> dict[tuple[str, str], Passage]:
    return {key(number): fakes.passage(number) for number in numbers}


def one_pass(
    found: Sequence[int], scores: Sequence[float] | None = None, grades: Mapping[int, str] | None = None
) -> PassRecord:
    """A pass that found these passages in this order; `grades` are results by passage number."""
    given = scores if scores is not None else [1 - 0.01 * place for place in range(len(found))]
    told: Any = {
        "attempt": 1,
        "query": "q",
        "candidates": [
            {"passage_id": key(n)[0], "sha256": SHA, "title": "", "section": "", "kind": "official"}
            | {"found": 0.1, "reranked": score}
            for n, score in zip(found, given, strict=True)
        ],
        "web": None,
        "grades": [grade(n, result) for n, result in (grades or {}).items()],
        "kept": [key(n)[0] for n, result in (grades or {}).items() if result == "pass"],
    }
    return told  # type: ignore[no-any-return]


def grade(number: int, result: str) -> GradeRecord:
    told: Any = {"passage_id": key(number)[0], "sha256": SHA, "title": "", "section": "", "label": "VECTOR"}
    made: Any = {**told, "score": 0.5, "result": result, "words": ""}
    return made  # type: ignore[no-any-return]


def record(
    *passes: PassRecord,
    outcome: str = "answered",
    answer: str = "",
    citations: Sequence[tuple[int, str]] = (),
    verdicts: Sequence[tuple[str, str]] = (),
    **given: Any,
) -> RunRecord:
    """A run's record; `citations` are (number of the source, status), and source n is passage n."""
    told: Any = {
        "run_id": "r1",
        "client": "evals",
        "thread_id": "t1",
        "thread_key": "k",
        "asked_at": "2031-01-01T00:00:00+00:00",
        "ended_at": "2031-01-01T00:00:01.000+00:00",
        "ending": {"outcome": outcome, "code": "", "message": "", "stopped_by": ""},
        "question": "How long?",
        "standalone": "How long?",
        "web_search": False,
        "delivery": "draft",
        "skill": None,
        "filter": {"sources": None, "kinds": None, "web": True, "domains": None},
        "caps": {"top_n": 6, "max_rewrites": 1, "max_regen": 1, "on_ungrounded": "warn"},
        "sent_to_web": [],
        "passes": list(passes),
        "forks": [],
        "registered_before": 0,
        "sources": [{"n": n, "passage_id": key(n)[0], "sha256": SHA} for n in sorted({n for n, _ in citations})],
        "drafts": [],
        "answer": answer,
        "complete": True,
        "warning": "",
        "warnings": [],
        "citations": [{"n": n, "quote": "q", "support": 1.0, "status": status} for n, status in citations],
        "verdicts": [
            {"attempt": 1, "gate": gate, "result": result, "reason": "r", "words": ""} for gate, result in verdicts
        ],
        "model": "quote",
        "installation": installation(Limits()),
        "prompts": {},
        "usage": {"model_calls": 3, "input_tokens": 100, "output_tokens": 10, "cost_usd": 0.25, "calls": {}},
        "timings": {"retrieve_vector": 10.0, "total": 30.0},
    }
    made: Any = {**told, **given}
    return made  # type: ignore[no-any-return]


def observed(asked: Case, told: RunRecord, **given: Any) -> Observed:
    known = passages(*range(1, 20))
    return Observed(asked, told, known, given.pop("egress", Egress()), **given)


def measured(asked: Case, told: RunRecord, **given: Any) -> dict[str, Part]:
    """Every measure that has a part in the case."""
    seen = observed(asked, told, **given)
    found = {measure.name: measure.of(seen) for measure in all_measures()}
    return {name: part for name, part in found.items() if part is not None}


def row(
    case_id: str, *, right: bool = True, kind: str = "plain", parts: Mapping[str, Part] | None = None, **given: Any
) -> Row:
    made = Row(
        id=case_id,
        kind=kind,
        split="dev",
        wanted="answered",
        status="answered" if right else "partial",
        right=right,
        lost_at="" if right else "generate",
        parts={"right": (float(right), 1.0), "answerable: right": (float(right), 1.0), **(parts or {})},
        funnel=5 if right else 3,
        ms={"rerank_vector": 8.0, "total": 12.0},
    )
    return replace(made, **given)


def trial(rows: Sequence[Row], **about: Any) -> Trial:
    told = {"model": "quote", "split": "all", "cases": len(rows), "judge": "none", "installation": {}}
    return Trial({**told, **about}, rows, 5.0, 4.0, "2031-01-01T00:00:00+00:00")
