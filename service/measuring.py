"""The part of the composition root that counts: what the metrics read from the parts that keep numbers themselves."""

from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Protocol, runtime_checkable

from service.errors import OperatorError
from service.graph.runs import Runs
from service.observe.metrics import Metrics
from service.ports import RateLimiter, Reranker, RunObserver
from service.ratelimit.fallback import WithFallback
from service.settings import Settings


@runtime_checkable
class Queueing(Protocol):
    """A bounded resource: how many calls wait for it or hold it."""

    @property
    def waiting(self) -> int: ...


@runtime_checkable
class Lossy(Queueing, Protocol):
    """An observer with a bounded queue: how many `what` (traces, scores) it has given up since the start."""

    @property
    def what(self) -> str: ...

    @property
    def dropped(self) -> int: ...


@runtime_checkable
class Sifted(Protocol):
    """An observer of whose runs single spans were refused since the start."""

    @property
    def refused_spans(self) -> int: ...


def open_metrics(stack: AsyncExitStack) -> Metrics:
    metrics = Metrics()
    metrics.lag.start()
    stack.push_async_callback(metrics.lag.aclose)
    return metrics


@contextmanager
def own_port(metrics: Metrics, settings: Settings, worker: int) -> Iterator[None]:
    """Serve the metrics on METRICS_PORT, or nowhere else than on PORT. Raises `OperatorError`."""
    if not settings.METRICS_PORT:
        yield
        return
    port = settings.METRICS_PORT + worker
    try:
        close = metrics.listen(settings.HOST, port)
    except OSError as error:
        raise OperatorError(
            f"METRICS_PORT: cannot listen on {settings.HOST}:{port} ({error.strerror}). Choose another METRICS_PORT, "
            "for example 9123; worker N takes the Nth port after it."
        ) from None
    try:
        yield
    finally:
        close()


def watch(
    metrics: Metrics,
    runs: Runs,
    observers: Iterable[RunObserver],
    embedder: Queueing,
    rerankers: Iterable[Reranker],
    limiter: RateLimiter,
) -> None:
    """Let the metrics read what these keep. Two rerankers may be one and the same."""
    ranking = {id(reranker): reranker for reranker in rerankers if isinstance(reranker, Queueing)}
    metrics.running(lambda: runs.running)
    metrics.queue("embed", lambda: embedder.waiting)
    metrics.queue("rerank", lambda: sum(reranker.waiting for reranker in ranking.values()))
    if isinstance(limiter, WithFallback):
        metrics.limited_alone(lambda: limiter.failopen_total)
    for observer in observers:
        if isinstance(observer, Lossy):
            watch_queue(metrics, observer)


def watch_queue(metrics: Metrics, observer: Lossy) -> None:
    metrics.queue(observer.what, lambda: observer.waiting)
    metrics.dropped(observer.what, lambda: observer.dropped)
    if isinstance(observer, Sifted):
        metrics.dropped("spans", lambda: observer.refused_spans)
