"""How long a call that failed is tried again, before any of it was shown."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call of which nothing was shown yet is tried, and within how many seconds the last try begins."""

    tries: int = 3
    within_s: float = 20.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def pause_s(self, failed: int, asked_s: float | None) -> float:
        """The pause after the `failed`th fault: what the server asked for, else exponential with jitter."""
        if asked_s is not None:
            return asked_s
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (failed - 1)) * random.uniform(0.5, 1.0)
