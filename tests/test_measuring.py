"""What the parts of the service keep themselves is in the metrics."""

from dataclasses import dataclass
from pathlib import Path

from service.measuring import watch
from service.observe.metrics import Metrics
from service.ratelimit.fallback import WithFallback
from service.ratelimit.memory import MemoryLimiter
from service.ratelimit.redis import RedisAway, RedisWindow
from service.record import RunRecord
from tests.fakes import FixedReranker, ScriptedModel, services
from tests.observe.scraped import read, value
from tests.running import House


@dataclass
class Embedding:
    waiting: int = 0


@dataclass
class Ranking(FixedReranker):
    waiting: int = 0


@dataclass
class Scoring:
    what: str = "scores"
    waiting: int = 0
    dropped: int = 0
    refused_spans: int = 0

    def ended(self, record: RunRecord) -> None: ...


async def test_queues_drops_and_the_limiters_fallbacks_are_read_from_those_who_keep_them(tmp_path: Path) -> None:
    home = House(services(tmp_path), ScriptedModel())
    metrics, embedder, ranking, scoring = Metrics(), Embedding(), Ranking(), Scoring()
    limiter = WithFallback(RedisWindow("redis://127.0.0.1:1/0", 5, 0.1), MemoryLimiter(5), RedisAway)
    watch(metrics, home.runs, [metrics, scoring], embedder, (ranking, ranking), limiter)
    embedder.waiting, ranking.waiting, scoring.waiting, scoring.dropped = 1, 2, 3, 4
    scoring.refused_spans = 5
    await limiter.take("alice")
    found = read(metrics)
    assert value(found, "gatehouse_queue_depth", queue="embed") == 1
    assert value(found, "gatehouse_queue_depth", queue="rerank") == 2
    assert value(found, "gatehouse_queue_depth", queue="scores") == 3
    assert value(found, "gatehouse_dropped_total", what="scores") == 4
    assert value(found, "gatehouse_dropped_total", what="spans") == 5
    assert value(found, "gatehouse_dropped_total", what="traces") == 0
    assert value(found, "gatehouse_limiter_fallbacks_total") == 1
    assert value(found, "gatehouse_runs_under_way") == 0
    await limiter.aclose()


async def test_a_service_that_ranks_nothing_and_limits_alone_shows_zeros(tmp_path: Path) -> None:
    metrics = Metrics()
    home = House(services(tmp_path), ScriptedModel())
    watch(metrics, home.runs, [metrics], Embedding(), (FixedReranker(),), MemoryLimiter(5))
    found = read(metrics)
    assert value(found, "gatehouse_queue_depth", queue="rerank") == 0
    assert value(found, "gatehouse_limiter_fallbacks_total") == 0
