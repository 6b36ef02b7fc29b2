"""The gates: which passages are relevant, is the draft grounded, does it answer. They fail closed (invariant 6)."""

import asyncio
from collections.abc import Sequence

from service.citations.grounding import missing_quotations
from service.errors import DependencyError, ModelUnavailable, ModelUnusable
from service.graph.state import Deps, Outcome, State
from service.model import Candidate, Gate, Grade, Judgement, Passage, Verdict, is_down


async def grade_documents(state: State, deps: Deps) -> Outcome:
    """Gate 1: drop every passage that is not relevant. Raises `ModelUnusable` when no grade can be believed.

    A passage that was graded in an earlier pass of this run keeps its grade; after an `error` it is asked again. What
    the skill may not read is not graded, so that it is neither named nor numbered (invariant 13).
    """
    found = {c.passage.passage_id: c for c in deps.readable([*state["ranked"], *state["web"].strips])}
    grades = dict(state["grades"])
    ungraded = [c.passage for pid, c in found.items() if pid not in grades or grades[pid].result == "error"]
    fresh = await grade_all(state["standalone"], ungraded, deps)
    grades.update({passage.passage_id: grade for passage, grade in zip(ungraded, fresh, strict=True)})
    kept = [c for pid, c in found.items() if grades[pid].result == "pass"]
    deps.trail.graded(list(found.values()), grades)
    verdict = documents_verdict([grades[pid] for pid in found], kept)
    deps.transcript.verdict(verdict)
    if verdict.result == "error":
        raise no_grades([grades[pid] for pid in found])
    update: State = {"grades": grades, "kept": kept, "seen": {**state["seen"], **found}}
    return Outcome(update, n_in=len(found), n_out=len(kept), reason=verdict.reason)


def no_grades(grades: Sequence[Grade]) -> DependencyError:
    """Why no grade can be believed: the model does not answer, or answers what is no grade."""
    if is_down(grades):
        return ModelUnavailable("The language model does not answer, so nothing could be graded. Please try again.")
    return ModelUnusable("The passages could not be graded, so nothing is answered. Please try again.")


async def grade_all(question: str, passages: Sequence[Passage], deps: Deps) -> list[Grade]:
    if not passages:
        return []
    if deps.limits.grade_mode == "batch":
        return await deps.model.grade(question, passages, deps.usage, deps.skill.gates.grading_hint)
    slots = asyncio.Semaphore(deps.limits.grade_concurrency)

    async def one(passage: Passage) -> Grade:
        async with slots:
            return (await deps.model.grade(question, [passage], deps.usage, deps.skill.gates.grading_hint))[0]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(passage)) for passage in passages]
    return [task.result() for task in tasks]


def documents_verdict(grades: Sequence[Grade], kept: Sequence[Candidate]) -> Verdict:
    if kept:
        return Verdict("documents", "pass", "relevant")
    if not grades:
        return Verdict("documents", "fail", "no_candidates")
    if all(grade.result == "error" for grade in grades):
        return Verdict("documents", "error", "not_assessed", grades[0].words)
    some_unknown = any(grade.result == "error" for grade in grades)
    return Verdict("documents", "fail", "not_all_assessed" if some_unknown else "nothing_relevant")


async def reflect(state: State, deps: Deps) -> Outcome:
    """Gates 2 and 3, at the same time: is the draft grounded, does it answer the question?

    Rules come before the judge: a draft with a marker that is no source, without any citation, or with a quotation that
    stands in none of the sources it cites is not grounded, and no judge is asked whether it is.
    """
    if state["cut"]:
        grounded = Verdict("grounded", "skipped", "cut_short", state["cut"])
        answers = Verdict("answers", "skipped", "cut_short", state["cut"])
    else:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(judge_grounded(state, deps))
            second = group.create_task(judge_answers(state, deps))
        grounded, answers = first.result(), second.result()
    deps.transcript.verdict(grounded)
    deps.transcript.verdict(answers)
    reason = ",".join(v.reason for v in (grounded, answers) if v.result != "pass") or "passed"
    return Outcome({"grounded": grounded, "answers": answers}, reason=reason)


async def judge_grounded(state: State, deps: Deps) -> Verdict:
    broken = await asyncio.to_thread(broken_rule, state)
    if broken is not None:
        return broken
    said = await deps.model.judge_grounded(state["standalone"], state["draft"], state["sources"], deps.usage)
    return verdict_of("grounded", said, "not_grounded")


async def judge_answers(state: State, deps: Deps) -> Verdict:
    said = await deps.model.judge_answers(state["standalone"], state["draft"], state["sources"], deps.usage)
    return verdict_of("answers", said, "off_topic")


def broken_rule(state: State) -> Verdict | None:
    """The verdict of the rules that need no model, or None where the draft keeps them."""
    if state["unresolved"]:
        words = f"It cites {', '.join(state['unresolved'])}, which is not among the sources."
        return Verdict("grounded", "fail", "unresolved_marker", words)
    if not any(f"[[{source.n}]]" in state["draft"] for source in state["sources"]):
        return Verdict("grounded", "fail", "no_citation", "It cites no source.")
    missing = missing_quotations(state["draft"], state["sources"])
    if missing:
        return Verdict("grounded", "fail", "quote_not_found", f"No cited source says: {missing[0]}")
    return None


def verdict_of(gate: Gate, said: Judgement, failed: str) -> Verdict:
    """What is neither pass nor fail is an error (invariant 6)."""
    if said.result == "pass":
        return Verdict(gate, "pass", "passed", said.words)
    if said.result == "fail":
        return Verdict(gate, "fail", failed, said.words)
    return Verdict(gate, "error", "not_assessed", said.words)
