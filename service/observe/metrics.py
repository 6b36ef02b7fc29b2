"""What Prometheus reads: runs, gates, loops, nodes, tokens, queues and the process, in a registry of its own.

Every label's values are words of the code, and few: never a client, a thread, a skill or a text.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    start_http_server,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from service.model import Gate, Result, WebStatus
from service.observe.loop_lag import LoopLag
from service.observe.route import path_of, paths_by_status, status_of
from service.observe.score_numbers import ScoreNumbers
from service.record import GradeRecord, RunRecord

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

NODE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
RUN_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
ASKED: tuple[WebStatus, ...] = ("ok", "empty", "unavailable", "forbidden")

Read = Callable[[], float]


class Kept(Collector):
    """A total that someone else keeps, read when Prometheus asks. `reads` are the numbers, by the label's value."""

    def __init__(self, name: str, documentation: str, label: str = "") -> None:
        self._name = name
        self._documentation = documentation
        self._label = label
        self.reads: dict[str, Read] = {}

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._documentation, labels=[self._label] if self._label else [])
        for value, read in self.reads.items():
            family.add_metric([value] if self._label else [], read())
        yield family

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._documentation)


class Numbers(CollectorRegistry):
    """A registry without the `_created` series: as many again, of no use to anyone here."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Metrics:
    """An observer of the runs, and the registry of all numbers.

    `scores` is told the scores of answers. What others keep is read through callables: `running`, `queue`,
    `limited_alone` and `dropped` take them.
    """

    def __init__(self) -> None:
        self.registry = registry = Numbers()
        self.lag = LoopLag()
        self.scores = ScoreNumbers(registry)
        self._runs = Counter(
            "gatehouse_runs_total", "Runs that ended, by outcome and path.", ["status", "path"], registry=registry
        )
        self._gates = Counter(
            "gatehouse_gate_results_total",
            "Results of the gates: one per passage for documents, one per draft for grounded and answers.",
            ["gate", "result"],
            registry=registry,
        )
        self._rewrites = Counter("gatehouse_rewrites_total", "Rewrites of the query.", registry=registry)
        self._regens = Counter("gatehouse_regens_total", "Further drafts after one not grounded.", registry=registry)
        self._web = Counter(
            "gatehouse_web_status_total", "Web searches that a person asked for.", ["status"], registry=registry
        )
        self._nodes = Histogram(
            "gatehouse_node_seconds", "Time of one node.", ["node"], buckets=NODE_BUCKETS_S, registry=registry
        )
        self._seconds = Histogram(
            "gatehouse_run_seconds", "Time of a run, to its end.", buckets=RUN_BUCKETS_S, registry=registry
        )
        self._calls = Counter("gatehouse_model_calls_total", "Logical model calls.", ["call"], registry=registry)
        self._tokens = Counter("gatehouse_tokens_total", "Tokens of the model API.", ["kind"], registry=registry)
        self._cost = Counter("gatehouse_cost_usd_total", "What the model calls cost, in USD.", registry=registry)
        self._running = Gauge("gatehouse_runs_under_way", "Runs under way.", registry=registry)
        self._queues = Gauge(
            "gatehouse_queue_depth", "Calls that wait for or hold a bounded resource.", ["queue"], registry=registry
        )
        self._limited_alone = Kept(
            "gatehouse_limiter_fallbacks_total", "Requests that were limited in this process alone: Redis was away."
        )
        self._dropped = Kept("gatehouse_dropped_total", "Traces, scores and single spans that were given up.", "what")
        lag = Gauge("gatehouse_event_loop_lag_seconds", "Worst lag of the last 60 s.", registry=registry)
        lag.set_function(self.lag.worst)
        registry.register(self._limited_alone)
        registry.register(self._dropped)
        ProcessCollector(registry=registry)
        self._begin_at_zero()

    def running(self, read: Read) -> None:
        self._running.set_function(read)

    def queue(self, name: str, read: Read) -> None:
        """`read` is how many calls of the queue `name` wait or are worked on."""
        self._queues.labels(name).set_function(read)

    def limited_alone(self, read: Read) -> None:
        self._limited_alone.reads[""] = read

    def dropped(self, what: str, read: Read) -> None:
        """`read` is how many of `what` (traces, scores, spans) were given up since the start."""
        self._dropped.reads[what] = read

    def ended(self, record: RunRecord) -> None:
        self._runs.labels(status_of(record), path_of(record)).inc()
        self._seconds.observe(record["timings"]["total"] / 1000)
        for step in record["steps"]:
            if step["ms"] is not None:
                self._nodes.labels(step["node"]).observe(step["ms"] / 1000)
        self._count_gates(record)
        self._count_loops(record)
        for each in record["passes"]:
            if each["web"] is not None and each["web"]["status"] in ASKED:
                self._web.labels(each["web"]["status"]).inc()
        self._count_model(record)

    def text(self) -> bytes:
        """The numbers in Prometheus's text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)

    def listen(self, host: str, port: int) -> Callable[[], None]:
        """Serve the numbers, and nothing else, on a port of their own; returns what ends that. Raises `OSError`."""
        server, thread = start_http_server(port, host, self.registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return close

    def _begin_at_zero(self) -> None:
        """A series that begins at one hides its first event from `rate()`."""
        for status, path in paths_by_status():
            self._runs.labels(status, path)
        for gate in get_args(Gate):
            for result in get_args(Result):
                self._gates.labels(gate, result)
        for status in ASKED:
            self._web.labels(status)
        for kind in ("input", "output"):
            self._tokens.labels(kind)
        self.limited_alone(lambda: 0)
        for what in ("traces", "scores", "spans"):
            self.dropped(what, lambda: 0)

    def _count_gates(self, record: RunRecord) -> None:
        for grade in grades_of(record):
            self._gates.labels("documents", grade["result"]).inc()
        for verdict in record["verdicts"]:
            if verdict["gate"] != "documents":
                self._gates.labels(verdict["gate"], verdict["result"]).inc()

    def _count_loops(self, record: RunRecord) -> None:
        went = [fork["to"] for fork in record["forks"]]
        self._rewrites.inc(went.count("rewrite_query"))
        self._regens.inc(went.count("prepare_regen"))

    def _count_model(self, record: RunRecord) -> None:
        usage = record["usage"]
        for call, count in usage["calls"].items():
            self._calls.labels(call).inc(count)
        self._tokens.labels("input").inc(usage["input_tokens"])
        self._tokens.labels("output").inc(usage["output_tokens"])
        self._cost.inc(usage["cost_usd"])


def grades_of(record: RunRecord) -> Iterable[GradeRecord]:
    """Each grade once: a passage that was graded in an earlier pass keeps its grade, and comes back with it."""
    return {
        (grade["passage_id"], grade["sha256"], grade["result"]): grade
        for each in record["passes"]
        for grade in each["grades"]
    }.values()
