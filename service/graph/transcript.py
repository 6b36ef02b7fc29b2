"""What a run has told its reader so far: it keeps the order that the wire promises."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from service.graph.events import Event, GateVerdict, Reset, Sources, Stage, Token, Told, WebReport
from service.model import StoredSource, StoredVerdict, Verdict
from service.record import StepRecord, VerdictRecord


class Transcript:
    """Numbers the events of one run and remembers what is on the reader's screen.

    `write` takes each event at once and must not block. `shown` is the text since the last reset, so `done.answer`
    can be held against it; `named` are the sources that this run has shown, by number; `judged` are the verdicts with
    the judges' words, for the record only; `sent_to_web` is every query that left for the web, in order; `warned`
    are the warnings beside the answer's own, in order; `steps` are the nodes as they ran, one that never ended too.
    """

    def __init__(self, write: Callable[[Told], None]) -> None:
        self._write = write
        self._seq = 0
        self.attempt = 1
        self.shown = ""
        self._began = time.perf_counter()
        self._timings: dict[str, float] = {}
        self.verdicts: list[StoredVerdict] = []
        self.judged: list[VerdictRecord] = []
        self._sources_sent = False
        self._web_told = WebReport()
        self.sent_to_web: list[str] = []
        self.steps: list[StepRecord] = []
        self.named: dict[int, StoredSource] = {}
        self.warned: list[str] = []

    def tell(self, event: Event) -> None:
        self._seq += 1
        self._write(Told(self._seq, self.attempt, event))

    def stage_began(self, node: str) -> None:
        began_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.steps.append(
            {
                "node": node,
                "attempt": self.attempt,
                "began_at": began_at,
                "ms": None,
                "n_in": None,
                "n_out": None,
                "reason": "",
            }
        )
        self.tell(Stage(node, "start"))

    def stage_ended(self, node: str, ms: float, n_in: int | None, n_out: int | None, reason: str) -> None:
        self._timings[node] = round(self._timings.get(node, 0.0) + ms, 1)
        step = next(step for step in reversed(self.steps) if step["node"] == node)
        step["ms"], step["n_in"], step["n_out"], step["reason"] = round(ms, 1), n_in, n_out, reason
        self.tell(Stage(node, "end", round(ms, 1), n_in, n_out, reason))

    def timings(self) -> dict[str, float]:
        """Milliseconds by node, all passes added up, and `total` since the run began."""
        return {**self._timings, "total": round((time.perf_counter() - self._began) * 1000, 1)}

    def asked_web(self, query: str) -> None:
        """Note the exact text before it leaves for the web, so that the record holds it however the run ends."""
        self.sent_to_web.append(query)

    def sources(self, items: list[StoredSource], web: WebReport, warnings: Iterable[str]) -> None:
        """Show what this run has not shown yet; say nothing where nothing is new."""
        new = tuple(item for item in items if item["n"] not in self.named)
        warned = any(warning not in self.warned for warning in warnings if warning)
        if self._sources_sent and not new and not warned and web == self._web_told:
            return
        self._web_told = web
        self.named.update({item["n"]: item for item in new})
        self._sources_sent = True
        self.tell(Sources(new, web, self.not_yet_told(warnings)))

    def not_yet_told(self, warnings: Iterable[str]) -> tuple[str, ...]:
        """Each warning once in a run."""
        new = tuple(warning for warning in dict.fromkeys(warnings) if warning and warning not in self.warned)
        self.warned.extend(new)
        return new

    def warn(self, warning: str) -> None:
        """Tell what came up on the way, in a `sources` without new ones; nothing where it is told already."""
        if warning and warning not in self.warned:
            self.sources([], self._web_told, [warning])

    def token(self, text: str) -> None:
        if not text:
            return
        if not self._sources_sent:
            self.sources([], WebReport(), [])
        self.shown += text
        self.tell(Token(text))

    def withdraw(self, reason: str) -> None:
        """Take back the shown draft, if there is one."""
        if self.shown:
            self.tell(Reset(reason))
            self.shown = ""

    def verdict(self, verdict: Verdict) -> None:
        self.verdicts.append({"gate": verdict.gate, "result": verdict.result, "reason": verdict.reason})
        self.judged.append({"attempt": self.attempt, **self.verdicts[-1], "words": verdict.words})
        self.tell(GateVerdict(verdict.gate, verdict.result, verdict.reason))
