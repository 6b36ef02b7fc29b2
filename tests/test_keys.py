"""Keys: random, kept as hashes, and never repeated in an error."""

import pytest

from service.keys import ClientKey, Keys, digest_of, make_key, parse_keys

DIGEST = "a" * 64


def test_a_key_is_random_and_safe_in_a_header() -> None:
    made = {make_key() for _ in range(100)}
    assert len(made) == 100
    assert all(key.isascii() and len(key) == 46 and " " not in key for key in made)


def test_a_key_is_found_by_itself_alone() -> None:
    key = make_key()
    keys = Keys([ClientKey("bob", digest_of(make_key())), ClientKey("alice", digest_of(key))])
    assert keys.find(key) == ClientKey("alice", digest_of(key))
    for other in ("", key[:-1], key + "x", key.upper(), digest_of(key), "x" * 100_000, "\ud83d", "é"):
        assert keys.find(other) is None
    assert Keys().find(key) is None


def test_one_client_may_have_two_keys_while_one_replaces_the_other() -> None:
    old, new = make_key(), make_key()
    keys = Keys(parse_keys(f"alice:{digest_of(old)} , alice:{digest_of(new)},"))
    assert [keys.find(key) for key in (old, new)] == [ClientKey("alice", digest_of(key)) for key in (old, new)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(make_key(), id="a key"),
        pytest.param(f"alice:{make_key()}", id="a key in place of its digest"),
        f"alice={DIGEST}",
        f"alice:{DIGEST[:-1]}",
        f"alice:{DIGEST.upper()}",
        f":{DIGEST}",
        f"192.0.2.1:{DIGEST}",
        f"2001:db8::1:{DIGEST}",
        f"a b:{DIGEST}",
        f"{'a' * 65}:{DIGEST}",
        f"alice:{DIGEST},bob:{DIGEST}",
    ],
)
def test_what_is_no_name_and_hash_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"entry 1|twice") as refused:
        parse_keys(text)
    assert text not in str(refused.value)
    assert text.rpartition(":")[2] not in str(refused.value)
