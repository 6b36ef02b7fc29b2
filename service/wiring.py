"""The composition root: the one place that knows concrete classes. What it opens, it closes."""

import asyncio
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from service.api.deps import ApiState
from service.api.present import Presenter
from service.entrance import access_of, open_limiter
from service.errors import OperatorError
from service.graph.build import build_graph
from service.graph.history import History
from service.graph.run import Runs
from service.graph.state import Limits, Services
from service.installation import installation_of, open_audit
from service.knowledge.embed import Embedder, packaged_model
from service.knowledge.ingest import Ingestor
from service.knowledge.milvus import MilvusKnowledge
from service.knowledge.snapshots import Snapshots
from service.knowledge.sources import SourceRegistry
from service.knowledge.tuned import NAME as TUNED
from service.knowledge.tuned import load_tuned
from service.links import Links
from service.llm.claude import Claude
from service.llm.fallback import WithFallback
from service.llm.quote import Quote
from service.measuring import open_metrics, watch
from service.model import ComponentState
from service.observe.metrics import Metrics
from service.observing import open_observers
from service.ports import AnswerModel, AuditSink, RateLimiter, Reranker, WebSearch
from service.rerank.choose import load_reranker
from service.rerank.shipped import NAME as SHIPPED
from service.rerank.shipped import load_shipped
from service.sample import SAMPLE
from service.serve import listen_url
from service.settings import Settings
from service.skills.registry import Skills
from service.skills.report import state_of
from service.thread_store import open_threads
from service.web.duckduckgo import DuckDuckGo, WebLimits
from service.web.engine import DuckDuckGoEngine
from service.web.fetch import Fetcher, SystemResolver
from service.web.masking import Masks
from service.web.off import NoWeb

logger = logging.getLogger(__name__)

LEAST_FREE_MB = 100

Progress = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Store:
    """What ingesting needs: the embedder, the index and the snapshots."""

    embedder: Embedder
    knowledge: MilvusKnowledge
    snapshots: Snapshots
    registry: SourceRegistry
    ingestor: Ingestor


@dataclass(frozen=True, slots=True)
class Gatehouse:
    """The whole service, opened."""

    store: Store
    services: Services
    runs: Runs
    history: History
    api: ApiState


def public_url(settings: Settings) -> str:
    """The base of links to this server, as readers reach it."""
    return settings.PUBLIC_URL.rstrip("/") or listen_url(settings.HOST, settings.PORT)


@asynccontextmanager
async def open_store(settings: Settings, progress: Progress) -> AsyncIterator[Store]:
    """Open the embedder, Milvus and the snapshots. Raises `OperatorError` or `KnowledgeBaseError`."""
    make_data_dir(settings.DATA_DIR)
    embedder = await timed("loading the embedding model", progress, lambda: load_embedder(settings))
    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        knowledge = await MilvusKnowledge.open(
            settings.milvus_uri(),
            token=settings.MILVUS_TOKEN.get_secret_value(),
            embedder=embedder,
            timeout_s=settings.MILVUS_TIMEOUT_S,
        )
        stack.push_async_callback(knowledge.close)
        progress(f"opening the store: {time.perf_counter() - began:.1f} s")
        snapshots = Snapshots(settings.DATA_DIR / "snapshots")
        registry = SourceRegistry(settings.DATA_DIR / "sources.json")
        registry.get("")  # a damaged file is found now, not at the first link
        ingestor = Ingestor(
            knowledge, snapshots, registry, count_tokens=embedder.count_tokens, max_tokens=embedder.max_tokens
        )
        yield Store(embedder, knowledge, snapshots, registry, ingestor)


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
        reranker = await timed("loading the reranker", progress, lambda: load_the_reranker(settings))
        scorer = await asyncio.to_thread(load_the_scorer, settings, reranker)
        web = open_web(settings, scorer, store.snapshots, stack)
        services = Services(store.knowledge, reranker, scorer, web, store.snapshots, limits_of(settings))
        audit = await open_audit(settings, stack)
        model_for_run = await choose_model(settings, Quote(scorer), stack)
        graph = build_graph(threads.checkpointer)
        history = History(graph, threads.checkpointer, threads.listing, threads.locks)
        metrics = open_metrics(stack)
        observers = [metrics, *await open_observers()]
        runs = Runs(
            graph,
            history,
            services,
            model_for_run,
            audit=audit,
            installation=installation_of(settings, services.limits, store.embedder.identity, reranker, scorer),
            observers=observers,
            deadline_s=settings.RUN_DEADLINE_S,
            max_runs=settings.MAX_RUNS,
            max_runs_per_client=settings.MAX_RUNS_PER_CLIENT,
        )
        stack.push_async_callback(runs.close)
        limiter = await open_limiter(settings, stack)
        watch(metrics, runs, observers, store.embedder, (reranker, scorer), limiter)
        site = site or sample_site(store.registry)
        api = api_state_of(
            settings, store, services, runs, history, audit, model_for_run, skills, limiter, site, metrics
        )
        warn_at_start([reranker.state(), model_for_run().state()])
        yield Gatehouse(store, services, runs, history, api)


