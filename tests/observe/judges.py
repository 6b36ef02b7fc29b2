"""A scripted judge for the loopback peer: it reads DeepEval's prompts as a model would, and decides by what texts hold.

A claim agrees with the sources where its words stand in one of their sentences; a statement addresses a question with
which it shares a long word. So good and bad answers can be labelled by hand, and no model is asked.
"""

import ast
import re
from typing import Any

from tests.messages_server import Asked, Behaviour, says_json

WORD = re.compile(r"[a-z0-9-]+")
SHORT = 5  # letters; shorter words are everywhere


def judge_by_containment(asked: Asked) -> Behaviour:
    return says_json(reply(asked.system, asked.text, set((asked.schema or {})["properties"])))


def reply(system: str, text: str, wanted: set[str]) -> dict[str, Any]:
    """What the prompt asks for, as `wanted` are the keys of its schema."""
    if system.startswith("You check citations"):
        return {"verdicts": citation_verdicts(text)}
    if wanted & {"truths", "claims", "statements"}:
        [key] = wanted
        return {key: sentences(after(text, "AI Output:" if key == "claims" else "Text:"))}
    if "\nClaims:\n" in text:
        truths = sentences(after(text, "Retrieval Contexts:", "Claims:"))
        return {"verdicts": [verdict(holds(truths, claim), claim) for claim in listed(text, "Claims:")]}
    if "\nStatements:\n" in text:
        question = after(text, "Input:", "Statements:")
        return {"verdicts": [verdict(shares(question, said), said) for said in listed(text, "Statements:")]}
    if "\nExpected output:\n" in text:
        return {"verdicts": precision_verdicts(text)}
    if "\nExpected Output:\n" in text:
        context = sentences(after(text, "Retrieval Context:"))
        expected = sentences(after(text, "Expected Output:", "Retrieval Context:"))
        return {"verdicts": [verdict(holds(context, sentence), sentence) for sentence in expected]}
    question, context = after(text, "Input:", "Context:"), sentences(after(text, "Context:"))
    return {"verdicts": [{**verdict(shares(question, said), said), "statement": said} for said in context]}


def citation_verdicts(text: str) -> list[dict[str, Any]]:
    source, cited = re.findall(r"<data [0-9a-f]+>\n(.*?)\n</data", text, re.DOTALL)
    numbered = re.findall(r"^(\d+)\. (.*?)(?: \(cites other sources too\))?$", cited, re.MULTILINE)
    return [
        {"number": int(number), **verdict(holds(sentences(source), statement), statement)}
        for number, statement in numbered
    ]


def precision_verdicts(text: str) -> list[dict[str, Any]]:
    expected = after(text, "Expected output:", "Retrieval Context")
    nodes = ast.literal_eval(text[text.rindex("Retrieval Context") :].partition(":\n")[2].partition("\n\nJSON:")[0])
    return [verdict(holds(sentences(str(node)), expected), str(node)) for node in nodes]


def verdict(good: bool, what: str) -> dict[str, str]:
    return {"verdict": "yes" if good else "no", "reason": "" if good else f"not so: {what}"}


def holds(context: list[str], claim: str) -> bool:
    """Do all words of the claim stand in one sentence of the context?"""
    return any(words(claim) <= words(sentence) for sentence in context)


def shares(question: str, said: str) -> bool:
    return any(len(word) > SHORT for word in words(question) & words(said))


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def after(text: str, mark: str, until: str = "JSON:") -> str:
    """What stands after the last line `mark`, up to the line `until`."""
    found = text[text.rindex(f"\n{mark}\n") + len(mark) + 2 :]
    return found[: found.rindex(f"\n{until}")].strip()


def listed(text: str, mark: str) -> list[str]:
    found: list[str] = ast.literal_eval(after(text, mark))
    return found


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
