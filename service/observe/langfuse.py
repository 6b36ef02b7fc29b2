"""Traces and scores in Langfuse, over its public HTTP interface (OTLP for spans, JSON for scores).

Langfuse's own client is not used for sending: its `flush` waits for a hanging server without a limit, it says of a lost
batch nothing but a log line, and it knows no time but that of the call. What it calls things is taken from it.
"""

import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from langfuse import __version__
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from service.model import ComponentState
from service.observe.delivery import Delivery, Reply
from service.observe.masking import TraceMasks
from service.observe.spans import SpanWriter, trace_id_of
from service.observe.tree import trace_of
from service.observe.worker import OWN_FAULT, Sent, TooLarge, Worker
from service.record import FeedbackRecord, RunRecord

logger = logging.getLogger(__name__)

TRACES_PATH = "/api/public/otel/v1/traces"
SCORES_PATH = "/api/public/scores"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
CUTS = (None, 2_000, 200)
"""Characters of each text of a run that alone is too large for the server: the whole, then less, then hardly any."""
ITS_LOG = "Langfuse's own log says why"
CLOSING_S = 1.0
"""Together with the scores' last seconds within `LAST_S` of the server: the audit log is closed after both."""
THUMBS = {"up": 1.0, "down": 0.0}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A run's trace as it is sent. `body` of several, one after the other, is one request."""

    spans: int
    body: bytes


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
    are traced; a run's scores follow its trace. `warning` is what the operator is told while all is well.
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
        warning: str = "",
    ) -> None:
        address = urlsplit(host)
        self._place = address.netloc.rpartition("@")[2] + address.path.rstrip("/")
        self._standing_warning = warning
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
        self.refused_spans = 0
        """Single spans that Langfuse refused of runs that it took."""
        self._worker = Worker[RunRecord | Score](
            "traces", self._send, kind=kind_of, limit=limit, linger_s=linger_s, timeout_s=timeout_s, pauses_s=pauses_s
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
        detail = f"Langfuse at {self._place}: {worker.sent} sent, {worker.waiting} waiting, {worker.drops()}"
        if self.refused_spans:
            detail += f", {self.refused_spans} single spans refused"
        if self._sample_rate < 1:
            detail += f", {self._sample_rate:.0%} of the runs"
        if not self._content:
            detail += ", without content"
        return ComponentState("traces", True, detail, self._warning())

    def _warning(self) -> str:
        if self._worker.failure:
            return f"Traces do not arrive: {self._worker.failure}"
        if self._worker.refusal:
            return f"Not every trace arrives: {self._worker.refusal}"
        return self._standing_warning

    def close(self, within_s: float = CLOSING_S) -> None:
        """Send what waits, for at most `within_s` in all."""
        if self._worker.close(within_s):
            self._delivery.close()

    # In the worker's thread

    def _send(self, items: Sequence[RunRecord | Score], timeout_s: float) -> Sent:
        """Send items of one kind."""
        if scores := [item for item in items if isinstance(item, Score)]:
            return self._send_scores(scores, timeout_s)
        return self._send_runs([item for item in items if not isinstance(item, Score)], timeout_s)

    def _send_scores(self, scores: Sequence[Score], timeout_s: float) -> Sent:
        body = json.dumps([self._body(score) for score in scores]).encode()
        refused = min(scores_refused(self._delivery.post(SCORES_PATH, body, JSON, timeout_s)), len(scores))
        return Sent(len(scores) - refused, f"some of the scores; {ITS_LOG}" if refused else "")

    def _send_runs(self, records: Sequence[RunRecord], timeout_s: float) -> Sent:
        """A run that alone is too large is sent with its texts cut. Raises `SendFailed`."""
        until = time.monotonic() + timeout_s
        for longest in CUTS[:-1]:
            try:
                return self._send_traces(records, longest, until)
            except TooLarge:
                if len(records) > 1:
                    raise
        return self._send_traces(records, CUTS[-1], until)

    def _send_traces(self, records: Sequence[RunRecord], longest: int | None, until: float) -> Sent:
        """`until`: of the monotonic clock (s). Raises `SendFailed`."""
        traces = list(self._traces(records, longest))
        if not traces:
            return Sent(0, OWN_FAULT)
        body = b"".join(trace.body for trace in traces)
        timeout_s = max(0.05, until - time.monotonic())
        refused = spans_refused(self._delivery.post(TRACES_PATH, body, PROTOBUF, timeout_s))
        spans = sum(trace.spans for trace in traces)
        if refused >= spans:
            return Sent(0, f"every span; {ITS_LOG}")
        # Which ones it does not say, and by the protocol they are not sent again.
        self.refused_spans += refused
        return Sent(len(traces), f"{refused} of {spans} spans; {ITS_LOG}" if refused else "")

    def _traces(self, records: Sequence[RunRecord], longest: int | None) -> Iterator[Encoded]:
        """A record that makes no trace is a bug of ours, and no reason to lose those beside it."""
        for record in records:
            try:
                spans = self._spans.write(trace_of(record), longest)
                yield Encoded(len(spans), encode_spans(spans).SerializeToString())
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


def kind_of(item: RunRecord | Score) -> str:
    """Runs and scores have their own addresses, and the fault of one is none of the other's."""
    return "score" if isinstance(item, Score) else "run"


def spans_refused(reply: Reply) -> int:
    """How many spans a success left out all the same (OTLP/HTTP, "Partial Success"); 0 where it does not say."""
    found = ExportTraceServiceResponse()
    try:
        if reply.content_type.startswith(JSON):
            json_format.Parse(reply.body, found, ignore_unknown_fields=True)
        elif reply.content_type.startswith(PROTOBUF):
            found.ParseFromString(reply.body)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError):
        return 0
    return max(0, found.partial_success.rejected_spans)


def scores_refused(reply: Reply) -> int:
    """How many scores a 207 has left out: `rejected` in its body, one where that cannot be read."""
    if reply.status != 207:
        return 0
    try:
        return max(0, int(json.loads(reply.body)["rejected"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return 1
