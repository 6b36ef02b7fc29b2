"""A run's record as the tree that a trace shows: the run, its steps, and the model's requests under their steps.

Built from the record alone, after the run's end, so nothing of it can be lost in a stream or hang under another run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from service.observe.steps import told_of
from service.record import CallRecord, Outcome, RunRecord, StepRecord

Level = Literal["DEFAULT", "WARNING", "ERROR"]

NODE_OF = {
    "condense": "contextualize",
    "web_query": "search_web",
    "grade": "grade_documents",
    "rewrite": "rewrite_query",
    "answer": "generate",
    "judge_grounded": "reflect",
    "judge_answers": "reflect",
}
"""The step that makes each logical call of the model."""

LEVELS: Mapping[Outcome, Level] = {"error": "ERROR", "deadline": "WARNING", "cancelled": "WARNING"}


@dataclass(frozen=True, slots=True)
class Observation:
    """One span of a trace. `input`, `output` and `content` hold text; `metadata` holds codes, ids and numbers only.

    `model`, `usage` (tokens) and `cost_usd` are those of a generation.
    """

    name: str
    began: datetime
    ended: datetime
    kind: Literal["span", "generation"] = "span"
    input: Any = None
    output: Any = None
    content: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    level: Level = "DEFAULT"
    status: str = ""
    model: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float = 0.0
    children: tuple["Observation", ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A run's tree, and whose it is: `session` is the client's thread, `user` the client."""

    run_id: str
    session: str
    user: str
    tags: list[str]
    root: Observation


def trace_of(record: RunRecord) -> Trace:
    skill = record["skill"]["name"] if record["skill"] else "none"
    tags = [f"skill:{skill}", f"web:{'on' if record['web_search'] else 'off'}"]
    return Trace(record["run_id"], record["thread_id"], record["client"], tags, root_of(record))


def root_of(record: RunRecord) -> Observation:
    steps = steps_of(record)
    ending, ended = record["ending"], datetime.fromisoformat(record["ended_at"])
    began = ended - timedelta(milliseconds=record["timings"].get("total", 0.0))
    return Observation(
        name="run",
        # Clocks of two kinds measured them, in whole milliseconds: a step never sticks out of its run.
        began=min([began, *(step.began for step in steps)]),
        ended=max([ended, *(step.ended for step in steps)]),
        input=record["question"],
        output=record["answer"],
        content={"standalone": record["standalone"], "warning": record["warning"], "message": ending["message"]},
        metadata=metadata_of(record),
        level=LEVELS.get(ending["outcome"], "DEFAULT"),
        status=ending["code"],
        children=tuple(steps),
    )


def metadata_of(record: RunRecord) -> dict[str, Any]:
    ending, forks = record["ending"], record["forks"]
    return {
        "run_id": record["run_id"],
        "outcome": ending["outcome"],
        "code": ending["code"],
        "stopped_by": ending["stopped_by"],
        "complete": record["complete"],
        "verdicts": [
            {key: verdict[key] for key in ("attempt", "gate", "result", "reason")} for verdict in record["verdicts"]
        ],
        "route": [f"{fork['after']} -> {fork['to']}" for fork in forks],
        "rewrites": forks[-1]["rewrites"] if forks else 0,
        "regens": forks[-1]["regens"] if forks else 0,
        "prompts": record["prompts"],
        "skill": record["skill"],
        "delivery": record["delivery"],
        "model": record["model"],
        "usage": record["usage"],
        "version": record["installation"]["version"],
    }


def steps_of(record: RunRecord) -> list[Observation]:
    """The steps in the order of their beginning. A request whose step is not known becomes a child of the run."""
    steps = record["steps"]
    made_in = [place_of(call, steps) for call in record["calls"]]
    found = [
        step_of(record, step, [call for call, place in zip(record["calls"], made_in, strict=True) if place == index])
        for index, step in enumerate(steps)
    ]
    stray = [generation(call) for call, place in zip(record["calls"], made_in, strict=True) if place is None]
    return sorted([*found, *stray], key=lambda item: item.began)


def place_of(call: CallRecord, steps: Sequence[StepRecord]) -> int | None:
    """The step that was under way when the request began: the last of its node that had begun by then."""
    node = NODE_OF.get(call["name"], "")
    began = [index for index, step in enumerate(steps) if step["node"] == node]
    before = [index for index in began if steps[index]["began_at"] <= call["began_at"]]
    chosen = before or began
    return chosen[-1] if chosen else None


def step_of(record: RunRecord, step: StepRecord, calls: Sequence[CallRecord]) -> Observation:
    began = datetime.fromisoformat(step["began_at"])
    unfinished = step["ms"] is None
    ended = datetime.fromisoformat(record["ended_at"]) if step["ms"] is None else later(began, step["ms"])
    made = tuple(generation(call) for call in calls)
    told = told_of(record, step["node"], step["attempt"])
    return Observation(
        name=step["node"],
        began=min([began, *(child.began for child in made)]),
        ended=max([began, ended, *(child.ended for child in made)]),
        input=told.input,
        output=told.output,
        metadata={key: step[key] for key in ("attempt", "n_in", "n_out", "reason")} | told.metadata,
        level="WARNING" if unfinished else "DEFAULT",
        status="unfinished" if unfinished else "",
        children=made,
    )


def generation(call: CallRecord) -> Observation:
    began = datetime.fromisoformat(call["began_at"])
    return Observation(
        name=call["name"],
        kind="generation",
        began=began,
        ended=later(began, call["ms"]),
        metadata={"prompt_sha256": call["prompt_sha256"], "stop_reason": call["stop_reason"]},
        model=call["model"],
        usage={"input": call["input_tokens"], "output": call["output_tokens"]},
        cost_usd=call["cost_usd"],
    )


def later(began: datetime, ms: float) -> datetime:
    return began + timedelta(milliseconds=ms)
