"""Rules that a reader would accept for why a passage on the right topic is still the wrong one.

Each compares the question with a passage and its heading path, by words alone. They only ever say no.
"""

import re

from service.llm.kinds import CONTRASTS, spaced
from service.llm.lexical import own_words

_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_DATE = rf"(?:\d{{1,2}} )?(?:(?:{_MONTH}) )?(?:19|20)\d\d"
_PAST_RULE = re.compile(
    r"\b(?:former|previous|old|earlier) (?:\w+ )?(?:rules?|regime|order|handbook|law|form|period|rulebook)\b"
    rf"|\bbefore {_DATE}\b|\bin those days\b"
)
_PAST_MARK = re.compile(rf"\b(?:former|formerly|previous|previously|existing)\b|\b(?:before|until) {_DATE}\b")
_PAST_QUESTION = re.compile(r"\b(?:did|was|were|had)\b")
_RULE_WORD = re.compile(
    r"\b(?:rules?|limits?|periods?|thresholds?|deadlines?|minimum|maximum|rates?|sums?|fees?|(?:sur)?charges?|must"
    r"|lev(?:y|ies)|penalt(?:y|ies) for|ratios?"
    r"|ha(?:ve|s|d) to|need(?:s|ed)?|due|dut(?:y|ies)|requir\w+|appl(?:y|ies|ied|icable)|allow(?:s|ed)?"
    r"|permit(?:s|ted)?|oblig\w+|entitled|in force|firms? pay|how (?:long|often|soon|early))\b"
)
_EVENT = re.compile(r"\b(?:fined|censured|suspended|expelled|convicted|applied for|on average|took place)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def mismatch(question: str, text: str) -> str:
    """Return why `text` (heading path included) cannot answer `question`, or "" where no rule says so.

    A kind counts where the person named it; the time as well where the turn before did.
    """
    own, asked, said = own_words(question), folded(question), folded(text)
    for contrast in CONTRASTS:
        wanted, named = contrast.named(own), contrast.named(text)
        if wanted and named and not wanted & named:
            return f"is about {', '.join(sorted(named))}, not {', '.join(sorted(wanted))}"
    if is_about_the_past(asked) and not _PAST_MARK.search(said):
        return "says nothing of the time before"
    return ""


def folded(text: str) -> str:
    return spaced(text).lower().replace("’", "'")


def is_about_the_past(asked: str) -> bool:
    """Whether the question, folded, asks what a rule was.

    It names an earlier regime, or it stands in a past tense with a year and a word of rules, and asks for no event:
    "which firm was fined in 2031 for a breach of the rules" does.
    """
    if _PAST_RULE.search(asked):
        return True
    return not _EVENT.search(asked) and all(said.search(asked) for said in (_PAST_QUESTION, _YEAR, _RULE_WORD))
