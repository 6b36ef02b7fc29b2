"""The part of the composition root that opens the traces."""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from service.in_clear import in_clear_warning
from service.observe.masking import TraceMasks
from service.observe.null import NoTraces
from service.sensitive import load_names
from service.settings import Settings

if TYPE_CHECKING:
    from service.observe.langfuse import LangfuseTraces

NO_KEYS = "LANGFUSE_HOST is set, but no keys are: nothing is traced. Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."
NO_HOST = (
    "LANGFUSE_PUBLIC_KEY is set, but no address is: nothing is traced. Set LANGFUSE_HOST to your Langfuse server, for "
    "example https://langfuse.example.org, or take the keys away."
)


async def open_traces(settings: Settings, stack: AsyncExitStack) -> "LangfuseTraces | NoTraces":
    """Langfuse where an address and keys are set. Raises `OperatorError` for the mask file."""
    if not settings.LANGFUSE_PUBLIC_KEY:
        return NoTraces("off", NO_KEYS if settings.LANGFUSE_HOST else "")
    if not settings.LANGFUSE_HOST:
        # Its client would send to a public cloud then: where questions go is said, never assumed.
        return NoTraces("off: LANGFUSE_HOST is not set", NO_HOST)
    traces = await asyncio.to_thread(connect, settings)
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces


def connect(settings: Settings) -> "LangfuseTraces":
    from service.observe.langfuse import LangfuseTraces  # a second of loading, where it is wanted only

    secret_key = settings.LANGFUSE_SECRET_KEY.get_secret_value()
    return LangfuseTraces(
        settings.LANGFUSE_HOST,
        settings.LANGFUSE_PUBLIC_KEY,
        secret_key,
        TraceMasks(load_names(settings.WEB_MASK_FILE), key=secret_key.encode()),
        content=settings.TRACE_CONTENT,
        sample_rate=settings.TRACE_SAMPLE_RATE,
        warning=in_clear_warning("LANGFUSE_HOST", settings.LANGFUSE_HOST),
    )
