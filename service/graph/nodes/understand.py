"""The steps that make and mend the question."""

from service.graph.state import Deps, Outcome, State


async def contextualize(state: State, deps: Deps) -> Outcome:
    """Make the question stand alone, and zero the counters. The first turn of a thread needs no model."""
    turns = state.get("turns", [])
    question = state["question"]
    standalone = await deps.model.condense(turns, question, deps.usage) if turns else question
    update: State = {
        "standalone": standalone,
        "query": standalone,
        "rewrites": 0,
        "regens": 0,
        "grades": {},
        "seen": {},
        "feedback": "",
        "refused": False,
        "abstained": False,
    }
    return Outcome(update, n_in=len(turns), reason="condensed" if standalone != question else "as_asked")


async def rewrite_query(state: State, deps: Deps) -> Outcome:
    """Gate 4: ask the store again in richer words."""
    reason = "off_topic" if state["kept"] else "nothing_relevant"
    deps.transcript.withdraw(reason)
    seen = [candidate.passage for candidate in state["candidates"]]
    query = await deps.model.rewrite(state["standalone"], state["query"], seen, deps.usage)
    update: State = {"query": query, "rewrites": state["rewrites"] + 1, "feedback": ""}
    return Outcome(update, n_in=len(seen), reason=reason)
