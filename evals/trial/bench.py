"""The product's own graph and runs over the sample knowledge base, and one case after another asked of it."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from evals.golden_set import Case
from evals.house import open_sample, remember_all
from evals.runs import start_run
from evals.train_samples import sample_passages
from evals.trial.judge import Judge, NoJudge, expected_answer
from evals.trial.kept import KeptRecords
from evals.trial.measures import all_measures
from evals.trial.observed import Observed, kept_in, key_of
from evals.trial.probes import Evidence, Probed, fitting_other, probe
from evals.trial.trial import Row, Trial, row_of
from evals.trial.watched import Watched
from evals.trial.web import Remembered, counting, open_loopback_web
from service.graph.state import Services
from service.installation import installation_of
from service.llm.quote import Quote
from service.model import Passage
from service.models import choose_model, load_the_reranker, load_the_scorer
from service.observe.scorable import Scorable
from service.ports import AnswerModel
from service.record import InstallationRecord, RunRecord
from service.settings import Settings
from service.skills.registry import Skills
from service.skills.skill import NO_SKILL
from service.store import Progress
from service.wiring import limits_of


@dataclass(slots=True)
class Bench:
    """What a trial asks. `passages` are the knowledge base's, for the probes; `judge` scores what was answered.

    `remembers`: pairs that were scored before are not scored again, so times are not the product's.
    """

    services: Services
    model_for_run: Callable[[], AnswerModel]
    installation: InstallationRecord
    web: Remembered
    skills: Skills = field(default_factory=Skills)
    passages: Sequence[Passage] = ()
    judge: Judge = field(default_factory=NoJudge)
    deadline_s: float = 180.0
    remembers: bool = False

    async def ask(self, case: Case) -> Observed:
        """Ask one case on a thread of its own that holds its history. Its record is the product's."""
        skill = self.skills.get(case.skill) if case.skill else NO_SKILL
        watched, kept = Watched(self.services.knowledge), KeptRecords()
        egress = counting()
        run = await start_run(
            case,
            replace(self.services, knowledge=watched),
            self.model_for_run,
            audit=kept,
            installation=self.installation,
            deadline_s=self.deadline_s,
            web_search=case.web_search,
            skill=skill,
        )
        async for _ in run.events():
            pass
        record = kept.runs[run.run_id]
        passages = {**watched.passages, **self.web.passages}
        return Observed(case, record, passages, egress, watched.leaked)

    async def observe(self, case: Case, evidence: tuple[Evidence, Evidence] | None) -> Observed:
        """Ask, then judge the answer and probe the judges: after the run, so that neither is among its times."""
        observed = await self.ask(case)
        wanted = expected_answer(case)
        judged = await self.judge.scores(as_written(observed), wanted) if observed.has_draft else {}
        probes = await self._probes(observed, evidence) if evidence else ()
        return replace(observed, judged=judged, probes=probes)

    async def _probes(self, observed: Observed, evidence: tuple[Evidence, Evidence]) -> tuple[Probed, ...]:
        question = observed.record["standalone"] or observed.case.question
        return await probe(self.model_for_run(), question, observed.case, *evidence)

    def evidence_for(self, cases: Sequence[Case]) -> list[tuple[Evidence, Evidence] | None]:
        """For each case the passage that answers and one of another question; None where it cannot be probed."""
        found = [self._evidence(case) for case in cases]
        pairs = zip(found, (fitting_other(found, index) for index in range(len(found))), strict=True)
        return [(own, other) if own and other else None for own, other in pairs]

    def _evidence(self, case: Case) -> Evidence | None:
        if not case.expected:
            return None
        expected = case.expected[0]
        passage = next((passage for passage in self.passages if expected.is_in(passage)), None)
        return Evidence(expected, passage) if passage else None


def as_written(observed: Observed) -> Scorable:
    """The answer and what its draft was written from: the passages that the last pass kept, best first."""
    record = observed.record
    numbers = {key_of(source): source["n"] for source in record["sources"]}
    kept = [key for key in kept_in(record["passes"][-1]) if key in numbers]
    question = record["standalone"] or record["question"]
    return Scorable(question, record["answer"], {numbers[key]: observed.passages[key].text for key in kept})


Tell = Callable[[Observed, int, int], None]


async def run_trial(bench: Bench, cases: Sequence[Case], about: Mapping[str, Any], tell: Tell) -> Trial:
    """Ask every case, one after another, so that times are those of one run alone. `tell` hears of each."""
    began, cpu_began = time.perf_counter(), time.process_time()
    rows: list[Row] = []
    for number, (case, evidence) in enumerate(zip(cases, bench.evidence_for(cases), strict=True), start=1):
        observed = await bench.observe(case, evidence)
        rows.append(row_of(observed, all_measures()))
        tell(observed, number, len(cases))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Trial(about, rows, time.perf_counter() - began, time.process_time() - cpu_began, now)


def about_of(bench: Bench, model: str, split: str, cases: Sequence[Case]) -> dict[str, Any]:
    """What a reader needs to ask the same again. Nothing of it changes from run to run."""
    asked = {
        "model": model,
        "split": split,
        "cases": len(cases),
        "judge": bench.judge.name,
        "remembered": bench.remembers,
    }
    return {**asked, "installation": dict(bench.installation)}


@asynccontextmanager
async def open_bench(
    settings: Settings,
    progress: Progress,
    *,
    remember: bool = False,
    judge: Judge | None = None,
) -> AsyncIterator[Bench]:
    """Open the product over the sample, with the loopback web.

    `remember`: each pair is scored once, which is faster; the times are then not those of the product.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_sample(settings, progress))
        reranker = load_the_reranker(settings)
        scorer = load_the_scorer(settings, reranker)
        if remember:
            remember_all(reranker, scorer)
        limits = limits_of(settings)
        web = await stack.enter_async_context(open_loopback_web(scorer, store.snapshots, strips=settings.WEB_STRIPS))
        services = Services(store.knowledge, reranker, scorer, web, store.snapshots, limits)
        yield Bench(
            services,
            await choose_model(settings, Quote(scorer), stack),
            installation_of(settings, limits, store.embedder.identity, reranker, scorer),
            web,
            Skills.load(settings.SKILLS_DIR),
            sample_passages(store.embedder.count_tokens, store.embedder.max_tokens),
            judge or NoJudge(),
            settings.RUN_DEADLINE_S,
            remember,
        )


def shown(record: RunRecord) -> str:
    """How a run ended, in a few words."""
    ending = record["ending"]
    return f"{ending['outcome']} {ending['code']}".strip()
