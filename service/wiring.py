"""The composition root: with the modules beside it in service/DESIGN.md, all that knows concrete classes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.api.deps import ApiState
from service.api.present import Presenter
from service.data_dir import make_data_dir, storage_state
from service.entrance import access_of, open_limiter
from service.graph.build import build_graph
from service.graph.history import History
from service.graph.runs import Runs
from service.graph.state import Limits, Services
from service.installation import installation_of, open_audit
from service.knowledge.sources import SourceRegistry
from service.links import Links
from service.llm.quote import Quote
from service.measuring import open_metrics, watch
from service.model import ComponentState
from service.models import choose_model, load_the_reranker, load_the_scorer, open_web
from service.observe.metrics import Metrics
from service.observing import feedback_observers, open_observers, states_of
from service.ports import AnswerModel, AuditSink, RateLimiter, RunObserver
from service.record import InstallationRecord
from service.sample import SAMPLE
from service.serve import listen_url
from service.settings import Settings
from service.skills.registry import Skills
from service.skills.report import state_of
from service.store import Progress, Store, open_store, timed
from service.thread_store import open_threads

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gatehouse:
    """The whole service, opened."""

    store: Store
    services: Services
    runs: Runs
    history: History
    api: ApiState


@dataclass(frozen=True, slots=True)
class Parts:
    """What the API needs of everything that was opened."""

    store: Store
    services: Services
    runs: Runs
    history: History
    audit: AuditSink
    model_for_run: Callable[[], AnswerModel]
    skills: Skills
    limiter: RateLimiter
    observers: Sequence[RunObserver]
    metrics: Metrics


def public_url(settings: Settings) -> str:
    """The base of links to this server, as readers reach it."""
    return settings.PUBLIC_URL.rstrip("/") or listen_url(settings.HOST, settings.PORT)


@asynccontextmanager
async def open_gatehouse(settings: Settings, progress: Progress, site: Path | None = None) -> AsyncIterator[Gatehouse]:
    """Open everything that answering needs.

    `site` is a folder to serve under /site/; a store that holds the sample has the sample's pages there in any case.
    """
    skills = await asyncio.to_thread(Skills.load, settings.SKILLS_DIR, optional=settings.skills_may_be_missing())
    async with AsyncExitStack() as stack:
        make_data_dir(settings.DATA_DIR)
        threads = await open_threads(settings, stack)  # first: what is wrong with it is said before the slow loading
        store = await stack.enter_async_context(open_store(settings, progress))
        services = await open_services(settings, store, progress, stack)
        audit = await open_audit(settings, stack)
        quote = Quote(services.support)
        model_for_run = await choose_model(settings, quote, stack)
        graph = build_graph(threads.checkpointer)
        history = History(graph, threads.checkpointer, threads.listing, threads.locks)
        metrics = open_metrics(stack)
        watching = await open_observers(settings, stack, audit, store.snapshots, [metrics.scores])
        stack.push_async_callback(audit.write_held)  # before observers are waited for, and after the last run
        observers = [metrics, *watching]
        runs = Runs(
            graph,
            history,
            services,
            model_for_run,
            audit=audit,
            installation=installed(settings, store, services, quote),
            observers=observers,
            stops=threads.stops,
            deadline_s=settings.RUN_DEADLINE_S,
            max_runs=settings.MAX_RUNS,
            max_runs_per_client=settings.MAX_RUNS_PER_CLIENT,
        )
        stack.push_async_callback(runs.close)
        limiter = await open_limiter(settings, stack)
        watch(metrics, runs, observers, store.embedder, (services.reranker, services.support), limiter)
        parts = Parts(store, services, runs, history, audit, model_for_run, skills, limiter, observers, metrics)
        api = api_state_of(settings, parts, site or sample_site(store.registry))
        warn_at_start([services.reranker.state(), model_for_run().state()])
        yield Gatehouse(store, services, runs, history, api)


async def open_services(settings: Settings, store: Store, progress: Progress, stack: AsyncExitStack) -> Services:
    """What all runs share: the rerankers and the web, beside the store. Raises `OperatorError`."""
    reranker = await timed("loading the reranker", progress, lambda: load_the_reranker(settings))
    scorer = await asyncio.to_thread(load_the_scorer, settings, reranker)
    web = open_web(settings, scorer, store.snapshots, stack)
    return Services(store.knowledge, reranker, scorer, web, store.snapshots, limits_of(settings))


def installed(settings: Settings, store: Store, services: Services, quote: Quote) -> InstallationRecord:
    return installation_of(
        settings,
        services.limits,
        store.embedder.identity,
        services.reranker,
        services.support,
        web=services.web,
        thresholds=quote.thresholds,
    )


def sample_site(registry: SourceRegistry) -> Path | None:
    """Citations of the sample lead to /site/, so its pages are served wherever it was ingested."""
    official = SAMPLE[0]
    return official.folder if registry.base_url(official.name) == official.base_url else None


def limits_of(settings: Settings) -> Limits:
    return Limits(
        retrieve_k=settings.RETRIEVE_K,
        top_n=settings.TOP_N,
        grade_mode=settings.GRADE_MODE,
        grade_concurrency=settings.GRADE_CONCURRENCY,
        web_strips=settings.WEB_STRIPS,
        max_rewrites=settings.MAX_REWRITES,
        max_regen=settings.MAX_REGEN,
        on_ungrounded=settings.ON_UNGROUNDED,
        handoff_text=settings.HANDOFF_TEXT,
    )


def api_state_of(settings: Settings, parts: Parts, site: Path | None) -> ApiState:
    store = parts.store
    return ApiState(
        runs=parts.runs,
        history=parts.history,
        knowledge=store.knowledge,
        snapshots=store.snapshots,
        presenter=Presenter(Links(store.registry.base_url, public_url(settings))),
        audit=parts.audit,
        readiness=partial(readiness_of, settings, parts),
        access=access_of(settings),
        limiter=parts.limiter,
        max_body_bytes=settings.MAX_BODY_BYTES,
        ping_s=settings.PING_S,
        site=site,
        skills=parts.skills,
        feedback_observers=feedback_observers(parts.observers),
        web_allowed=settings.WEB_SEARCH_ENABLED,
        metrics=parts.metrics,
        metrics_here=settings.WORKERS == 1 and not settings.METRICS_PORT,
    )


async def readiness_of(settings: Settings, parts: Parts) -> list[ComponentState]:
    """Each dependency as it is now, in the order of a question's way through them.

    Those that are asked are asked at once: one that hangs must not make a probe give up on the others.
    """
    store, services = parts.store, parts.services
    knowledge, threads, storage = await asyncio.gather(
        store.knowledge.state(), parts.history.readiness(), asyncio.to_thread(storage_state, settings.DATA_DIR)
    )
    return [
        knowledge,
        ComponentState("embedder", True, store.embedder.identity),
        services.reranker.state(),
        parts.model_for_run().state(),
        services.web.state(),
        state_of(parts.skills, lambda source: store.registry.get(source) is not None),
        threads,
        parts.audit.state(),
        parts.limiter.state(),
        *states_of(parts.observers),
        storage,
    ]


def warn_at_start(states: list[ComponentState]) -> None:
    for state in states:
        if state.warning:
            logger.warning("%s: %s", state.name, state.warning)
