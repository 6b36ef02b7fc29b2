"""One question asked of the product's own graph, on a thread of its own in memory that holds the question's history."""

from collections.abc import Callable

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from evals.seed import Question, turns_of
from service.graph.build import build_graph
from service.graph.history import History, config_of
from service.graph.run import Request, Run
from service.graph.runs import Runs
from service.graph.state import Services
from service.model import Delivery
from service.ports import AnswerModel, AuditSink
from service.record import InstallationRecord
from service.skills.skill import NO_SKILL, Skill
from service.threads import ThreadRef

CLIENT = "evals"


async def start_run(
    question: Question,
    services: Services,
    model_for_run: Callable[[], AnswerModel],
    *,
    audit: AuditSink,
    installation: InstallationRecord,
    deadline_s: float,
    web_search: bool = False,
    delivery: Delivery = "draft",
    skill: Skill = NO_SKILL,
) -> Run:
    """Begin the run; its events are the caller's to read. Nothing is shared with the run of another question."""
    saver, ref = InMemorySaver(), ThreadRef(CLIENT, question.id, skill.name)
    graph = build_graph(saver)
    if question.history:
        await graph.aupdate_state(config_of(ref), {"turns": turns_of(question)}, as_node="finalize")
    runs = Runs(
        graph,
        History(graph, saver, InMemoryStore()),
        services,
        model_for_run,
        audit=audit,
        installation=installation,
        deadline_s=deadline_s,
        max_runs=1,
        max_runs_per_client=1,
    )
    return runs.start(Request(ref, question.question, web_search, delivery, skill))
