"""One streamed message of the Messages API as it arrives: pieces of text, a stop reason, tokens. No SDK here."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import suppress

from service.llm.verdicts import tidy

DRAIN_S = 0.2


class BrokenOff(Exception):
    """The stream ended without `message_stop`."""


class Reply:
    """Reads `events` (objects with the attributes of the SDK's stream events, trusted in nothing).

    `texts` yields the text and ends at `message_stop`; a stream that ends before raises `BrokenOff`. `stop_reason` is
    known when `texts` has ended. `began_at` is when it was asked for, in seconds since the epoch. `close` frees the
    socket and is safe at any moment.
    """

    def __init__(self, events: AsyncIterable[object], close: Callable[[], Awaitable[None]], began_at: float) -> None:
        self._events = events
        self._close = close
        self.input_tokens = 0
        self.output_tokens = 0
        self.stop_reason = ""
        self.began_at = began_at
        self.texts = self._texts()

    async def _texts(self) -> AsyncGenerator[str, None]:
        """Yield pieces that are never empty and never half a character (some servers part surrogate pairs)."""
        held = ""
        async for event in self._events:
            match getattr(event, "type", ""):
                case "content_block_delta":
                    text, held = whole_characters(held + _text_of(event))
                    if text:
                        yield text
                case "message_start":
                    self._count(getattr(getattr(event, "message", None), "usage", None))
                case "message_delta":
                    self._count(getattr(event, "usage", None))
                    self.stop_reason = _stop_reason(event)
                case "message_stop":
                    await self._drain()
                    return
        raise BrokenOff

    async def _drain(self) -> None:
        """Read to the end of the body, so that the connection can be used again, but wait for no server that dawdles.

        The message is complete: whatever goes wrong from here on changes nothing.
        """
        with suppress(Exception):
            async with asyncio.timeout(DRAIN_S):
                async for _ in self._events:
                    pass

    def _count(self, usage: object) -> None:
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        self.input_tokens = max(self.input_tokens, sum(_tokens(usage, name) for name in names))
        self.output_tokens = max(self.output_tokens, _tokens(usage, "output_tokens"))

    async def close(self) -> None:
        await self.texts.aclose()
        await self._close()


def whole_characters(text: str) -> tuple[str, str]:
    """Return (what may leave, a high surrogate that waits for its other half). A lone surrogate becomes U+FFFD."""
    held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    ready = text[: len(text) - len(held)]
    return ready.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), held


def _text_of(event: object) -> str:
    delta = getattr(event, "delta", None)
    text = getattr(delta, "text", "") if getattr(delta, "type", "") == "text_delta" else ""
    return text if isinstance(text, str) else ""


def _stop_reason(event: object) -> str:
    reason = getattr(getattr(event, "delta", None), "stop_reason", None)
    return tidy(reason, 40) if isinstance(reason, str) else ""


def _tokens(usage: object, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value > 0 else 0
