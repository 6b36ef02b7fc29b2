"""Kinds of which a rule for one says nothing on another, and which of them a text names."""

import re
from dataclasses import dataclass

# "retail and professional", "retail, professional or", "A/B", "from B to A". Bounded and without two ways to read the
# same white space: a page from the web may hold any number of commas.
_AND = r"(?: ?(?:,|/|&|and\b|or\b|nor\b|to\b)){1,3} ?(?:(?:the|an?) )?"
# More than any contrast has. Without a bound a list of thousands would be read to its end from each of its words.
_MORE = "{0,4}"


@dataclass(frozen=True, slots=True)
class Modified:
    """Kinds that differ in the word before their noun: `kinds` maps that word to the noun ("retail" to "client")."""

    kinds: dict[str, str]

    def named(self, text: str) -> set[str]:
        """The kinds whose noun follows, after no more than their siblings: "retail and professional clients".

        The word before the noun must be its own: "eligible clients" are no kind of counterparty.
        """
        one, folded = "|".join(self.kinds), spaced(text).lower()
        said: set[str] = set()
        for noun in sorted(set(self.kinds.values())):
            own = "|".join(word for word, head in self.kinds.items() if head == noun)
            run = rf"\b((?:(?:{one})\b{_AND}){_MORE}(?:{own}))[ -]{_either_number(noun)}\b"
            said |= {word for found in re.findall(run, folded) for word in re.findall(one, found)}
        return {f"{word} {noun}" for word, noun in self.kinds.items() if word in said}

    def replaced(self, text: str) -> set[str]:
        """The words for the other kinds, where a follow-up has the word for one of them in its place.

        That is before a noun of the contrast or "one", or at the end behind a word like "the": "and the annual?". In
        "and the main exceptions?" and "who is eligible?" it is a word like others.
        """
        one = "|".join(self.kinds)
        heads = "|".join(map(_either_number, sorted(set(self.kinds.values()))))
        placed = rf"\b({one})[ -](?:{heads}|ones?)\b|\b(?:for|about|the|and|or|only|as|to be) ({one})\W*$"
        here = {word for pair in re.findall(placed, spaced(text).lower()) for word in pair if word}
        return self.kinds.keys() - here if here else set()


@dataclass(frozen=True, slots=True)
class Lettered:
    """Kinds that differ in the capital after their noun: "category A"."""

    noun: str
    letters: str

    def named(self, text: str) -> set[str]:
        """The kinds whose letter follows the noun, or a sibling behind it: "categories A and B".

        In small letters too, all of one case. A small "a" by itself is the article ("which category a firm is in"),
        unless one stands before the noun ("a category a firm") or what follows can take none: "firms", a mark, the end.
        """
        small = self.letters.lower()
        either = "|".join(rf"[{one}]\b(?:{_AND}[{one}]\b){_MORE}" for one in (self.letters, small))
        noun = rf"(\b[Aa] )?\b(?i:{_either_number(self.noun)})"
        found = re.findall(rf"{noun}[ -]({either})(?=( firms\b|[^\w\s]|$)?)", spaced(text))
        runs = [run for before, run, behind in found if run != "a" or before or behind]
        said = {letter for run in runs for letter in re.findall(rf"\b[{self.letters}{small}]\b", run)}
        return {f"{self.noun} {letter.upper()}" for letter in said}


CONTRASTS: tuple[Modified | Lettered, ...] = (
    Modified({"retail": "client", "professional": "client", "eligible": "counterparty"}),
    Lettered("category", "AB"),
    Modified({"main": "market", "growth": "market"}),
    Modified({"internal": "reconciliation", "external": "reconciliation"}),
    Modified({"major": "incident", "significant": "incident", "minor": "incident"}),
    Modified({"quarterly": "return", "annual": "return"}),
)
"""A text that names several of a contrast holds for each of them."""


def spaced(text: str) -> str:
    return " ".join(text.split())


def _either_number(noun: str) -> str:
    return f"{noun[:-1]}(?:y|ies)" if noun.endswith("y") else f"{noun}s?"
