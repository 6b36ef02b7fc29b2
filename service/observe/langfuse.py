"""Traces and scores in Langfuse, over its public HTTP interface (OTLP for spans, JSON for scores).

Langfuse's own client is not used for sending: its `flush` waits for a hanging server without a limit, it says of a lost
batch nothing but a log line, and it knows no time but that of the call. What it calls things is taken from it.
"""

import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from langfuse import Langfuse, LangfuseOtelSpanAttributes, __version__
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, set_span_in_context

from service.model import ComponentState
from service.observe.delivery import Delivery
from service.observe.masking import TraceMasks
from service.observe.tree import Observation, Trace, trace_of
from service.observe.worker import Worker
from service.record import FeedbackRecord, RunRecord

logger = logging.getLogger(__name__)

Key = LangfuseOtelSpanAttributes
Attributes = dict[str, str | bool | list[str]]

TRACES_PATH = "/api/public/otel/v1/traces"
SCORES_PATH = "/api/public/scores"
TRACER = "langfuse-sdk"  # Langfuse tells its own spans from others' by this name
CLOSING_S = 1.0
"""Together with the scores' last seconds within `LAST_S` of the server: the audit log is closed after both."""
THUMBS = {"up": 1.0, "down": 0.0}


@dataclass(frozen=True, slots=True)
class Score:
    run_id: str
    name: str
    value: float
    comment: str
    kind: str = "NUMERIC"


class LangfuseTraces:
    """Sends each run that has ended as one trace, and scores beside it, from a worker of its own.

    `content` False leaves out every question, answer and source text. `sample_rate` (0..1) is the share of runs that
    are traced; a run's scores follow its trace.
    """

    what = "traces"

    def __init__(
        self,
        host: str,
        public_key: str,
        secret_key: str,
        masks: TraceMasks,
        *,
        content: bool = True,
        sample_rate: float = 1.0,
        timeout_s: float = 5.0,
        pauses_s: Sequence[float] = (1.0, 5.0),
        limit: int = 256,
        linger_s: float = 1.0,
    ) -> None:
        self._place = urlsplit(host).netloc.rpartition("@")[2]
        self._sample_rate = sample_rate
        self._masks = masks
        self._content = content
        self._spans = SpanWriter(public_key, masks, content)
        headers = {
            "x-langfuse-sdk-name": "python",
            "x-langfuse-sdk-version": __version__,
            "x-langfuse-public-key": public_key,
            "x-langfuse-ingestion-version": "4",
        }
        self._delivery = Delivery(host, public_key, secret_key, headers)
        self._worker = Worker[RunRecord | Score](
            "traces", self._send, limit=limit, linger_s=linger_s, timeout_s=timeout_s, pauses_s=pauses_s
        )

    def ended(self, record: RunRecord) -> None:
        if self._sampled(record["run_id"]):
            self._worker.put(record)

    def feedback(self, record: FeedbackRecord) -> None:
        """Show a client's thumbs as a score of the run, with the comment where content may be shown."""
        self._put(Score(record["run_id"], "thumbs", THUMBS[record["thumbs"]], record["comment"], "BOOLEAN"))

    def score(self, run_id: str, name: str, value: float, comment: str = "") -> None:
        self._put(Score(run_id, name, value, comment))

    def _put(self, score: Score) -> None:
        if not math.isfinite(score.value):  # JSON has no word for it
            logger.warning("score is no number run_id=%s name=%s", score.run_id, score.name)
        elif self._sampled(score.run_id):
            self._worker.put(score)

    def _sampled(self, run_id: str) -> bool:
        """The same for a run and its scores, on every replica."""
        return int(trace_id_of(run_id)[:8], 16) < self._sample_rate * 2**32

    @property
    def waiting(self) -> int:
        """Runs and scores that are still to be sent."""
        return self._worker.waiting

    @property
    def dropped(self) -> int:
        """Runs and scores that were not sent since the start."""
        return self._worker.dropped

    def state(self) -> ComponentState:
        worker = self._worker
        detail = f"Langfuse at {self._place}: {worker.sent} sent, {worker.waiting} waiting, {worker.dropped} dropped"
        if self._sample_rate < 1:
            detail += f", {self._sample_rate:.0%} of the runs"
        if not self._content:
            detail += ", without content"
        warning = f"Traces do not arrive: {worker.failure}" if worker.failure else ""
        return ComponentState("traces", True, detail, warning)

    def close(self, within_s: float = CLOSING_S) -> None:
        """Send what waits, for at most `within_s` in all."""
        if self._worker.close(within_s):
            self._delivery.close()

    # In the worker's thread

    def _send(self, items: Sequence[RunRecord | Score], timeout_s: float) -> int:
        scores = [self._body(item) for item in items if isinstance(item, Score)]
        traces = list(self._traces([item for item in items if not isinstance(item, Score)]))
        if traces:
            body = encode_spans([span for spans in traces for span in spans]).SerializeToString()
            self._delivery.post(TRACES_PATH, body, "application/x-protobuf", timeout_s)
        if scores:
            self._delivery.post(SCORES_PATH, json.dumps(scores).encode(), "application/json", timeout_s)
        return len(traces) + len(scores)

    def _traces(self, records: Sequence[RunRecord]) -> Iterator[list[ReadableSpan]]:
        """A record that makes no trace is a bug of ours, and no reason to lose those beside it."""
        for record in records:
            try:
                yield self._spans.write(trace_of(record))
            except Exception:
                logger.exception("run makes no trace run_id=%s", record["run_id"])

    def _body(self, score: Score) -> dict[str, Any]:
        trace_id = trace_id_of(score.run_id)
        body = {
            "id": f"{trace_id}-{score.name}",  # a later score of the same name takes its place
            "traceId": trace_id,
            "name": score.name,
            "value": score.value,
            "dataType": score.kind,
        }
        if self._content and score.comment:
            body["comment"] = self._masks.mask(score.comment)
        return body


