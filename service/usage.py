"""What a run asks of its models, and what it costs. No I/O, no third-party import."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request to a model that was answered, in whole or in part; an HTTP retry is a request of its own.

    `name` is what was asked (grade, answer, ...), `began_at` in seconds since the epoch, `stop_reason` "" where it was
    left early.
    """

    name: str
    model: str
    prompt_sha256: str
    began_at: float
    ms: float
    input_tokens: int
    output_tokens: int
    cost_usd: float
    stop_reason: str


@dataclass(slots=True)
class Usage:
    """What a run's model calls cost. Counts logical calls: an HTTP retry is not a second call."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)
    requests: list[ModelCall] = field(default_factory=list)

    def call(self, name: str, prompt_sha256: str = "") -> None:
        """Count one logical call of `name` (condense, web_query, grade, rewrite, answer, judge_grounded, ...)."""
        self.model_calls += 1
        self.calls[name] += 1
        if prompt_sha256:
            self.prompts[name] = prompt_sha256

    def spend(self, request: ModelCall) -> None:
        self.requests.append(request)
        self.input_tokens += request.input_tokens
        self.output_tokens += request.output_tokens
        self.cost_usd += request.cost_usd
