"""Claude behind the `AnswerModel` port: a model that writes and a small, fast one that grades, judges and rewords.

Written against anthropic 2.14 (`_streaming.py`, `_base_client.py`), which it follows in three places:

* Every call is streamed, the short ones too. A timeout is then a gap between bytes, which the server's pings keep
  closed while a model thinks; a call that waits for the whole body would have to be given minutes. A limit on the
  whole call stands beside it, for a server that only ever pings.
* Structured output goes through `output_config` and is parsed in `verdicts`: the SDK's `parse` validates the text
  before the caller can see the stop reason, so that a cut verdict is an exception without one.
* The SDK's own retries are off. They never see an `error` event inside a 200 stream, and they wait as long as a
  `retry-after` header asks. One rule covers both here: three tries within twenty seconds, none once a token was shown.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self, TypeVar

import anthropic

from service.errors import ModelUnavailable, ModelUnusable
from service.llm import lexical, verdicts
from service.llm.asks import Ask, Asks, Models
from service.llm.faults import FAULTS, advice, is_transient, retry_after_s
from service.llm.patience import Patience
from service.llm.pricing import cost_usd
from service.llm.reply import Reply
from service.model import UNAVAILABLE, ComponentState, Grade, Judgement, Passage, Source, Turn
from service.ports import AnswerCut
from service.usage import ModelCall, Usage

logger = logging.getLogger(__name__)

DEFAULT_BASE_URL = "https://api.anthropic.com"
COMPLETE = frozenset({"end_turn", "stop_sequence"})
"""Stop reasons of a complete text. Any other, known or not, means that the text is no answer."""

T = TypeVar("T")


class Claude:
    """`AnswerModel` over the Messages API.

    `answer_model` writes; `gate_model` does all else. `max_tokens` and `gate_max_tokens` cap a reply together with what
    the model thinks before it, so the second is far over the length of a verdict.
    """

    _extra_body: Mapping[str, object] | None = None
    """What a server of one's own is sent beyond Anthropic's API."""

    def __init__(
        self,
        client: anthropic.AsyncAnthropic,
        *,
        answer_model: str,
        gate_model: str,
        max_tokens: int = 16_000,
        gate_max_tokens: int = 4_000,
        total_timeout_s: float = 150.0,
        patience: Patience | None = None,
    ) -> None:
        self._client = client.with_options(max_retries=0)
        self._asks = Asks(Models(answer_model, gate_model, max_tokens, gate_max_tokens))
        self._name = f"claude {answer_model} / {gate_model}"
        self._total_timeout_s = total_timeout_s
        self._patience = patience or Patience()
        self._trouble = ""

    @classmethod
    def connect(
        cls,
        api_key: str,
        base_url: str,
        *,
        answer_model: str,
        gate_model: str,
        max_tokens: int = 16_000,
        gate_max_tokens: int = 4_000,
        connect_timeout_s: float = 5.0,
        gap_timeout_s: float = 30.0,
        total_timeout_s: float = 150.0,
        patience: Patience | None = None,
    ) -> Self:
        """Build the client (nothing is sent yet); whoever connects calls `aclose`.

        An empty `base_url` is Anthropic's own; an empty `api_key` suits a local server that wants none.
        `gap_timeout_s` is the longest silence between two bytes, `total_timeout_s` the longest call, its tries and a
        server that only ever pings included. The SDK takes proxies from the environment.
        """
        client = anthropic.AsyncAnthropic(
            # An explicit key keeps the SDK from looking for credentials in the environment and in files.
            api_key=api_key or "none",
            base_url=base_url or DEFAULT_BASE_URL,
            timeout=anthropic.Timeout(gap_timeout_s, connect=connect_timeout_s),
            max_retries=0,
        )
        return cls(
            client,
            answer_model=answer_model,
            gate_model=gate_model,
            max_tokens=max_tokens,
            gate_max_tokens=gate_max_tokens,
            total_timeout_s=total_timeout_s,
            patience=patience,
        )

    async def aclose(self) -> None:
        await self._client.close()

    @property
    def name(self) -> str:
        return self._name

    @property
    def warning(self) -> str:
        """None: a fault ends the run that met it, or leaves a verdict without a result. No other run is told of it."""
        return ""

    def state(self) -> ComponentState:
        """Always `ok`, with the last fault as a warning: a probe that turned unready would end the very traffic that
        can show that the API is back.
        """
        return ComponentState("model", True, self._name, self._trouble)

    async def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> str:
        """Return the question so that it stands alone. An empty, cut or refused text leaves it unchanged."""
        return await self._line(self._asks.condense(turns, question, usage), question) if turns else question

    async def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> str:
        """Return a keyword-richer query; the question itself where the text is empty, cut or refused."""
        return await self._line(self._asks.rewrite(question, tried, seen, usage), question)

    async def web_query(self, question: str, tried: str, usage: Usage) -> str:
        """Return a short query; the question's own words of content where the text is empty, cut or refused."""
        return await self._line(self._asks.web_query(question, tried, usage), lexical.web_query(question))

    async def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> list[Grade]:
        """Grade with one call. Never raises for a model's fault: that is `error`, its words beginning with a code."""
        if not passages:
            return []
        try:
            found = await self._object(self._asks.grade(question, passages, usage, hint))
            return [verdicts.grade_of(found)] if len(passages) == 1 else verdicts.grades_of(found, len(passages))
        except verdicts.Doubt as doubt:
            return [Grade("error", doubt.words)] * len(passages)

    async def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Judgement:
        return await self._judgement(self._asks.judge_grounded(question, answer, sources, usage), "supported")

    async def judge_answers(
        self,
        question: str,
        answer: str,
        sources: Sequence[Source],  # noqa: ARG002 - what is asked is whether the text answers
        usage: Usage,
    ) -> Judgement:
        return await self._judgement(self._asks.judge_answers(question, answer, usage), "answers")

    async def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> AsyncGenerator[str, None]:
        """Stream the answer as the port says. Leaving the iterator (`aclose`, a cancel) closes the HTTP stream."""
        ask = self._asks.answer(question, sources, feedback, usage, instructions)
        until = asyncio.get_running_loop().time() + self._total_timeout_s
        async with self._in_time(ask, until):
            reply, text = await self._try(ask, lambda: self._begin(ask))
        wrote = False
        try:
            while text:
                wrote = wrote or not text.isspace()
                yield text
                # Not one limit around the loop: it would run out in the reader's code, at the `yield`.
                async with self._in_time(ask, until):
                    text = await anext(reply.texts, "")
        except FAULTS as fault:
            raise self._unavailable(ask, fault, "The language model broke off in the middle of its answer.") from None
        finally:
            await self._finish(ask, reply)
        if reply.stop_reason not in COMPLETE:
            raise AnswerCut(reply.stop_reason or "unknown")
        if not wrote:
            raise ModelUnusable("The language model wrote nothing.")

    async def _line(self, ask: Ask, otherwise: str) -> str:
        text, stop_reason = await self._whole(ask)
        return verdicts.one_line(text, otherwise) if stop_reason in COMPLETE else otherwise

    async def _judgement(self, ask: Ask, key: str) -> Judgement:
        try:
            return verdicts.judgement_of(await self._object(ask), key)
        except verdicts.Doubt as doubt:
            return Judgement("error", doubt.words)

    async def _object(self, ask: Ask) -> dict[str, object]:
        """Return the JSON object that was answered. Raises `Doubt` when it cannot be had or believed."""
        try:
            text, stop_reason = await self._whole(ask)
        except ModelUnavailable as down:
            raise verdicts.Doubt(UNAVAILABLE, str(down)) from None
        if stop_reason not in COMPLETE:
            raise verdicts.Doubt(verdicts.CUT, stop_reason or "unknown")
        return verdicts.one_object(text)

    async def _whole(self, ask: Ask) -> tuple[str, str]:
        """Return a reply's whole text and its stop reason. Nothing of it was shown, so any fault may be tried again."""

        async def once() -> tuple[str, str]:
            reply = await self._send(ask)
            try:
                return "".join([text async for text in reply.texts]), reply.stop_reason
            finally:
                await self._finish(ask, reply)

        async with self._in_time(ask, asyncio.get_running_loop().time() + self._total_timeout_s):
            return await self._try(ask, once)

    @asynccontextmanager
    async def _in_time(self, ask: Ask, until: float) -> AsyncIterator[None]:
        """Bound what is awaited here by a time of the loop's clock. Raises `ModelUnavailable` when that has come."""
        try:
            async with asyncio.timeout_at(until):
                yield
        except TimeoutError as late:
            message = f"The language model did not finish within {self._total_timeout_s:g} s (MODEL_TIMEOUT_S)."
            raise self._unavailable(ask, late, message) from None

    async def _begin(self, ask: Ask) -> tuple[Reply, str]:
        """Open a stream and return it with its first piece of text ("" when it ended without any)."""
        reply = await self._send(ask)
        try:
            return reply, await anext(reply.texts, "")
        except BaseException:
            await self._finish(ask, reply)
            raise

    async def _send(self, ask: Ask) -> Reply:
        began_at = time.time()
        stream = await self._client.messages.create(
            model=ask.model,
            max_tokens=ask.max_tokens,
            system=ask.system,
            messages=[{"role": "user", "content": ask.request}],
            output_config={"format": {"type": "json_schema", "schema": ask.schema}} if ask.schema else anthropic.omit,
            stream=True,
            extra_body=self._extra_body,
        )
        return Reply(stream, stream.close, began_at)

    async def _finish(self, ask: Ask, reply: Reply) -> None:
        """Book what a reply cost, also when it is left early, and free its socket."""
        request = ModelCall(
            ask.name,
            ask.model,
            ask.prompt_sha256,
            reply.began_at,
            (time.time() - reply.began_at) * 1000,
            reply.input_tokens,
            reply.output_tokens,
            cost_usd(ask.model, reply.input_tokens, reply.output_tokens),
            reply.stop_reason,
        )
        ask.usage.spend(request)
        await reply.close()

    async def _try(self, ask: Ask, once: Callable[[], Awaitable[T]]) -> T:
        """Run `once` until it succeeds, patience ends or a fault will not mend itself. Raises `ModelUnavailable`."""
        began, failed = time.monotonic(), 0
        while True:
            try:
                result = await once()
            except FAULTS as fault:
                failed += 1
                pause_s = self._patience.pause_s(failed, retry_after_s(fault))
                late = time.monotonic() - began + pause_s > self._patience.within_s
                if late or failed >= self._patience.tries or not is_transient(fault):
                    raise self._unavailable(ask, fault, advice(fault, ask.setting)) from None
                _log(ask, fault)
            else:
                self._trouble = ""
                return result
            await self._patience.sleep(pause_s)

    def _unavailable(self, ask: Ask, fault: Exception, message: str) -> ModelUnavailable:
        _log(ask, fault)
        self._trouble = message
        return ModelUnavailable(message)


def _log(ask: Ask, fault: Exception) -> None:
    """Log what the API said, shortened and on one line. It goes nowhere else."""
    fault_name, said = type(fault).__name__, verdicts.tidy(str(fault), 300)
    logger.warning("model call failed: model=%s fault=%s said=%r", ask.model, fault_name, said)
