"""Which addresses lie in which domains. Every trick here has let somebody past an allowlist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model import Scope
from service.skills.domains import admits, canonical, host_of, is_below

ALLOWED = Scope(domains=frozenset({"rules.example", "example.co.uk", "xn--bcher-kva.example"}))

INSIDE = [
    "https://rules.example/",
    "http://rules.example",
    "https://RULES.Example/a?b#c",
    "https://www.rules.example/",
    "https://a.b.c.rules.example/x",
    "https://rules.example./",
    "https://rules.example:443/",
    "https://example.co.uk/",
    "https://www.example.co.uk/",
    "https://bücher.example/",
    "https://xn--bcher-kva.example/",
    "https://BÜCHER.example/",
    "https://www.rules。example/",
]
OUTSIDE = [
    "https://evilrules.example/",
    "https://rules.example.evil.test/",
    "https://rules.example@evil.test/",
    "https://rules.example:x@evil.test/",
    "https://user@rules.example/",
    "https://evil.test/rules.example",
    "https://evil.test?rules.example",
    "https://evil.test#rules.example",
    "https://evil.test\\@rules.example/",
    "https://evil.test\\.rules.example/",
    "https://rules.example\\evil.test/",
    "https:///rules.example/",
    "https:rules.example",
    "//rules.example/",
    "rules.example",
    "ftp://rules.example/",
    "javascript://rules.example/%0aalert(1)",
    "https://rules.example../",
    "https://.rules.example/",
    "https://a..rules.example/",
    "https://rules.exam\u200bple.evil.test/",
    "https://rules.example /",
    " https://rules.example/",
    "https://rules.example\n/",
    "https://rules.example%2eevil.test/",
    "https://%72ules.example/",
    "https://rules.example%00.evil.test/",
    "https://example.co.uk.evil.test/",
    "https://other.co.uk/",
    "https://co.uk/",
    "https://rulеs.example/",  # a Cyrillic е
    "https://xn--rules-x4d.example/",
    "https://xn--a.rules.example/",
    "https://bucher.example/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1%25rules.example]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://rules.example:99999/",
    "https://rules.example:http/",
    "https://under_score.rules.example/",
    "https://[rules.example/",
    "",
    "https://",
    f"https://{'a.' * 200}rules.example/",
    f"https://rules.example/{'a' * 10_000}",
]


@pytest.mark.parametrize("address", INSIDE)
def test_a_domain_stands_for_itself_and_its_subdomains(address: str) -> None:
    assert admits(ALLOWED, address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_only_looks_like_an_allowed_domain_is_outside(address: str) -> None:
    assert not admits(ALLOWED, address)


def test_below_a_public_suffix_the_pages_are_other_peoples() -> None:
    """`amazonaws.com` is a company's, `s3.amazonaws.com` is where anyone may publish."""
    cloud = Scope(domains=frozenset({"amazonaws.com", "mine.s3.amazonaws.com"}))
    assert admits(cloud, "https://www.amazonaws.com/")
    assert admits(cloud, "https://mine.s3.amazonaws.com/page")
    assert not admits(cloud, "https://s3.amazonaws.com/anyone/page")
    assert not admits(cloud, "https://anyone.s3.amazonaws.com/page")


def test_no_list_is_everywhere_an_empty_list_nowhere_and_forbidden_is_forbidden() -> None:
    page = "https://anywhere.example/"
    assert admits(Scope(), page)
    assert not admits(Scope(domains=frozenset()), page)
    assert not admits(Scope(web=False), page)
    assert not admits(Scope(web=False, domains=frozenset({"anywhere.example"})), page)


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "[::1]", "::1", "1.2.3", "0x7f", "", "-a.example", "a" * 64 + ".example"]
)
def test_what_is_no_host_name_has_no_canonical_form(name: str) -> None:
    assert canonical(name) is None


@given(st.text(max_size=40))
def test_any_text_has_a_host_or_none_and_a_host_is_its_own_canonical_form(text: str) -> None:
    for address in (text, f"https://{text}", f"https://{text}.rules.example/", f"https://rules.example{text}/"):
        host = host_of(address)
        assert host is None or canonical(host) == host


@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_a_name_that_runs_into_the_domain_without_a_dot_is_never_inside(text: str) -> None:
    host = host_of(f"https://{text}rules.example/")
    inside = admits(Scope(domains=frozenset({"rules.example"})), f"https://{text}rules.example/")
    assert not inside or (host is not None and (host == "rules.example" or host.endswith(".rules.example")))


@pytest.mark.parametrize(
    ("host", "domain", "inside"),
    [
        ("example.com", "example.com", True),
        ("www.example.com", "example.com", True),
        ("printer.local", "local", True),
        ("evilexample.com", "example.com", False),
        ("example.com.evil.test", "example.com", False),
        ("example.co", "example.com", False),
        ("com", "example.com", False),
    ],
)
def test_a_name_holds_itself_and_what_lies_below_it(host: str, domain: str, inside: bool) -> None:
    assert is_below(host, domain) is inside
