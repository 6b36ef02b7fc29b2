"""What a call costs in US dollars, from the published prices per million tokens.

Source: the model pages and the pricing page of the Claude platform documentation, read in November 2026. Prices change:
the cost is an estimate for the audit record, not a bill.
"""

import re
from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. Prompts longer than `long_prompt` tokens cost `long_factor` times as much."""

    input: float
    output: float
    long_prompt: int = 0
    long_factor: float = 1.0


PRICES: dict[str, Price] = {
    "claude-fable-5-2": Price(8.0, 40.0),
    "claude-fable-5-1": Price(10.0, 50.0),
    "claude-opus-5-5": Price(4.0, 20.0),
    "claude-opus-5": Price(5.0, 25.0),
    "claude-opus-4-8": Price(5.0, 25.0),
    "claude-opus-4-7": Price(5.0, 25.0),
    "claude-opus-4-6": Price(5.0, 25.0),
    "claude-opus-4-5": Price(5.0, 25.0),
    "claude-sonnet-5-5": Price(2.0, 10.0),
    "claude-sonnet-5": Price(2.0, 10.0),
    "claude-sonnet-4-6": Price(3.0, 15.0),
    "claude-sonnet-4-5": Price(3.0, 15.0),
    "claude-haiku-5-5": Price(0.1, 0.5, long_prompt=100_000, long_factor=5.0),
    "claude-haiku-4-5": Price(1.0, 5.0),
}

_SNAPSHOT = re.compile(r"-(?:\d{8}|latest)\Z")


def cost_usd(model: str, input_tokens: int, output_tokens: int) -> float:
    """Return the cost of one call. A model that is not in the table (a local one, a gateway's name) costs 0.0.

    A dated snapshot is priced as its model; `claude-opus-5-9` is not priced as `claude-opus-5`.
    """
    price = PRICES.get(_SNAPSHOT.sub("", model))
    if price is None:
        return 0.0
    factor = price.long_factor if price.long_prompt and input_tokens > price.long_prompt else 1.0
    return factor * (input_tokens * price.input + output_tokens * price.output) / MILLION