def trace_id_of(run_id: str) -> str:
    """The trace of a run: 32 hexadecimal digits, as Langfuse derives them from a name."""
    return Langfuse.create_trace_id(seed=run_id)


class SpanWriter:
    """Makes a trace's spans, in a tracer provider of its own: the process's global one is never touched.

    For one thread. Spans have the times of the record, and ids that follow from the run's: sent twice, a span is one.
    """

    def __init__(self, public_key: str, masks: TraceMasks, content: bool) -> None:
        self._masks = masks
        self._content = content
        self._ids = RunIds()
        self._ended = EndedSpans()
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource({"service.name": "gatehouse"}),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(TRACER, __version__, attributes={"public_key": public_key})

    def write(self, trace: Trace) -> list[ReadableSpan]:
        """The spans of one trace, masked, parents before children."""
        common: Attributes = {
            Key.TRACE_NAME: trace.root.name,
            Key.TRACE_SESSION_ID: self._masks.identifier(trace.session),
            Key.TRACE_USER_ID: self._masks.identifier(trace.user),
            Key.TRACE_TAGS: [self._masks.mask(tag) for tag in trace.tags],
        }
        self._ended.taken()  # what a trace that broke has left
        with self._ids.of(trace.run_id):
            self._write(trace.root, Context(), common, {Key.IS_APP_ROOT: True})
        return self._ended.taken()[::-1]

    def _write(self, item: Observation, parent: Context, common: Attributes, own: Attributes) -> None:
        time.sleep(0)  # lets go of the interpreter: a loop that waits for it has it now, and not in 5 ms
        attributes = {**common, **self._attributes(item), **own}
        name = self._masks.mask(item.name)
        span: Span = self._tracer.start_span(name, parent, attributes=attributes, start_time=nanoseconds(item.began))
        for child in item.children[::-1]:
            self._write(child, set_span_in_context(span, Context()), common, {})
        span.end(nanoseconds(item.ended))

    def _attributes(self, item: Observation) -> Attributes:
        metadata = {**item.metadata, **(item.content if self._content else {})}
        said: dict[str, Any] = {
            Key.OBSERVATION_TYPE: item.kind,
            Key.OBSERVATION_LEVEL: item.level,
            Key.OBSERVATION_STATUS_MESSAGE: item.status or None,
            Key.OBSERVATION_INPUT: item.input if self._content else None,
            Key.OBSERVATION_OUTPUT: item.output if self._content else None,
            Key.OBSERVATION_MODEL: item.model or None,
            Key.OBSERVATION_USAGE_DETAILS: item.usage or None,
            Key.OBSERVATION_COST_DETAILS: {"total": item.cost_usd} if item.cost_usd else None,
        }
        texts = {key: self._text(value) for key, value in said.items() if value is not None}
        # Langfuse decodes what its own client wrote: each value of the metadata is JSON, texts included.
        known = {key: value for key, value in metadata.items() if value not in (None, "", [], {})}
        return {**texts, **{f"{Key.OBSERVATION_METADATA}.{key}": self._json(value) for key, value in known.items()}}

    def _text(self, value: Any) -> str:
        return self._masks.mask(value) if isinstance(value, str) else self._json(value)

    def _json(self, value: Any) -> str:
        # Masked before it is encoded: an escape would hide from a rule what it is to find.
        return json.dumps(self._masks.masked(value), ensure_ascii=False)


class RunIds(IdGenerator):
    """The ids of one run's spans, counted from its root."""

    def __init__(self) -> None:
        self._run_id = ""
        self._count = 0

    @contextmanager
    def of(self, run_id: str) -> Iterator[None]:
        self._run_id, self._count = run_id, 0
        yield

    def generate_trace_id(self) -> int:
        return int(trace_id_of(self._run_id), 16)

    def generate_span_id(self) -> int:
        self._count += 1
        return int.from_bytes(sha256(f"{self._run_id} {self._count}".encode()).digest()[:8])


class EndedSpans(SpanProcessor):
    """Keeps the spans that have ended until they are taken."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def taken(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans


def nanoseconds(moment: datetime) -> int:
    """Since the epoch, exact to the microsecond."""
    return int(moment.timestamp() * 1_000_000) * 1000
