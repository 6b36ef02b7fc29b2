"""A stored address leads back to the page that it was made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.knowledge.addresses import relative_address, whole_address

X = "https://a.test/x/"


@pytest.mark.parametrize(
    ("url", "base", "address"),
    [
        ("https://a.test/x/y.html#f", "https://a.test/x", "y.html"),
        ("https://a.test/x/y.html?a=/../b", X, "y.html?a=/../b"),
        ("https://a.test/x/?v=2", X, "?v=2"),
        ("https://a.test/x/", X, "./"),
        ("https://a.test/xy.html", "https://a.test/x", "https://a.test/xy.html"),
        ("https://a.test/x", X, "https://a.test/x"),
        ("https://a.test/x", "", "https://a.test/x"),
        ("https://a.test/news/q.html", "/site/", "https://a.test/news/q.html"),
        ("https://a.test/x/https://b.test/", X, "https://a.test/x/https://b.test/"),
        ("https://a.test/x/../news/q.html", X, "https://a.test/x/../news/q.html"),
        ("https://a.test/x//y.html", X, "https://a.test/x//y.html"),
        ("https://a.test/x/./", X, "https://a.test/x/./"),
    ],
)
def test_an_address_is_relative_only_where_it_leads_back_from_its_base(url: str, base: str, address: str) -> None:
    assert relative_address(url, base) == address
    assert whole_address(address, base) == url.partition("#")[0]


@given(
    st.text(st.sampled_from("ab./\\?%2eE:htps"), max_size=12), st.sampled_from([X, "https://a.test/x", "/site/", ""])
)
def test_no_address_leads_to_another_page_than_its_own(rest: str, base: str) -> None:
    assert whole_address(relative_address(X + rest, base), base) == X + rest


@pytest.mark.parametrize("address", ["", "../y", "a/%2e%2e/y", "a\\..\\b", "./y", "."])
def test_an_address_that_would_leave_its_base_leads_nowhere(address: str) -> None:
    assert whole_address(address, X) is None
    assert whole_address("y.html", "") is None
