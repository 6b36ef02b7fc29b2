"""Rules and questions of an invented rulebook, made from parts: they teach which detail makes a rule the wrong one.

Each sample is a rule, a question that it answers, questions that look alike and that it does not answer (another kind
of firm or client, another regime, another matter asked, another subject), and rules that look alike and do not answer
the question. No rule of the sample knowledge base is in here; some kinds of firm and client (category A and B, retail
and professional) and some roles go by the same names as there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from evals.train_matters import MATTERS, Matter

FIRMS = [
    "a category A firm", "a category B firm", "a class 1 firm", "a class 2 firm", "a small firm", "a large firm",
    "a payment institution", "an insurer", "an insurance broker", "a fund manager", "a depositary", "a trustee",
    "an issuer of shares", "an issuer of bonds", "a listed company", "a branch of a foreign bank", "a credit union",
    "a portfolio manager", "an investment adviser", "a custodian", "an exchange operator", "a captive insurer",
    "an authorised person", "a recognised body", "a money remitter", "a crowdfunding platform", "a sponsor",
]  # fmt: skip
CLIENTS = [
    "a retail client", "a professional client", "an eligible counterparty", "an individual", "a company", "a trust",
    "a partnership", "a charity", "a pension scheme", "an employee", "a director", "a minor", "a joint holder",
    "a public body", "a policyholder", "an investor in the fund", "a micro-enterprise", "a deceased client's estate",
]  # fmt: skip
REGIMES = [
    "before 1 January 2028", "under the former rules", "in the year before the reform", "in May 2027",
    "before the new regime", "under the old handbook", "in the first half of 2026", "when the previous order applied",
    "during the transitional period", "from 1 January 2035", "before 15 March 2029", "in June 2028",
]  # fmt: skip
PLACES = ["of Ostmark", "of the Solen Republic", "of Varnholt", "in Easterby", "of the Lower Isles", "of Quillon"]
UNITS = ["business days", "calendar days", "hours", "weeks", "months"]
PERIODS = ["calendar month", "calendar quarter", "six months", "12 months", "24 months", "three years", "week"]
ROLES = [
    "the governing body", "the compliance officer", "the nominated officer", "the finance director", "an auditor",
    "a member of senior management", "the risk committee", "the data protection officer", "two directors",
]  # fmt: skip
HEADINGS = [
    "Scope", "Timing", "Notices", "Records", "Fees", "Reviews", "Reports to the regulator", "Duties to clients",
    "General", "Conditions", "Transitional relief", "Guidance", "Exceptions",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """What one invented rule says. Empty `client` or `regime`: it makes no difference of that kind."""

    aspect: str
    matter: Matter
    firm: str
    client: str
    regime: str
    number: int
    unit: str
    period: str
    role: str
    form: str
    place: str = ""


BARE = 0.3
"""Share of the rules whose page has one heading."""

ASPECTS = ("deadline", "frequency", "fee", "threshold", "approval", "form", "retention")


def any_rule(chance: random.Random) -> Rule:
    return Rule(
        aspect=chance.choice(ASPECTS),
        matter=chance.choice(MATTERS),
        firm=chance.choice([*FIRMS, "a firm", "a firm", "the firm"]),
        client=chance.choice(CLIENTS) if chance.random() < 0.5 else "",
        regime=chance.choice(REGIMES) if chance.random() < 0.12 else "",
        number=chance.choice([1, 2, 3, 4, 5, 7, 10, 14, 15, 20, 25, 30, 40, 45, 60, 75, 90, 120]),
        unit=chance.choice(UNITS),
        period=chance.choice(PERIODS),
        role=chance.choice(ROLES),
        form="-".join(["".join(chance.choices("ABCDEFKLNRTVX", k=2)), str(chance.randint(1, 14))]),
    )


def rule_text(rule: Rule, chance: random.Random) -> str:
    """The rule as a passage: a context line, a number, and the sentence, now and then in company."""
    module = "".join(chance.choices("BEFGHJKLQTVWXZ", k=3))
    number = f"{module} {chance.randint(1, 9)}.{chance.randint(1, 6)}.{chance.randint(1, 9)}"
    heading = chance.choice(HEADINGS) if chance.random() < 0.6 else f"{rule.matter.thing}".capitalize()
    if rule.regime and chance.random() < 0.5:
        heading = "The former regime"
    said = [sentence(rule, chance)]
    if chance.random() < 0.35:
        said.append(chance.choice(COMPANY))
    if chance.random() < 0.2:
        said.insert(0, chance.choice(COMPANY))
    title = chance.choice([f"{number.rpartition('.')[0]} {heading}", f"{module} rulebook", "Handbook of the regulator"])
    mark = chance.choice([" R", " G", "", "R."])
    # A page with one heading has a short path: nothing but that heading and, where the page gives it, the number.
    path = [heading, number] if chance.random() < BARE else [title, heading, number]
    return f"{' > '.join(path)}\n{number}{mark} {' '.join(said)}"


COMPANY = [
    "The regulator may ask for more.", "This does not alter any other duty.", "A note of the reason must be kept.",
    "The period may not be extended.", "Weekends count.", "Nothing in this section applies to a firm in liquidation.",
    "It may do so by electronic means.", "See also the guidance in the annex.", "No fee is due for this.",
    "The duty cannot be delegated.", "The rest of this chapter applies with the necessary changes.",
]  # fmt: skip


def sentence(rule: Rule, chance: random.Random) -> str:
    matter, firm = rule.matter, rule.firm
    for_client = f" for {rule.client}" if rule.client else ""
    act = f"{matter.verb} {matter.thing}{for_client}"
    time = f"{rule.regime[0].upper() + rule.regime[1:]}, " if rule.regime else ""
    subject = firm if time else firm[0].upper() + firm[1:]
    if rule.aspect in ("deadline", "frequency", "fee") and "category" in firm and chance.random() < 0.4:
        return table(rule, act, chance)
    says: dict[str, Callable[[], str]] = {
        "deadline": lambda: chance.choice([
            f"{subject} must {act} within {rule.number} {rule.unit} of {matter.event}.",
            f"{subject} must {act} no later than {rule.number} {rule.unit} after {matter.event}.",
            f"{subject} has {rule.number} {rule.unit} from {matter.event} in which to {act}.",
        ]),
        "frequency": lambda: chance.choice([
            f"{subject} must {act} at least once in every {rule.period}.",
            f"{subject} must {act} not less often than once a {rule.period}.",
        ]),
        "fee": lambda: f"{subject} that is to {act} must pay a fee of {rule.number * 10}.",
        "threshold": lambda: f"{subject} must {act} if its value is more than {rule.number}%.",
        "approval": lambda: f"{subject} must not {act} without the approval of {rule.role}.",
        "form": lambda: f"{subject} must {act} on Form {rule.form}.",
        "retention": lambda: f"{subject} must keep the papers on how it came to {act} for {years(rule)} years.",
    }  # fmt: skip
    return time + says[rule.aspect]()


def years(rule: Rule) -> int:
    return rule.number % 13 + 1


def table(rule: Rule, act: str, chance: random.Random) -> str:
    other = "category B firm" if "A" in rule.firm else "category A firm"
    values = {
        "deadline": (f"within {rule.number} {rule.unit}", f"within {rule.number + 5} {rule.unit}"),
        "frequency": (f"once in every {rule.period}", f"once in every {chance.choice(PERIODS)}"),
        "fee": (f"MC {rule.number * 10}", f"MC {rule.number * 25}"),
    }[rule.aspect]
    rows = [f"{rule.firm[2:].capitalize()}\n{values[0]}", f"{other.capitalize()}\n{values[1]}"]
    chance.shuffle(rows)
    return f"How and when to {act}\nFirm\n" + "\n".join(rows)


def question(rule: Rule, chance: random.Random) -> str:
    """A question about the rule's own matter, as a rulebook or as a person would put it."""
    matter = rule.matter
    for_client = f" for {rule.client}" if rule.client else ""
    when = f" {rule.regime}" if rule.regime else ""
    place = f" {rule.place}" if rule.place else ""
    act = f"{matter.verb} {matter.thing}{place}{for_client}"
    past = bool(rule.regime) and "from" not in rule.regime
    must = "did {} have to" if past else "must {}"
    who = must.format(rule.firm)
    if chance.random() < 0.35:
        return spoken(rule, f"{matter.said}{place}{for_client}", when, chance)
    asks: dict[str, list[str]] = {
        "deadline": [f"Within how many {rule.unit} {who} {act}{when}?", f"By when {who} {act}{when}?",
                     f"How quickly {who} {act}{when}?",
                     f"How long after {matter.event} {who} {act}{when} at the latest?"],
        "frequency": [f"How often {who} {act}{when}?", f"At what intervals {who} {act}{when}?"],
        "fee": [f"What does it cost {rule.firm} to {act}{when}?", f"Which fee {who} pay so as to {act}{when}?"],
        "threshold": [f"From what value {who} {act}{when}?", f"Above which share {who} {act}{when}?"],
        "approval": [f"Whose approval does {rule.firm} need to {act}{when}?", 
                     f"Who has to agree before {rule.firm} may {act}{when}?"],
        "form": [f"On which form {who} {act}{when}?", f"What form does {rule.firm} use to {act}{when}?"],
        "retention": [f"For how many years {who} keep the papers when it came to {act}{when}?"],
    }  # fmt: skip
    return chance.choice(asks[rule.aspect])


