"""Traces of a test: what is planted in them, the adapter over a collector, and a model that costs something."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from service.observe.langfuse import LangfuseTraces
from service.observe.masking import TraceMasks
from service.sensitive import patterns_of
from service.usage import ModelCall, Usage
from tests.fakes import ScriptedModel
from tests.observe.collector import Collector, Received

NAME = "Blackfriars Wharf"  # on the operator's list
IBAN, CARD, MAIL, SECRET = (
    "DE89 3704 0044 0532 0130 00",
    "4111 1111 1111 1111",
    "jane.doe@client.test",
    "sk-ant-PLANTED-1",
)
PRIVATE = f"{NAME} pays {IBAN} or {CARD}, says {MAIL} with {SECRET}"
PLANTED = [NAME, IBAN, IBAN.replace(" ", ""), CARD, MAIL, "jane.doe", SECRET, "PLANTED"]


@contextmanager
def traced(host: str, **changes: Any) -> Iterator[LangfuseTraces]:
    """Traces to the collector at `host`, impatient; closed at the end."""
    masks = TraceMasks(patterns_of([NAME], "names"), key=b"secret")
    settings: dict[str, Any] = {"timeout_s": 1.0, "pauses_s": (0.05, 0.05), "linger_s": 0.01} | changes
    traces = LangfuseTraces(host, "pk-test", "sk-test", masks, **settings)
    try:
        yield traces
    finally:
        traces.close()


class Spending(ScriptedModel):
    """A scripted model whose every call is a request to a language model, of 100 tokens and back 10."""

    async def _asked(self, name: str, asked: str, usage: Usage) -> int:
        began, began_at = time.perf_counter(), time.time()
        count = await super()._asked(name, asked, usage)
        ms = (time.perf_counter() - began) * 1000
        usage.spend(ModelCall(name, "claude-test", "ab" * 32, began_at, ms, 100, 10, 0.0012, "end_turn"))
        return count


def assert_whole(trace: list[Received]) -> Received:
    """One root, every other span below one of the same trace and within its time, all of one session; the root."""
    by_id = {span.span_id: span for span in trace}
    [root] = [span for span in trace if not span.parent_id]
    for span in trace:
        assert span.began <= span.ended
        assert {span.attributes[key] for key in ("session.id", "user.id")} == {
            root.attributes[key] for key in ("session.id", "user.id")
        }
        if span is not root:
            parent = by_id[span.parent_id]
            assert parent.began <= span.began
            assert span.ended <= parent.ended
    return root


def below(trace: list[Received], parent: Received) -> list[Received]:
    return [span for span in trace if span.parent_id == parent.span_id]


def planted_in(collector: Collector) -> list[str]:
    """What was planted and has left."""
    everything = b"\n".join(collector.bodies).decode("utf-8", "replace")
    return [word for word in PLANTED if word in everything]
