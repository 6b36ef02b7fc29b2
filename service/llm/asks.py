"""What a language model is asked: prompt, model, limits and schema of each logical call, counted as it is made."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.llm.prompt import (
    PARTS,
    Prompt,
    fence,
    fenced_advice,
    fenced_history,
    fenced_passage,
    fenced_passages,
    fenced_seen,
    fenced_sources,
    new_mark,
)
from service.llm.verdicts import ANSWERS_SCHEMA, BATCH_SCHEMA, GRADE_SCHEMA, GROUNDED_SCHEMA
from service.model import Passage, Source, Turn
from service.usage import Usage

NO_DRAFT = "There is no earlier draft."
NONE_TRIED = "None."


@dataclass(frozen=True, slots=True)
class Ask:
    """One logical call. `setting` is the setting that chose the model, named to the operator when it is unknown."""

    name: str
    prompt_sha256: str
    model: str
    setting: str
    max_tokens: int
    system: str
    request: str
    usage: Usage
    schema: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Models:
    """`answer` writes; `gate` condenses, grades, words queries and judges. The limits are tokens of one reply."""

    answer: str
    gate: str
    max_tokens: int
    gate_max_tokens: int


class Asks:
    """Builds each `Ask` from what the port is given. Building one counts it in `usage`."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._prompts = {name: Prompt.load(name) for name in PARTS}

    def condense(self, turns: Sequence[Turn], question: str, usage: Usage) -> Ask:
        mark = new_mark()
        parts = {"history": fenced_history(turns, mark), "question": fence(question, mark)}
        return self._gate("condense", mark, parts, usage)

    def rewrite(self, question: str, tried: str, seen: Sequence[Passage], usage: Usage) -> Ask:
        mark = new_mark()
        parts = {"question": fence(question, mark), "tried": fence(tried, mark), "passages": fenced_seen(seen, mark)}
        return self._gate("rewrite", mark, parts, usage)

    def web_query(self, question: str, tried: str, usage: Usage) -> Ask:
        mark = new_mark()
        parts = {"question": fence(question, mark), "tried": fence(tried, mark) if tried else NONE_TRIED}
        return self._gate("web_query", mark, parts, usage)

    def grade(self, question: str, passages: Sequence[Passage], usage: Usage, hint: str = "") -> Ask:
        """A lone passage is asked about by itself, several as a batch: one call either way."""
        mark = new_mark()
        parts = {"question": fence(question, mark), "hint": fenced_advice(hint, mark)}
        if len(passages) == 1:
            parts["passage"] = fenced_passage(passages[0], mark)
            return self._gate("grade", mark, parts, usage, GRADE_SCHEMA)
        parts |= {"passages": fenced_passages(passages, mark), "count": str(len(passages))}
        return self._gate("grade_batch", mark, parts, usage, BATCH_SCHEMA)

    def answer(
        self, question: str, sources: Sequence[Source], feedback: str, usage: Usage, instructions: str = ""
    ) -> Ask:
        mark, prompt, models = new_mark(), self._prompts["answer"], self._models
        usage.call("answer", prompt.sha256)
        request = prompt.render(
            mark=mark,
            question=fence(question, mark),
            sources=fenced_sources(sources, mark),
            feedback=fence(feedback, mark) if feedback else NO_DRAFT,
            instructions=fenced_advice(instructions, mark),
        )
        return Ask(
            "answer", prompt.sha256, models.answer, "ANSWER_MODEL", models.max_tokens, prompt.system, request, usage
        )

    def judge_grounded(self, question: str, answer: str, sources: Sequence[Source], usage: Usage) -> Ask:
        mark = new_mark()
        parts = {
            "question": fence(question, mark),
            "answer": fence(answer, mark),
            "sources": fenced_sources(sources, mark),
        }
        return self._gate("judge_grounded", mark, parts, usage, GROUNDED_SCHEMA)

    def judge_answers(self, question: str, answer: str, usage: Usage) -> Ask:
        mark = new_mark()
        parts = {"question": fence(question, mark), "answer": fence(answer, mark)}
        return self._gate("judge_answers", mark, parts, usage, ANSWERS_SCHEMA)

    def _gate(
        self, name: str, mark: str, parts: dict[str, str], usage: Usage, schema: dict[str, object] | None = None
    ) -> Ask:
        prompt, models = self._prompts[name], self._models
        called = "grade" if name == "grade_batch" else name
        usage.call(called, prompt.sha256)
        request, limit = prompt.render(mark=mark, **parts), models.gate_max_tokens
        return Ask(called, prompt.sha256, models.gate, "GATE_MODEL", limit, prompt.system, request, usage, schema)
