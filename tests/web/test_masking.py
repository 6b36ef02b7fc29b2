"""What leaves for the search engine: nothing that a rule masks, and nothing that the engine would obey."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import OperatorError
from service.llm.lexical import web_query
from service.web.masking import Masks
from service.web.phrase import MAX_CHARS, MAX_WORDS, phrased

PRIVATE = [
    ("May Mr John Smith-Jones open an account?", ["John", "Smith", "Jones"]),
    ("Is Mrs. O’Neill a retail client, and did O’Neill consent?", ["Neill"]),
    ("does mr smith owe a fee", ["smith"]),
    ("What must our client Acme do? Acme is new.", ["Acme"]),
    ("The customer Maria de la Cruz complained", ["Maria", "Cruz"]),
    ("Does Blackfriars Wharf Holdings Ltd need a licence?", ["Blackfriars", "Wharf"]),
    ("Nimbus & Sons LLP moved its money", ["Nimbus", "Sons"]),
    ("write to jane.doe+x@client.test today", ["jane", "doe", "client.test"]),
    ("IBAN DE89 3704 0044 0532 0130 00", ["DE89", "3704", "0130"]),
    ("iban gb29nwbk60161331926819", ["gb29", "6016"]),
    ("card 4111 1111 1111 1111 and 4111-1111-1111-1111", ["4111", "1111"]),
    ("card ４１１１ １１１１ １１１１ １１１１", ["4111", "１１１１"]),
    ("account 12345678 with sort code 12-34-56", ["12345678", "12-34", "34-56"]),
    ("account no. AB-17/22 is frozen", ["AB-17", "17/22"]),
    ("our ref: HB/4477", ["HB/4477"]),
    ("ssn 078-05-1120, ni QQ 12 34 56 C", ["078", "1120", "QQ", "56"]),
    ("call +44 (0)20 7946 0958 or 020 7946 0958", ["7946", "0958"]),
    ("she lives at SW1A 1AA and was born on 12 March 1980", ["SW1A", "1AA", "March", "1980"]),
    ("ISIN GB0002634946, LEI 5493001KJTIIGC8Y1R12", ["GB00", "5493"]),
    ("see https://intranet.test/deal?id=7 and www.client.test/x", ["intranet", "deal", "client"]),
    ("Bearer sk-ant-FAKE-FAKE-FAKE", ["sk-ant", "FAKE"]),
    ("-----BEGIN PRIVATE KEY----- MIIEvQ", ["BEGIN", "MIIE"]),
    ("host 192.168.7.4 id 123e4567-e89b-12d3-a456-426614174000", ["192.168", "123e4567", "4266"]),
    ("jane\u200b.doe\u200b@client.test", ["jane", "doe"]),
    ("Mr Jo\u00adhn Smith", ["Smith"]),
    ("May MR JOHN SMITH open a client account?", ["JOHN", "SMITH"]),
    ("may mr john smith open an account", ["john", "smith"]),
    ("Mrs de la Cruz is a retail client", ["la", "Cruz"]),
    ("our client JANE DOE wants a refund; did DOE or Doe consent?", ["JANE", "DOE", "Doe"]),
    ("Is ACME HOLDINGS LTD or Nimbus Wharf ltd authorised?", ["ACME", "LTD", "Nimbus", "Wharf"]),
]


@pytest.mark.parametrize(("question", "gone"), PRIVATE)
def test_what_is_private_leaves_neither_as_asked_nor_as_worded(question: str, gone: list[str]) -> None:
    """U04."""
    masks = Masks()
    for text in (masks.mask(question), phrased(masks.mask(web_query(masks.mask(question))), None)):
        assert not [word for word in gone if word in text]


@pytest.mark.parametrize(
    "question",
    [
        "What own funds must a category B firm hold at all times?",
        "Does Regulation (EU) 600/2014 amend Directive 2014/65/EU and MAR 4.1.2?",
        "Is £1,000,000 held in 2031 or between 2019 and 2020 enough under PRU 3.1.2 R?",
        "Which client money rules came into force on 2031-01-15?",
        "What does the Financial Services and Markets Act 2000 say on limited liability?",
        "Does CP23/15 change CASS 7.13.6 for retail clients?",
        "Is case 2031/15 good law after 30 days?",
    ],
)
def test_the_public_words_of_a_question_survive(question: str) -> None:
    assert Masks().mask(question) == question


@pytest.mark.parametrize(
    ("question", "masked"),
    [
        ("May MR JOHN SMITH open a client account?", "May open a client account?"),
        ("may mr john smith open an account", "may open an account"),
        ("MAY MR JOHN SMITH OPEN AN ACCOUNT?", "MAY OPEN AN ACCOUNT?"),
        ("does mrs de la cruz owe a fee", "does owe a fee"),
        ("OUR CLIENT JANE DOE WANTS A REFUND", "OUR WANTS A REFUND"),
        ("What if we miss the reporting deadline?", "What if we miss the reporting deadline?"),
        ("Which Client Assets and client CASS rules apply?", "Which Client Assets and client CASS rules apply?"),
        ("Is the FCA limited by FSMA?", "Is the FCA limited by FSMA?"),
    ],
)
def test_a_name_in_any_case_ends_where_the_sentence_goes_on(question: str, masked: str) -> None:
    assert Masks().mask(question) == masked


@given(st.text(max_size=300))
def test_masking_again_changes_nothing(text: str) -> None:
    masks = Masks()
    once = masks.mask(text)
    assert masks.mask(once) == once
    assert "\n" not in once


@pytest.mark.parametrize(
    "text",
    [
        "A." * 4000,
        "a@" * 4000,
        "AB12" * 2000,
        "Mr Aa " * 1300,
        "account" + "-a" * 3900,
        "2019 " * 1600,
        "Aa Bb " * 1300,
        "AA BB " * 1300,
        "mr aa " * 1300,
        "MR DE LA " * 880,
        "our client AA" + "-A" * 3900,
    ],
)
def test_a_text_made_to_keep_the_rules_busy_is_masked_in_time(text: str) -> None:
    began = time.monotonic()
    Masks().mask(text)
    assert time.monotonic() - began < 5


# The operator's file


def masks_of(folder: Path, text: str | bytes) -> Masks:
    file = folder / "masks.txt"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return Masks.load(file)


def test_the_operators_texts_and_patterns_are_masked_too(tmp_path: Path) -> None:
    masks = masks_of(tmp_path, "\ufeff# clients\nBlue Heron\n\nMüller-Lüdenscheidt\nX (Y) [Z]\nre: project\\s+\\w+\n")
    said = masks.mask("blue-heron, BLUE  HERON and Mu\u0308ller Lüdenscheidt on Project Falcon; x (y) [z], blueheron")
    assert said.split() == [",", "and", "on", ";", ","]


def test_the_operators_file_is_named_by_its_hash(tmp_path: Path) -> None:
    one, other = masks_of(tmp_path, "Jane Doe"), masks_of(tmp_path, "Jane Roe")
    assert len(one.sha256) == 64
    assert one.sha256 != other.sha256
    assert Masks().sha256 == ""


def test_a_listed_name_is_a_whole_word(tmp_path: Path) -> None:
    assert masks_of(tmp_path, "Ash").mask("the ash of cash and Ashes") == "the of cash and Ashes"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ok\nre: (", "line 2"),
        ("re: a*", "matches the empty text"),
        ("re:", "matches the empty text"),
        ("...", "no letter"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("x" * 1_000_001, "longer"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        masks_of(tmp_path, text)


def test_a_missing_file_is_refused_by_the_name_of_its_setting(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="WEB_MASK_FILE"):
        Masks.load(tmp_path / "none.txt")


# The wording


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ("!g fees", "g fees"),
        ("fees !wikipedia", "fees wikipedia"),
        ("\\ client money", "client money"),
        ("site:evil.test fees", "site evil.test fees"),
        ('"client money" -rules +x', "client money rules x"),
        ("a\nb\tc\x00d", "a b c d"),
        ("£50,000 § 4.2 R&D 10%", "£50,000 § 4.2 R&D 10%"),
        ("...", ""),
        ("", ""),
    ],
)
def test_nothing_is_sent_that_the_engine_would_obey(words: str, sent: str) -> None:
    assert phrased(words, None) == sent


@given(st.text(max_size=2000))
def test_a_query_is_short_and_plain(words: str) -> None:
    query = phrased(words, None)
    assert len(query) <= MAX_CHARS
    assert len(query.split()) <= MAX_WORDS
    assert not set(query) & set("!\\:\"'\n<>|") - {"'"}


def test_the_allowed_domains_go_with_the_query() -> None:
    assert phrased("client money", frozenset({"b.test", "a.test"})) == "client money site:a.test OR site:b.test"
    assert phrased("...", frozenset({"a.test"})) == ""


@pytest.mark.parametrize(
    ("question", "query"),
    [
        ("What is the fee for a transfer?", "fee transfer"),
        (
            "Is £1,000,000 (EU) 600/2014 enough for (the) client’s client?",
            "£1,000,000 EU 600/2014 enough client’s client",
        ),
        ("What is it?", "What is it"),
        ("???", ""),
    ],
)
def test_quote_words_a_query_of_the_questions_own_words(question: str, query: str) -> None:
    assert web_query(question) == query
