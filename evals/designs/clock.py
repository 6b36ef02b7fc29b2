"""Modelled time: what a run would take, from the length of its calls. The same run gives the same seconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

CALL_S = 0.5
READ_TOKENS_PER_S = 5000
WRITTEN_TOKENS_PER_S = 60
"""Round figures of a hosted model: a start, fast reading, slow writing."""


def call_s(input_tokens: int, output_tokens: int) -> float:
    return CALL_S + input_tokens / READ_TOKENS_PER_S + output_tokens / WRITTEN_TOKENS_PER_S


@dataclass(slots=True)
class Clock:
    """The time of one run in seconds. Calls that are under way together take as long as the longest of them."""

    now: float = 0.0
    _under_way: int = 0
    _began: float = 0.0

    @asynccontextmanager
    async def taking(self, seconds: float) -> AsyncIterator[None]:
        if not self._under_way:
            self._began = self.now
        self._under_way += 1
        try:
            await asyncio.sleep(0)  # whatever else is to run beside it begins now
            yield
        finally:
            self._under_way -= 1
            self.now = max(self.now, self._began + seconds)