def spoken(rule: Rule, act: str, when: str, chance: random.Random) -> str:
    we = f"We are {rule.firm}. " if rule.firm not in ("a firm", "the firm") else ""
    asks = {
        "deadline": ["How long have we got to {}?", "When at the latest do we have to {}?", "How soon must we {}?"],
        "frequency": ["How often do we have to {}?", "Is it once a year that we need to {}?"],
        "fee": ["What will it cost us to {}?", "How much do they charge when we {}?"],
        "threshold": ["How big does it have to be before we must {}?"],
        "approval": ["Who has to sign off before we {}?"],
        "form": ["Which form do we fill in to {}?"],
        "retention": ["How many years do we keep the papers after we {}?"],
    }[rule.aspect]
    asked = chance.choice(asks).format(act)
    return we + (f"{asked[:-1]}{when}?" if when else asked)


def other(values: list[str], value: str, chance: random.Random) -> str:
    return chance.choice([item for item in values if item != value])


def near_misses(rule: Rule, chance: random.Random) -> list[Rule]:
    """Rules that differ from `rule` in one detail that matters."""
    changed = [
        replace(rule, aspect=chance.choice([aspect for aspect in ASPECTS if aspect != rule.aspect])),
        replace(rule, matter=chance.choice([matter for matter in MATTERS if matter is not rule.matter])),
        replace(rule, regime="" if rule.regime else chance.choice(REGIMES)),
    ]
    if rule.firm not in ("a firm", "the firm"):
        changed += [replace(rule, firm=other(FIRMS, rule.firm, chance)), replace(rule, firm=sibling(rule.firm, chance))]
    if rule.client:
        changed += [replace(rule, client=other(CLIENTS, rule.client, chance))] * 2
    chance.shuffle(changed)
    return changed