def sample_site(registry: SourceRegistry) -> Path | None:
    """Citations of the sample lead to /site/, so its pages are served wherever it was ingested."""
    official = SAMPLE[0]
    return official.folder if registry.base_url(official.name) == official.base_url else None


def load_embedder(settings: Settings) -> Embedder:
    if settings.EMBEDDING_MODEL == TUNED:
        return load_tuned(threads=settings.TORCH_THREADS)
    return Embedder.load(settings.EMBEDDING_MODEL, threads=settings.TORCH_THREADS)


def load_the_reranker(settings: Settings) -> Reranker:
    return load_reranker(
        settings.RERANKER_MODEL,
        base=packaged_model(),
        threads=settings.TORCH_THREADS,
        max_concurrent=settings.RERANK_CONCURRENCY,
    )


def load_the_scorer(settings: Settings, reranker: Reranker) -> Reranker:
    """The shipped cross-encoder: only its scores are calibrated, so Quote's thresholds hold for no other."""
    if reranker.name == SHIPPED:
        return reranker
    return load_shipped(packaged_model(), threads=settings.TORCH_THREADS, max_concurrent=settings.RERANK_CONCURRENCY)


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


def open_web(settings: Settings, scorer: Reranker, snapshots: Snapshots, stack: AsyncExitStack) -> WebSearch:
    """The web, or its absence. Nothing is sent before a request asks. Raises `OperatorError` for the mask file."""
    if not settings.WEB_SEARCH_ENABLED:
        return NoWeb()
    masks = Masks.load(Path(settings.WEB_MASK_FILE)) if settings.WEB_MASK_FILE else Masks()
    resolver = SystemResolver()
    stack.callback(resolver.close)
    limits = WebLimits(budget_s=settings.WEB_BUDGET_S, strips=settings.WEB_STRIPS)
    return DuckDuckGo(DuckDuckGoEngine(), Fetcher(resolver), masks, scorer, snapshots, limits)


async def choose_model(settings: Settings, quote: Quote, stack: AsyncExitStack) -> Callable[[], AnswerModel]:
    """The model that each run gets. The fallback is made per run: once it has switched, that run stays switched."""
    if settings.provider() == "quote":
        return lambda: quote
    claude = Claude.connect(
        api_key=settings.ANTHROPIC_API_KEY.get_secret_value(),
        base_url=settings.ANTHROPIC_BASE_URL,
        answer_model=settings.ANSWER_MODEL,
        gate_model=settings.GATE_MODEL,
        max_tokens=settings.ANSWER_MAX_TOKENS,
        gap_timeout_s=settings.MODEL_SILENCE_S,
        total_timeout_s=settings.MODEL_TIMEOUT_S,
    )
    stack.push_async_callback(claude.aclose)
    if settings.MODEL_FALLBACK == "quote":
        return lambda: WithFallback(claude, quote)
    return lambda: claude


def api_state_of(
    settings: Settings,
    store: Store,
    services: Services,
    runs: Runs,
    history: History,
    audit: AuditSink,
    model_for_run: Callable[[], AnswerModel],
    skills: Skills,
    limiter: RateLimiter,
    site: Path | None,
    metrics: Metrics,
) -> ApiState:
    async def readiness() -> list[ComponentState]:
        return [
            await store.knowledge.state(),
            ComponentState("embedder", True, store.embedder.identity),
            services.reranker.state(),
            model_for_run().state(),
            services.web.state(),
            state_of(skills, lambda source: store.registry.get(source) is not None),
            await history.readiness(),
            audit.state(),
            limiter.state(),
            await asyncio.to_thread(storage_state, settings.DATA_DIR),
        ]

    return ApiState(
        runs=runs,
        history=history,
        knowledge=store.knowledge,
        snapshots=store.snapshots,
        presenter=Presenter(Links(store.registry.base_url, public_url(settings))),
        audit=audit,
        readiness=readiness,
        access=access_of(settings),
        limiter=limiter,
        max_body_bytes=settings.MAX_BODY_BYTES,
        ping_s=settings.PING_S,
        instance=secrets.token_hex(8),
        site=site,
        skills=skills,
        metrics=metrics,
        metrics_here=settings.WORKERS == 1 and not settings.METRICS_PORT,
    )


def make_data_dir(folder: Path) -> None:
    """Raises `OperatorError` where DATA_DIR cannot be a folder that this process writes to."""
    try:
        # It holds what people asked: a folder that we make is for its owner only.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OperatorError(
            f"DATA_DIR={folder} cannot be used ({error.strerror}). Name a folder to write to."
        ) from None


def storage_state(folder: Path) -> ComponentState:
    """Threads and snapshots need room: a full disk is not ready."""
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    return ComponentState("storage", free_mb >= LEAST_FREE_MB, f"{free_mb} MB free in DATA_DIR")


async def timed(what: str, progress: Progress, work: Callable[[], T]) -> T:
    progress(f"{what} ...")
    began = time.perf_counter()
    result = await asyncio.to_thread(work)
    progress(f"{what}: {time.perf_counter() - began:.1f} s")
    return result


def warn_at_start(states: list[ComponentState]) -> None:
    for state in states:
        if state.warning:
            logger.warning("%s: %s", state.name, state.warning)
