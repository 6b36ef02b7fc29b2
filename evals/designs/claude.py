"""Claude with what the designs ask beyond the product's port: their prompts stand in `prompts/`, in our own words."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import anthropic

from evals.designs.port import EVERY_ABILITY, Ability, Fork
from service.errors import ModelUnavailable, OperatorError
from service.llm import verdicts
from service.llm.asks import Ask
from service.llm.claude import COMPLETE, DEFAULT_BASE_URL, Claude
from service.llm.prompt import Prompt, fence, fenced_passage, fenced_passages, fenced_sources, new_mark
from service.model import Grade, Passage, Source
from service.settings import Settings
from service.usage import Usage

PROMPTS = Path(__file__).with_name("prompts")
PARTS = {
    "route": frozenset({"mark", "question", "topics", "ways", "doubt"}),
    "direct": frozenset({"mark", "question"}),
    "bullets": frozenset({"mark", "question", "passage"}),
    "score": frozenset({"mark", "question", "passage"}),
    "grade_set": frozenset({"mark", "question", "passages"}),
    "hallucinated": frozenset({"mark", "answer", "sources"}),
}
_YES_NO: dict[str, object] = {"type": "string", "enum": ["yes", "no"]}


def schema_of(key: str, kind: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": {key: kind}, "required": [key], "additionalProperties": False}


class ClaudeForDesigns(Claude):
    """`DesignModel` over the Messages API. What cannot be had or believed is "", 0.0 or the grade `error`."""

    can: frozenset[Ability] = EVERY_ABILITY

    def __init__(
        self,
        client: anthropic.AsyncAnthropic,
        *,
        answer_model: str,
        gate_model: str,
        max_tokens: int = 16_000,
        gate_max_tokens: int = 4_000,
        **given: Any,
    ) -> None:
        super().__init__(
            client,
            answer_model=answer_model,
            gate_model=gate_model,
            max_tokens=max_tokens,
            gate_max_tokens=gate_max_tokens,
            **given,
        )
        self._models = (answer_model, gate_model)
        self._limits = (max_tokens, gate_max_tokens)
        self._takes_temperature = client.base_url.host != urlsplit(DEFAULT_BASE_URL).hostname

    def at(self, temperature: float) -> Self:
        """A copy at a temperature, over the same connection, where the server is not Anthropic's own.

        Its current models take none, and its library has no argument for it; other servers of the API do.
        """
        if not self._takes_temperature:
            return self
        other = copy(self)
        other._extra_body = {"temperature": temperature}
        return other

    async def route(self, question: str, fork: Fork, usage: Usage) -> str:
        mark = new_mark()
        parts = {
            "question": fence(question, mark),
            "topics": "\n".join(f"- {topic.words}" for topic in fork.topics),
            "ways": ", ".join(fork.ways),
            "doubt": fork.doubt,
        }
        kind: dict[str, object] = {"type": "string", "enum": list(fork.ways)}
        return await self._word(self._asked("route", mark, parts, usage, schema_of("way", kind)), "way")

    async def direct(self, question: str, usage: Usage) -> str:
        mark = new_mark()
        return await self._text(self._asked("direct", mark, {"question": fence(question, mark)}, usage, writes=True))

    async def bullets(self, question: str, passage: Passage, usage: Usage) -> str:
        mark = new_mark()
        parts = {"question": fence(question, mark), "passage": fenced_passage(passage, mark)}
        return await self._text(self._asked("bullets", mark, parts, usage))

    async def score(self, question: str, passage: Passage, usage: Usage) -> float:
        mark = new_mark()
        parts = {"question": fence(question, mark), "passage": fenced_passage(passage, mark)}
        ask = self._asked("score", mark, parts, usage, schema_of("score", {"type": "number"}))
        try:
            score = (await self._object(ask)).get("score")
        except verdicts.Doubt:
            return 0.0
        return min(1.0, max(0.0, float(score))) if isinstance(score, int | float) else 0.0

    async def grade_set(self, question: str, passages: Sequence[Passage], usage: Usage) -> Grade:
        mark = new_mark()
        parts = {"question": fence(question, mark), "passages": fenced_passages(passages, mark)}
        said = await self._word(
            self._asked("grade_set", mark, parts, usage, schema_of("relevant", _YES_NO)), "relevant"
        )
        return {"yes": Grade("pass"), "no": Grade("fail")}.get(said, Grade("error"))

    async def hallucinated(self, answer: str, sources: Sequence[Source], usage: Usage) -> str:
        mark = new_mark()
        parts = {"answer": fence(answer, mark), "sources": fenced_sources(sources, mark) or "None."}
        ask = self._asked("hallucinated", mark, parts, usage, schema_of("hallucinated", _YES_NO))
        return await self._word(ask, "hallucinated")

    def _asked(
        self,
        name: str,
        mark: str,
        parts: dict[str, str],
        usage: Usage,
        schema: dict[str, object] | None = None,
        *,
        writes: bool = False,
    ) -> Ask:
        prompt = load_prompt(name)
        usage.call(name, prompt.sha256)
        model, limit = (self._models[not writes], self._limits[not writes])
        setting = "ANSWER_MODEL" if writes else "GATE_MODEL"
        request = prompt.render(mark=mark, **parts)
        return Ask(name, prompt.sha256, model, setting, limit, prompt.system, request, usage, schema)

    async def _word(self, ask: Ask, key: str) -> str:
        try:
            said = (await self._object(ask)).get(key)
        except verdicts.Doubt:
            return ""
        return said.strip().lower() if isinstance(said, str) else ""

    async def _text(self, ask: Ask) -> str:
        """Return the whole text, "" where it was cut or cannot be had."""
        try:
            text, stop_reason = await self._whole(ask)
        except ModelUnavailable:
            return ""
        return text.strip() if stop_reason in COMPLETE else ""


def load_prompt(name: str) -> Prompt:
    return Prompt.parse(name, (PROMPTS / f"{name}.md").read_text(encoding="utf-8"), PARTS[name])


def connect_claude(settings: Settings) -> ClaudeForDesigns:
    """Build the client; whoever connects calls `aclose`. Raises `OperatorError` where there is no key."""
    key = settings.ANTHROPIC_API_KEY.get_secret_value()
    if not key and not settings.ANTHROPIC_BASE_URL:
        raise OperatorError("There is no key: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server of your own.")
    return ClaudeForDesigns.connect(
        api_key=key,
        base_url=settings.ANTHROPIC_BASE_URL,
        answer_model=settings.ANSWER_MODEL,
        gate_model=settings.GATE_MODEL,
        max_tokens=settings.ANSWER_MAX_TOKENS,
        gap_timeout_s=settings.MODEL_SILENCE_S,
        total_timeout_s=settings.MODEL_TIMEOUT_S,
    )
