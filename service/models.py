"""The part of the composition root that answers: rerankers, the answer model and the web, as settings choose them."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from service.knowledge.embed import packaged_model
from service.knowledge.snapshots import Snapshots
from service.llm.claude import Claude
from service.llm.fallback import WithFallback
from service.llm.quote import Quote
from service.ports import AnswerModel, Reranker, WebSearch
from service.rerank.choose import load_reranker
from service.rerank.cross_encoder import CrossEncoderReranker
from service.rerank.shipped import load_shipped
from service.settings import Settings
from service.web.duckduckgo import DuckDuckGo, WebLimits
from service.web.engine import DuckDuckGoEngine
from service.web.fetch import Fetcher, SystemResolver
from service.web.masking import Masks
from service.web.off import NoWeb


def load_the_reranker(settings: Settings) -> Reranker:
    return load_reranker(
        settings.RERANKER_MODEL,
        base=packaged_model(),
        threads=settings.TORCH_THREADS,
        max_concurrent=settings.RERANK_CONCURRENCY,
    )


def load_the_scorer(settings: Settings, reranker: Reranker) -> Reranker:
    """The shipped cross-encoder: only its scores are calibrated, so Quote's thresholds hold for no other.

    What was loaded decides, never a name: a folder may be called like the one that ships.
    """
    if isinstance(reranker, CrossEncoderReranker) and reranker.calibrated:
        return reranker
    return load_shipped(packaged_model(), threads=settings.TORCH_THREADS, max_concurrent=settings.RERANK_CONCURRENCY)


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
