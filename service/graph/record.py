"""What a run leaves in the audit log, put together at its end from what was kept as it happened."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from service.graph.events import Done, Failed, Terminal
from service.graph.run import Run
from service.graph.state import Limits
from service.graph.trail import by_number
from service.model import Scope, Turn
from service.record import (
    CallRecord,
    CapsRecord,
    CitationRecord,
    EndingRecord,
    FilterRecord,
    InstallationRecord,
    Outcome,
    RunRecord,
    SkillRecord,
    StoppedBy,
)
from service.skills.skill import Skill
from service.usage import ModelCall, Usage

OUTCOME_OF: Mapping[str, Outcome] = {"cancelled": "cancelled", "deadline_exceeded": "deadline"}


def record_of(run: Run, terminal: Terminal, installation: InstallationRecord) -> RunRecord:
    """The run's record. Where it has no answer, `answer` is what its reader had been shown, and `complete` is False."""
    request, deps, transcript = run.request, run.deps, run.transcript
    turn = terminal.turn if isinstance(terminal, Done) else None
    return {
        "run_id": run.run_id,
        "client": request.ref.client,
        "thread_id": request.ref.thread_id,
        "thread_key": request.ref.key,
        "asked_at": run.asked_at,
        "ended_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "ending": ending_of(terminal, run.stopped_by if turn is None else ""),
        "question": request.question,
        "standalone": deps.trail.standalone,
        "web_search": request.web_search,
        "delivery": deps.delivery,
        "skill": skill_of(request.skill),
        "filter": filter_of(deps.scope),
        "caps": caps_of(deps.limits),
        "sent_to_web": list(transcript.sent_to_web),
        "passes": deps.trail.passes,
        "forks": deps.trail.forks,
        "registered_before": deps.trail.registered_before,
        "sources": by_number(transcript.named),
        "drafts": deps.trail.drafts,
        "answer": turn["answer"] if turn else transcript.shown,
        "complete": turn is not None,
        "warning": turn["warning"] if turn else "",
        "warnings": list(transcript.warned),
        "citations": citations_of(turn) if turn else [],
        "verdicts": transcript.judged,
        "model": deps.model.name,
        "installation": installation,
        "prompts": dict(deps.usage.prompts),
        "usage": usage_of(deps.usage),
        "timings": transcript.timings(),
        "steps": transcript.steps,
        "calls": [call_record(request) for request in deps.usage.requests],
    }


def ending_of(terminal: Terminal, stopped_by: StoppedBy) -> EndingRecord:
    if isinstance(terminal, Failed):
        outcome: Outcome = OUTCOME_OF.get(terminal.code, "error")
        return {"outcome": outcome, "code": terminal.code, "message": terminal.message, "stopped_by": stopped_by}
    return {"outcome": terminal.turn["status"], "code": "", "message": "", "stopped_by": ""}


def skill_of(skill: Skill) -> SkillRecord | None:
    return {"name": skill.name, "sha256": skill.sha256} if skill.name else None


def filter_of(scope: Scope) -> FilterRecord:
    return {
        "sources": None if scope.sources is None else sorted(scope.sources),
        "kinds": None if scope.kinds is None else sorted(scope.kinds),
        "web": scope.web,
        "domains": None if scope.domains is None else sorted(scope.domains),
    }


def caps_of(limits: Limits) -> CapsRecord:
    return {
        "top_n": limits.top_n,
        "max_rewrites": limits.max_rewrites,
        "max_regen": limits.max_regen,
        "on_ungrounded": limits.on_ungrounded,
    }


def citations_of(turn: Turn) -> list[CitationRecord]:
    return [
        {"n": c["n"], "quote": c["quote"], "support": c["support"], "status": c["status"]} for c in turn["citations"]
    ]


def call_record(request: ModelCall) -> CallRecord:
    began_at = datetime.fromtimestamp(request.began_at, UTC).isoformat(timespec="milliseconds")
    return {
        "name": request.name,
        "model": request.model,
        "prompt_sha256": request.prompt_sha256,
        "began_at": began_at,
        "ms": round(request.ms, 1),
        "input_tokens": request.input_tokens,
        "output_tokens": request.output_tokens,
        "cost_usd": round(request.cost_usd, 6),
        "stop_reason": request.stop_reason,
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """The totals, and the logical calls by name."""
    return {
        "model_calls": usage.model_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": round(usage.cost_usd, 6),
        "calls": dict(usage.calls),
    }
