"""A run's tree as spans of OpenTelemetry, named and masked as Langfuse reads them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any

from langfuse import Langfuse, LangfuseOtelSpanAttributes, __version__
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, set_span_in_context

from service.observe.masking import TraceMasks
from service.observe.tree import Observation, Trace

Key = LangfuseOtelSpanAttributes
Attributes = dict[str, str | bool | list[str]]

TRACER = "langfuse-sdk"  # Langfuse tells its own spans from others' by this name
CUT = " [… cut: the trace was too large for the server]"


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
        self._longest: int | None = None
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

    def write(self, trace: Trace, longest: int | None = None) -> list[ReadableSpan]:
        """The spans of one trace, masked, parents before children.

        Where the whole is too large, every text is cut at `longest` characters, and the root says so.
        """
        self._longest = longest
        common: Attributes = {
            Key.TRACE_NAME: trace.root.name,
            Key.TRACE_SESSION_ID: self._masks.identifier(trace.session),
            Key.TRACE_USER_ID: self._masks.identifier(trace.user),
            Key.TRACE_TAGS: [self._masks.mask(tag) for tag in trace.tags],
        }
        own: Attributes = {Key.IS_APP_ROOT: True}
        if longest is not None:
            own[f"{Key.OBSERVATION_METADATA}.cut_to_characters"] = self._json(longest)
        self._ended.taken()  # what a trace that broke has left
        with self._ids.of(trace.run_id):
            self._write(trace.root, Context(), common, own)
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
        return str(cut(self._masks.mask(value), self._longest)) if isinstance(value, str) else self._json(value)

    def _json(self, value: Any) -> str:
        # Masked before it is encoded: an escape would hide from a rule what it is to find.
        return json.dumps(cut(self._masks.masked(value), self._longest), ensure_ascii=False)


def cut(value: Any, longest: int | None) -> Any:
    """The same with every text in it cut, and marked. After the masks: half a number would pass them."""
    if longest is None:
        return value
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + CUT
    if isinstance(value, dict):
        return {key: cut(item, longest) for key, item in value.items()}
    return [cut(item, longest) for item in value] if isinstance(value, list) else value


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
