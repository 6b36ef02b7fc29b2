"""The judge: a model of the Messages API behind DeepEval's own interface.

DeepEval's adapter for Anthropic passes a `temperature`, which anthropic 2.14 refuses; and where a model answers with
plain text, DeepEval drops what it cannot read and scores the rest, so that an empty list of verdicts is a perfect
score. Here a reply is a complete and valid object of the schema that was asked for, or there is no score.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import anthropic
import httpx2
from deepeval.models import DeepEvalBaseLLM
from pydantic import BaseModel, ValidationError

from service.observe.scoring import NoScore
from service.usage import ModelCall, Usage

COMPLETE = frozenset({"end_turn", "stop_sequence"})
MAX_TOKENS = 8_000
"""Of one reply, what the model thinks before it included."""
CALLS_AT_ONCE = 4
"""Of one answer: a judge on a small server is not flooded, and the answer's time limit is kept."""

Price = Callable[[str, int, int], float]
T = TypeVar("T", bound=BaseModel)


def connect(api_key: str, base_url: str, timeout_s: float) -> anthropic.AsyncAnthropic:
    """The client of the judge's server; nothing is sent yet. An empty `base_url` is Anthropic's own."""
    return anthropic.AsyncAnthropic(
        # An explicit key keeps the SDK from looking for credentials in the environment and in files.
        api_key=api_key or "none",
        base_url=base_url or "https://api.anthropic.com",
        timeout=anthropic.Timeout(timeout_s, connect=5.0),
        max_retries=1,
    )


class Judge(DeepEvalBaseLLM):
    """Asks `model`, and books in `usage` what it cost by `price` (model, input and output tokens). One per answer."""

    def __init__(self, client: anthropic.AsyncAnthropic, model: str, price: Price) -> None:
        self._client = client
        self._model = model
        self._price = price
        self._room = asyncio.Semaphore(CALLS_AT_ONCE)
        self.usage = Usage()
        super().__init__(model)

    def load_model(self, *_: Any, **__: Any) -> Any:
        return self._client

    def get_model_name(self, *_: Any, **__: Any) -> str:
        return self._model

    def generate(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError("this judge is asked in its own event loop: use a_measure")

    async def a_generate(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError("this judge is asked for an object of a schema: use a_generate_with_schema")

    async def a_generate_with_schema(self, *args: Any, schema: Any = None, **_: Any) -> Any:
        return await self.ask(str(args[0]), schema)

    async def ask(self, prompt: str, schema: type[T], *, system: str = "", name: str = "judge") -> T:
        """Return the reply as an object of `schema`. Raises `NoScore` where it cannot be had or believed."""
        self.usage.call(name)
        async with self._room:
            began_at = time.time()
            try:
                message = await self._client.messages.create(
                    model=self._model,
                    max_tokens=MAX_TOKENS,
                    system=system or anthropic.omit,
                    messages=[{"role": "user", "content": prompt}],
                    output_config={"format": {"type": "json_schema", "schema": anthropic.transform_schema(schema)}},
                )
            except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as fault:
                raise NoScore("unavailable", f"{type(fault).__name__} {getattr(fault, 'status_code', '')}") from None
        self._book(name, message, began_at)
        return reply_of(message, schema)

    def _book(self, name: str, message: Any, began_at: float) -> None:
        tokens = getattr(message, "usage", None)
        used = [value if isinstance(value, int) else 0 for value in map(tokens_of(tokens), ("input", "output"))]
        self.usage.spend(
            ModelCall(
                name,
                self._model,
                "",
                began_at,
                (time.time() - began_at) * 1000,
                used[0],
                used[1],
                self._price(self._model, used[0], used[1]),
                str(getattr(message, "stop_reason", "")),
            )
        )


def tokens_of(usage: object) -> Callable[[str], object]:
    return lambda side: getattr(usage, f"{side}_tokens", 0)


def reply_of(message: Any, schema: type[T]) -> T:
    """Read a message that may come from any server. Raises `NoScore` for one that is cut, or no such object."""
    if getattr(message, "stop_reason", None) not in COMPLETE:
        raise NoScore("unusable", "the reply was cut short or refused")
    blocks = getattr(message, "content", None) or []
    text = "".join(block.text for block in blocks if getattr(block, "type", "") == "text")
    try:
        return schema.model_validate(one_object(text))
    except (ValueError, RecursionError, ValidationError):
        raise NoScore("unusable", f"the reply is no {schema.__name__}") from None


def one_object(text: str) -> object:
    """The JSON of a reply: bare, in a code fence, or between prose. Raises `ValueError`."""
    start = text.find("{")
    found, end = json.JSONDecoder(object_pairs_hook=tidied).raw_decode(text, max(start, 0))
    if "{" in text[end:]:
        raise ValueError("more than one object")
    return found


def tidied(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """`Yes ` is yes: a server that ignores the schema writes its verdicts as it likes."""
    return {
        key: value.strip().lower() if key == "verdict" and isinstance(value, str) else value for key, value in pairs
    }