def sibling(firm: str, chance: random.Random) -> str:
    """The kind of firm that is most easily mistaken for this one."""
    pairs = [("category A", "category B"), ("class 1", "class 2"), ("small", "large"), ("shares", "bonds")]
    for one, two in pairs:
        if one in firm:
            return firm.replace(one, two)
        if two in firm:
            return firm.replace(two, one)
    return other(FIRMS, firm, chance)


@dataclass(frozen=True, slots=True)
class Sample:
    """`wrong_questions` are not answered by `passage`, `wrong_passages` do not answer `question`."""

    question: str
    passage: str
    wrong_questions: tuple[str, ...]
    wrong_passages: tuple[str, ...]


def sample(chance: random.Random, wrong: int = 3) -> Sample:
    rule = any_rule(chance)
    text = rule_text(rule, chance)
    asked = rule
    # A rule without a difference answers for every kind: this is no near miss.
    if rule.firm in ("a firm", "the firm") and chance.random() < 0.5:
        asked = replace(asked, firm=chance.choice(FIRMS))
    if not rule.client and chance.random() < 0.3:
        asked = replace(asked, client=chance.choice(CLIENTS))
    wrong_rules = near_misses(rule, chance)[:wrong]
    asked_wrong = [
        question(item, chance) for item in wrong_rules if "\n" not in text.partition("\n")[2] or keeps(item, rule)
    ]
    if len(asked_wrong) < wrong:
        asked_wrong.append(question(replace(rule, place=chance.choice(PLACES)), chance))
    wrong_texts = [rule_text(item, chance) for item in near_misses(rule, chance)[:wrong] if not general(item, asked)]
    return Sample(question(asked, chance), text, tuple(asked_wrong), tuple(wrong_texts))


def keeps(item: Rule, rule: Rule) -> bool:
    """A table answers for both categories, so the other category is no near miss of it."""
    return item.firm == rule.firm


def general(item: Rule, asked: Rule) -> bool:
    return item.firm in ("a firm", "the firm") and item == replace(asked, firm=item.firm)
