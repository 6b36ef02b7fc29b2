"""Keys, other secrets and IBANs: taken out on every road that leads out of this process."""

from collections.abc import Callable

import pytest

from service.keys import KEY_PREFIX, make_key
from service.logs import masked
from service.observe.masking import TraceMasks
from service.web.masking import Masks

Masker = Callable[[str], str]
ROADS: dict[str, Masker] = {"web": Masks().mask, "trace": TraceMasks(key=b"key").mask, "log": masked}

KINDS = {
    "Anthropic": ("sk-ant-api03-FAKEfake0123", "FAKEfake"),
    "Stripe": ("rk_live_FAKEfake0123", "FAKEfake"),
    "GitHub": ("ghp_FAKEfake0123456789", "FAKEfake"),
    "GitHub, fine-grained": ("github_pat_11FAKEfake0123_456789", "FAKEfake"),
    "GitLab": ("glpat-FAKEfake0123456789", "FAKEfake"),
    "Hugging Face": ("hf_FAKEfakeFAKEfakeFAKE", "FAKEfake"),
    "Slack": ("xoxb-0123-FAKEfake", "FAKEfake"),
    "Langfuse": ("pk-lf-0123fake-fake", "fake"),
    "by its name": ("secret_fakeFAKEfake", "fakeFAKE"),
    "by the word before it": ("password: hunter22", "hunter22"),
    "bearer": ("Bearer abcdef.123456", "abcdef"),
    "in an address": ("postgresql://owner:s3cret@host.test/x", "s3cret"),
    "AWS": ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN"),
    "Google": ("AIzaFAKEfakeFAKEfakeFAKEfakeFAKEfake012", "FAKEfake"),
    "JSON web token": ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJ"),
    "nobody's in particular": ("Zx81Abcdefghijklmnopqrstuvwxyz0123456789", "abcdefgh"),
    "PEM": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEvQfake\n-----END RSA PRIVATE KEY-----", "MIIE"),
    "PEM, cut": ("-----BEGIN EC2 KEY-----\nMIIEvQfake", "MIIE"),
    "IBAN": ("GB82 WEST 1234 5698 7654 32", "WEST"),
    "IBAN, small": ("gb82west12345698765432", "west"),
    "IBAN, mostly letters": ("mt84malt011000012345mtlcast001s", "mtlcast"),
    "IBAN, with points": ("DE89.3704.0044.0532.0130.00", "3704"),
}


@pytest.mark.parametrize("road", ROADS)
def test_our_own_keys_leave_on_no_road(road: str) -> None:
    for _ in range(50):
        key = make_key()
        for said in (f"Is {key} valid for client money?", f'"key": "{key}"', f"({key})", f"CLIENT_KEY={key}"):
            shown = ROADS[road](said)
            assert KEY_PREFIX not in shown
            assert key[-8:] not in shown


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_secret_leaves_on_no_road(road: str, kind: str) -> None:
    said, gone = KINDS[kind]
    shown = ROADS[road](f"Is {said}, please, client money?")
    assert gone not in shown
    assert shown.startswith("Is")


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize(
    "said",
    [
        "the key-information-document and the token-holders",
        "Does a firm keep the Secret-Keeping-Policy of its group?",
        "HF_HUB_OFFLINE and SK_LEARN_SETTINGS are set",
        "gh-pages",
    ],
)
def test_words_are_no_secrets(road: str, said: str) -> None:
    assert ROADS[road](said) == said


@pytest.mark.parametrize("road", ["trace", "log"])
def test_checksums_and_ids_are_no_secrets_for_whoever_looks_for_a_fault(road: str) -> None:
    said = "run r_lkmohnOVz0KYKNy3 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert ROADS[road](said) == said
