"""What must not leave for a search engine: names of clients, account numbers, addresses and the like.

A list of rules, each a pattern whose matches are taken out. The built-in ones know names by their surroundings only
("Mr ...", "our client ...", "... Ltd"); the operator's file adds what no pattern can guess.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from service.sensitive import (
    ACCOUNT,
    CODE,
    EMAIL,
    IBAN_SHAPE,
    NUMBER_WORD,
    SECRETS,
    load_list,
    plain,
    replaced,
    without_ibans,
)

# Every repetition is bounded: a question of 8,000 characters made for it must not keep the process busy.
# Where the case of the letters does not tell a name from the sentence around it, one of these words ends the name.
_STOP_LIST = """
a an the this that these those any all some no not our their its his her my your he she it they we you i
and or but if as of to in on at by for from with without under over into about after before against between than so
is are was were be been being am has have had do does did can could may might must shall should will would cannot
who whom whose which what when where why how whether because while also now still already only just
need needs want wants wish wishes ask asks asked open opens opened hold holds held keep keeps kept make makes made
pay pays paid owe owes owed give gives gave get gets got take takes took buy buys bought sell sells sold
send sends sent receive receives received transfer transfers transferred move moves moved close closes closed
apply applies applied claim claims claimed complain complains complained consent consents consented sign signs signed
qualify qualifies count counts become becomes became act acts acted say says said tell tells told live lives lived
work works worked invest invests invested trade trades traded withdraw withdraws cancel cancels cancelled
require requires required request requests requested leave leaves left use uses used see go goes went
client clients customer customers account accounts money rule rules
"""
_PUBLIC_LIST = """
EU EEA UK US USA GBP EUR USD FCA PRA FSA FOS FSCS ESMA EBA SEC CASS COBS SYSC PRIN PERG DISP MCOB ICOBS PRU SUP MAR
FSMA AML KYC CDD EDD PEP GDPR DORA EMIR MIFID MIFIR UCITS AIFM AIFMD PSD EMD FATF ISIN LEI IBAN BIC ETF ISA SIPP
"""
_STOP = rf"(?i:{'|'.join(_STOP_LIST.split())})(?![\w'’-])"
_PUBLIC = rf"(?:{'|'.join(_PUBLIC_LIST.split())})\b"
_PARTS = r"(?i:de|del|di|la|van|von|der|den|bin|al)\s+"
_CAPITALS = rf"(?!{_STOP}|{_PUBLIC})[A-ZÀ-ÖØ-Þ][A-ZÀ-ÖØ-Þ'’-]{{0,40}}[A-ZÀ-ÖØ-Þ]\b"
_NAME = rf"(?:[A-ZÀ-ÖØ-Þ][\w'’-]{{0,40}}[a-zß-öø-ÿ]\b|{_CAPITALS}|[A-ZÀ-ÖØ-Þ]\b\.?)"
_NAMES = rf"(?:{_PARTS}){{0,3}}{_NAME}(?:\s+(?:{_PARTS}){{0,3}}{_NAME}){{0,3}}"
_WORD = r"(?:\w\.|[\w'’-]{1,40})"
_WORDS = rf"(?:(?:{_PARTS}){{1,3}}(?!{_STOP}){_WORD}|{_WORD})(?:\s+(?:{_PARTS}){{0,3}}(?!{_STOP}){_WORD}){{0,2}}"
_ROLE = "client|customer|investor|complainant|employee|colleague|beneficiary|borrower|tenant"
_FIRM_WORD = r"(?:[A-ZÀ-ÖØ-Þ][\w'’.-]{0,40}|&|and|of)"
_FIRM_END = (
    r"(?:(?i:Ltd|LLP|LLC|PLC|Inc|Incorporated|Corp|Corporation|GmbH|AG|S\.A\.|SARL|BV|N\.V\.|Pty)"
    r"|SE|Limited|LIMITED|limited(?!\s+(?:to|by|in|liability)\b))"
)
_YEARS = r"(?:(?:19|20)\d\d[ ])*(?:19|20)\d\d\b(?![ ]?\d)"

_ANY_CASE = (
    r"(?:\b[a-z][a-z0-9+.-]{0,20}://|\bwww\.)\S+",
    EMAIL,
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
    r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    # A number that is said to be somebody's: "account no. 12-34", "policy ref: AB/17".
    ACCOUNT,
    rf"\b(?:policy|customer|client|case|matter|file|reference|our|your)\s*{NUMBER_WORD}\s*[:#]?\s*{CODE}",
    r"\b(?:born(?:\s+on)?|dob|date\s+of\s+birth)\b\W{0,3}\d\S*(?:\s+\w+\s+\d{4})?",
    rf"\b(?:mr|mrs|ms|mx|miss(?!\s+(?:a|an|any|the|this|that|its|their|our|your)\b))\b\.?\s+{_WORDS}",
)

_EXACT_CASE = (
    IBAN_SHAPE,
    r"\b[A-Z]{2}[ ]?\d{2}[ ]?\d{2}[ ]?\d{2}[ ]?[A-D]\b",  # national insurance
    r"\b(?=(?:[A-Z]*\d){4})(?=\d*[A-Z])[A-Z0-9]{8,}\b",  # references, ISIN, LEI, BIC with digits
    r"\b[A-Z]{1,2}\d[A-Z\d]?[ ]?\d[A-Z]{2}\b",  # postcode
    r"(?<![\d,.])\d{6,}(?![\d,]\d)",  # an account; 1,000,000 and 2014/65 are no such runs
    r"(?<![\d,.])(?!(?:19|20)\d\d-\d\d-\d\d\b)\d{2,}(?:-\d{2,}){2,}",  # 12-34-56, 078-05-1120; not an ISO date
    rf"(?<![\d,.])(?!{_YEARS})\d(?:[ ]?\d){{8,}}",  # a card or an account in groups
    r"\+\d[\d ()./-]{7,}\d",  # telephone
    r"(?<![\w,.])\(?0\d{2,4}\)?[ -]\d{3,}[ -]?\d{3,}",
)

_NAMED = (
    rf"\b(?i:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Sir|Dame|Lord|Lady|Herr|Frau|Mme|Señor|Señora)\b\.?\s+{_NAMES}",
    # "Client Assets" is no name; "OUR CLIENT JANE DOE" holds one.
    rf"\b(?:(?:{_ROLE})s?|(?i:(?:(?<=\bour )|(?<=\bmy ))(?:{_ROLE})s?)),?\s+(?i:called\s+|named\s+|is\s+)?{_NAMES}",
    rf"\b{_FIRM_WORD}(?:[ ,]+{_FIRM_WORD}){{0,4}},?[ ]+{_FIRM_END}\b\.?",
)

NAMED = tuple(map(re.compile, _NAMED))
"""Rules whose matches are names: the words of a name are taken out wherever they stand, not only after "Mr"."""
RULES = (*SECRETS, *(re.compile(rule, re.IGNORECASE | re.DOTALL) for rule in _ANY_CASE), *map(re.compile, _EXACT_CASE))

_NAME_WORD = re.compile(r"[A-ZÀ-ÖØ-Þ][\w'’-]{2,}")
_NO_NAME_LIST = """
Mrs Miss Prof Professor Sir Dame Lord Lady Herr Frau Mme Señor Señora Ltd Limited LLP LLC PLC Inc Incorporated Corp
Corporation GmbH SARL Pty The And Bank Financial Finance Services Capital Group Holdings Partners Trust Investment
Investments Insurance Asset Management Fund Funds Securities International What When Which Who Why How Does Did Can
May Must Should Would Will Has Have For With
"""
_NO_NAMES = frozenset(f"{_NO_NAME_LIST} {_PUBLIC_LIST}".casefold().split())
_MOST_ROUNDS = 4


class Masks:
    """The built-in rules and the operator's. `sha256` is that of the operator's file, "" without one."""

    def __init__(self, extra: Iterable[re.Pattern[str]] = (), sha256: str = "") -> None:
        self.sha256 = sha256
        # The operator's come first: a built-in rule must not cut a listed name in two.
        self._extra = tuple(extra)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the operator's file. Raises `OperatorError` that names the line."""
        return cls(*load_list(path))

    def mask(self, text: str, named_in: str = "") -> str:
        """Return `text` on one line, NFKC, without invisible characters and without what a rule matches.

        The names that `named_in` gives away by their surroundings are taken out of `text` too.
        """
        masked = _plain(text)
        names = names_in(f"{masked} ; {_plain(named_in)}")
        for _ in range(_MOST_ROUNDS):
            before = masked
            masked = without_ibans(" ", replaced(self._extra, " ", masked))
            masked = " ".join(replaced((*names, *RULES), " ", masked).split())
            if masked == before:
                break
        return masked


def names_in(text: str) -> list[re.Pattern[str]]:
    """The rules for names, and one for the words of the names that they find."""
    found = [match.group() for rule in NAMED for match in rule.finditer(text)]
    words = {word for name in found for word in _NAME_WORD.findall(name) if word.casefold() not in _NO_NAMES}
    if not words:
        return list(NAMED)
    words |= {word.title() for word in words}  # "MR SMITH ... did Smith agree"
    again = rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})(?:['’]s)?\b"
    return [*NAMED, re.compile(again)]


def _plain(text: str) -> str:
    return " ".join(plain(text).split())
