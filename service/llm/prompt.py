"""Prompts as Markdown files with a hash, and the fences that keep source text apart from instructions.

A prompt file holds the system text, a line `---`, and the request with its `$placeholders`. Only the request has
placeholders, so the system text is the same in every call.

What is done to source text before a model sees it, so that it can pose neither as a label nor as the end of its fence
(invariant 14): the opening brackets of a citation mark or of the abstain mark are parted (`[[4]]` reads `[ [4]]`), a
source label is set apart (`[VECTOR]` reads `[ VECTOR ]`), and the fence mark of this very request, should it occur, is
broken. Nothing else changes: the model quotes from this text, and a quote must be verbatim in the source. A source that
really prints one of those can therefore not be quoted across it.
"""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Self

from service.model import ABSTAIN, Passage, Source, Turn

PARTS: dict[str, frozenset[str]] = {
    "condense": frozenset({"mark", "history", "question"}),
    "grade": frozenset({"mark", "question", "passage", "hint"}),
    "grade_batch": frozenset({"mark", "question", "passages", "count", "hint"}),
    "rewrite": frozenset({"mark", "question", "tried", "passages"}),
    "web_query": frozenset({"mark", "question", "tried"}),
    "answer": frozenset({"mark", "question", "sources", "feedback", "instructions"}),
    "judge_grounded": frozenset({"mark", "question", "answer", "sources"}),
    "judge_answers": frozenset({"mark", "question", "answer"}),
}
"""The placeholders of each prompt: exactly these, or the prompt does not load."""

SEPARATOR = "\n---\n"
TURNS_CARRIED = 4
TURN_CHARS = 1000
SEEN_CHARS = 300

_CITATION = re.compile(rf"\[\[(?=\s{{0,3}}(?:\d|{re.escape(ABSTAIN.strip('[]'))}))", re.IGNORECASE)
_LABEL = re.compile(r"\[(VECTOR|REFERENCE|WEB)\]")


class PromptError(Exception):
    """A prompt file and the code that fills it disagree: a bug, found when the prompt is loaded."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. `sha256` is of the whole file and goes on the trace and into the audit record."""

    name: str
    sha256: str
    system: str
    request: Template

    @classmethod
    def load(cls, name: str) -> Self:
        """Read `prompts/<name>.md`. Raises `PromptError` when it or a placeholder is unknown or missing."""
        if name not in PARTS:
            raise PromptError(f"no prompt is called {name!r}")
        text = resources.files("service.llm").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
        return cls.parse(name, text, PARTS[name])

    @classmethod
    def parse(cls, name: str, text: str, parts: frozenset[str]) -> Self:
        system, separator, request = text.partition(SEPARATOR)
        if not separator:
            raise PromptError(f"prompt {name}: no line '---' between system text and request")
        template = Template(request.strip())
        if not template.is_valid():
            raise PromptError(f"prompt {name}: a stray '$' in the request")
        found = frozenset(template.get_identifiers())
        if found != parts:
            raise PromptError(f"prompt {name}: placeholders missing or unknown: {sorted(found ^ parts)}")
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        return cls(name=name, sha256=digest, system=system.strip(), request=template)

    def render(self, **parts: str) -> str:
        """Return the request with every placeholder filled. What is filled in is never expanded again."""
        if parts.keys() != frozenset(self.request.get_identifiers()):
            raise PromptError(f"prompt {self.name}: filled with {sorted(parts)}")
        return self.request.substitute(parts)


def new_mark() -> str:
    """A mark for the fences of one request: 64 random bits, which no document can foresee."""
    return secrets.token_hex(8)


def fence(text: str, mark: str) -> str:
    """Put `text` between two fence lines. The mark itself, should the text hold it, is broken."""
    inside = text.replace(mark, f"{mark[:8]}-{mark[8:]}")
    return f"<data {mark}>\n{inside}\n</data {mark}>"


def defuse(text: str) -> str:
    """Part what looks like a citation mark, the abstain mark or a source label (see the module's docstring)."""
    return _LABEL.sub(r"[ \1 ]", _CITATION.sub("[ [", text))


def heading(passage: Passage) -> str:
    """`[LABEL] title > section` on one line: the label is ours, the rest is source text and defused."""
    return f"[{passage.label}] {place(passage)}"


def place(passage: Passage) -> str:
    """`title > section` on one line, defused: the page wrote it."""
    where = " > ".join(part for part in (passage.title, passage.section) if part)
    return defuse(" ".join(where.split()))


def fenced_passage(passage: Passage, mark: str) -> str:
    """One passage without a number, as the grader reads it. The heading is fenced too: the page wrote most of it."""
    return fence(f"{heading(passage)}\n{defuse(passage.text)}", mark)


def fenced_passages(passages: Sequence[Passage], mark: str) -> str:
    """Passages numbered from 1 for a batch grade."""
    return "\n\n".join(f"Passage {i}:\n{fenced_passage(p, mark)}" for i, p in enumerate(passages, 1))


def fenced_sources(sources: Sequence[Source], mark: str) -> str:
    """Sources as the writer and the judge read them: `[[n]] [LABEL]` is ours, the heading and the text are fenced."""
    return "\n\n".join(f"[[{s.n}]] [{s.passage.label}]\n{fence(body(s.passage), mark)}" for s in sources)


def body(passage: Passage) -> str:
    """`title > section` on one line, then the text: all of it the page's, so all of it defused."""
    return f"{place(passage)}\n{defuse(passage.text)}"


def fenced_advice(text: str, mark: str) -> str:
    """What a skill says, defused like source text: it can give no source a number, nor a label."""
    return fence(defuse(text), mark) if text else "None."


def fenced_seen(passages: Sequence[Passage], mark: str) -> str:
    """The beginnings of passages that did not do, for the rewriter."""
    if not passages:
        return "None."
    return fence("\n\n".join(f"{heading(p)}\n{defuse(p.text[:SEEN_CHARS])}" for p in passages), mark)


def fenced_history(turns: Sequence[Turn], mark: str) -> str:
    """The last turns, oldest first, each cut to its beginning."""
    lines = (
        f"Question: {turn['question'][:TURN_CHARS]}\nAnswer: {turn['answer'][:TURN_CHARS]}"
        for turn in turns[-TURNS_CARRIED:]
    )
    return fence("\n\n".join(lines), mark)
