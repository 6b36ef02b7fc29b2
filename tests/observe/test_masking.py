"""What leaves with a trace: nothing that a rule masks, and the public words as they were."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.observe.masking import LONGEST, TraceMasks, passes_luhn
from service.sensitive import is_iban, load_list

MASKS = TraceMasks(key=b"key")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("IBAN DE89 3704 0044 0532 0130 00 is closed", "IBAN [iban] is closed"),
        ("pay to DE89370400440532013000.", "pay to [iban]."),
        ("gb29nwbk60161331926819 and NO93 8601 1117 947", "[iban] and [iban]"),
        ("one DE89 3704 0044 0532 0130 00\ntwo GB29 NWBK 6016 1331 9268 19", "one [iban]\ntwo [iban]"),
        ("IBANDE89370400440532013000", "IBAN[iban]"),
        ("DE89-3704-0044-0532-0130-00, DE89.3704.0044.0532.0130.00", "[iban], [iban]"),
        ("DE89\u200b3704\u00ad00440532013000", "[iban]"),
        ("ＤＥ８９３７０４００４４０５３２０１３０００", "[iban]"),
        ("card 4111 1111 1111 1111 12/27", "card [number] 12/27"),
        ("4111-1111-1111-1111, 4111.1111.1111.1111", "[number], [number]"),
        ("Ref.4111111111111111 and 378282246310005", "Ref.[number] and [number]"),
        ("4111\u00a01111\u00a01111\u00a01111", "[number]"),
        ("account 12345678 with sort code 12-34-56", "[account] with [account]"),
        ("12345678 is frozen", "[number] is frozen"),
        ("write to jane.doe+x@client.test today", "write to [e-mail] today"),
        ("https://x.test/?mail=jane%40client.test", "https://x.test/?mail=[e-mail]"),
        ("key sk-ant-FAKE-FAKE-FAKE", "key [secret]"),
        ("Authorization: Bearer abcdef123456", "Authorization: [secret]"),
        ("my gh_Abcdefghijklmnop and AKIAIOSFODNN7EXAMPLE", "my [secret] and [secret]"),
        ("api_key = 12ab34, password: hunter2", "[secret], [secret]"),
        ("https://me:pass1word@host.test/x", "https://[secret]@host.test/x"),
        ("it is Zx81Abcdefghijklmnopqrstuvwxyz0123456789", "it is [secret]"),
        ("-----BEGIN RSA KEY-----\nMIIEvQ\n-----END RSA KEY----- after", "[secret] after"),
    ],
)
def test_what_is_private_is_marked_and_the_words_around_it_stay(text: str, masked: str) -> None:
    assert MASKS.mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "Does Regulation (EU) 600/2014 amend Directive 2014/65/EU and MAR 4.1.2?",
        "Is £1,000,000 held in 2031, 2032 2033 2034 or on 2031-01-15 enough under PRU 3.1.2 R?",
        "the key-information-document and the token-holders",
        "0.8437212109565735 and 2031-01-15T10:22:33.123456+00:00",
        "GB29 NWBK 6016 1331 9268 18 has a wrong checksum",
        "card 4111 1111 1111 1112 has a wrong check digit",
        "a line\n\n- a point\n- “another” [[1]]",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "r_lkmohnOVz0KYKNy3",
    ],
)
def test_what_a_reader_of_traces_needs_stays(text: str) -> None:
    assert MASKS.mask(text) == text


def test_names_on_the_operators_list_are_marked_before_any_other_rule(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("# clients\nAcme 4111 Wharf\nre: project \\w+\n", encoding="utf-8")
    masks = TraceMasks(load_list(file)[0])
    assert masks.mask("ACME-4111  wharf in Project Falcon, not Acmeville") == "[name] in [name], not Acmeville"


def test_texts_inside_lists_and_dictionaries_are_masked_keys_included() -> None:
    value = {"a@b.test": ["x@y.test", 4, None, {"deep": ("DE89370400440532013000",)}], "score": 0.5}
    assert MASKS.masked(value) == {"[e-mail]": ["[e-mail]", 4, None, {"deep": ["[iban]"]}], "score": 0.5}


def test_a_private_identifier_gets_a_stand_in_of_its_own_that_another_key_does_not_give() -> None:
    jane, john = MASKS.identifier("jane@client.test"), MASKS.identifier("john@client.test")
    assert jane.startswith("masked-")
    assert jane == MASKS.identifier("jane@client.test") != john
    assert TraceMasks(key=b"other").identifier("jane@client.test") != jane
    assert MASKS.identifier("alice") == "alice"


def test_a_text_is_cut_after_it_was_masked_and_not_in_the_middle_of_what_is_private() -> None:
    masked = MASKS.mask("x " * (LONGEST // 2 - 5) + "DE89370400440532013000" + " y" * LONGEST)
    assert len(masked) < LONGEST + 10
    assert "3704" not in masked


@given(st.text(max_size=300))
def test_any_text_can_be_masked_and_what_was_masked_stays_so(text: str) -> None:
    masked = MASKS.mask(text)
    assert MASKS.mask(masked) == masked
    masked.encode("utf-8")


@given(st.integers(0, 10**17 - 1), st.sampled_from(["", " ", "-"]))
def test_a_number_with_its_check_digit_never_leaves_however_it_is_grouped(number: int, between: str) -> None:
    body = f"{number:015d}"
    [full] = [body + digit for digit in "0123456789" if passes_luhn(body + digit)]
    written = between.join(full[place : place + 4] for place in range(0, len(full), 4))
    assert MASKS.mask(f"it is {written}, yes") == "it is [number], yes"


@given(st.from_regex(r"[0-9A-Z]{11,30}", fullmatch=True), st.sampled_from(["DE", "GB", "FR"]))
def test_whatever_has_the_checksum_of_an_iban_is_taken_out(account: str, country: str) -> None:
    [iban] = [made for check in range(2, 99) if is_iban(made := f"{country}{check:02d}{account}")]
    assert account not in MASKS.mask(f"from {iban} to")


@pytest.mark.parametrize(
    "text", ["1 ", "1", "a@", "AB12 ", "ab12", "key-", "A1a-", "//a:", "eyJ", "12-", "---BEGIN A---"]
)
def test_a_question_made_for_the_rules_keeps_no_thread_busy(text: str) -> None:
    began = time.monotonic()
    MASKS.mask((text * 8000)[:8000])
    assert time.monotonic() - began < 5
