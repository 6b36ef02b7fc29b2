"""What can be said of an answer by its labels and its evidence, with no model: is it right, does it stand?"""

from collections.abc import Sequence
from functools import lru_cache

from evals.designs.port import DONT_KNOW
from evals.golden_set import Case
from evals.seed import fold, states
from service.citations.quotation_marks import is_term, quotations
from service.citations.quotes import stands_verbatim
from service.llm import lexical


def states_the_answer(answer: str, case: Case) -> bool:
    """Whether it states all facts of an answerable case and none that the case forbids."""
    facts = all(states(answer, fact) for fact in case.facts)
    return case.status == "answered" and facts and not any(states(answer, wrong) for wrong in case.forbidden)


def has_evidence(text: str, address: str, case: Case) -> bool:
    """Whether a text of an address holds the words of a labelled passage."""
    return any(e.address == address and fold(e.text) in fold(text) for e in case.expected)


@lru_cache(maxsize=4096)
def figures_of(text: str) -> frozenset[str]:
    return frozenset(lexical.figures(text))


def unsupported(answer: str, evidence: Sequence[str], question: str = "") -> bool:
    """Whether an answer claims what its evidence does not hold, by three rules that need no judge.

    It rests on no evidence at all; it names a figure, date or identifier that stands neither in the evidence nor in the
    question; or it quotes a sentence that stands in no text of the evidence. A lower bound: a wrong word is not found.
    "I don't know" claims nothing.
    """
    if answer.strip() == DONT_KNOW:
        return False
    if not evidence:
        return True
    known: frozenset[str] = frozenset().union(*map(figures_of, (question, *evidence)))
    if lexical.names(answer) - known:
        return True
    quoted = [quote for quote in quotations(answer) if not is_term(quote)]
    return any(not any(stands_verbatim(quote, text) for text in evidence) for quote in quoted)
