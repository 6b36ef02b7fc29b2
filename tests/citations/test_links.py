import dataclasses
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from service.citations.links import safe_url, source_link
from service.model import Passage, Span

PASSAGE = Passage(
    passage_id="rules/records.html#4.2-1",
    sha256="ab" * 32,
    source="rules",
    kind="official",
    title="Records",
    address="records/keeping.html",
    section="4.2",
    headings=(),
    context="",
    text="Keep records.",
    spans=(Span(0, 0, 13),),
    fetched_at="2026-01-01T00:00:00Z",
)
BASE = "https://regulator.test/handbook"


def opened(passage: Passage = PASSAGE, **options: str) -> str:
    return source_link(passage, **{"site_base": BASE, "directive": "text=Keep%20records.", **options})


def but(**changes: object) -> Passage:
    return dataclasses.replace(PASSAGE, **changes)  # type: ignore[arg-type]  # each test changes one known field


@pytest.mark.parametrize(
    "url", ["https://a.test/x", "http://a.test/x", "https://a.test:8080/x?y=1&z=%20#s4", "https://a.test"]
)
def test_an_ordinary_address_stays_as_it_is(url: str) -> None:
    assert safe_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,<b>x</b>",
        "vbscript:x",
        "blob:https://a.test/1",
        "file:///etc/passwd",
        "ftp://a.test/x",
        "//evil.test",
        "/relative",
        "relative.html",
        "",
        "https://",
        "https:///x",
        "https:a.test",
        "https://a.test/\tx",
        "https://a.test/\x00",
        "https://a.test/\x85",
        " https://a.test/",
        "https://a.test/ ",
        "https://user:pw@a.test/",
        "https://user@a.test/",
        "https://a.test\\@evil.test/",
        "https://a.test:99999/",
        "https://a.test:x/",
        "https://a b.test/",
        "https://a.test%2f.evil.test/",
        "https://a<b>.test/",
        "https://a.test/\ud800",
        "https://.test/",
        "https://" + "ü" * 70 + ".test/",
    ],
)
def test_an_unsafe_address_is_refused(url: str) -> None:
    """U21: links are http or https."""
    assert safe_url(url) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ('https://a.test/" onmouseover="x', "https://a.test/%22%20onmouseover=%22x"),
        ("https://a.test/)](javascript:x", "https://a.test/%29%5D%28javascript:x"),
        ("https://a.test/\u202egnp.exe", "https://a.test/%E2%80%AEgnp.exe"),
        ("https://a.test/<b>'`{}|^\\", "https://a.test/%3Cb%3E%27%60%7B%7D%7C%5E%5C"),
        ("https://a.test/100%", "https://a.test/100%25"),
        ("https://a.test/é?é#é", "https://a.test/%C3%A9?%C3%A9#%C3%A9"),
        ("https://a.test/#a#b", "https://a.test/#a%23b"),
        ("HTTPS://A.Test/X", "https://a.test/X"),
        ("https://bücher.test/x", "https://xn--bcher-kva.test/x"),
        ("https://xn--e1afmkfd.test/", "https://xn--e1afmkfd.test/"),
        ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443/x"),
    ],
)
def test_what_could_break_out_of_a_link_is_encoded(url: str, expected: str) -> None:
    assert safe_url(url) == expected
    assert safe_url(expected) == expected


def test_an_official_page_opens_at_the_sentence() -> None:
    assert opened() == "https://regulator.test/handbook/records/keeping.html#:~:text=Keep%20records."


@pytest.mark.parametrize("base", [BASE, BASE + "/"])
@pytest.mark.parametrize("address", ["records/keeping.html", "/records/keeping.html", "//records/keeping.html"])
def test_an_address_is_joined_below_the_base(base: str, address: str) -> None:
    assert opened(but(address=address), site_base=base, directive="") == f"{BASE}/records/keeping.html"


def test_an_element_id_and_a_query_in_the_address_stay() -> None:
    assert opened(but(address="a.html?v=2#s4")) == f"{BASE}/a.html?v=2#s4:~:text=Keep%20records."


def test_a_pdf_opens_at_its_page() -> None:
    assert opened(but(address="a.pdf", page=3)) == f"{BASE}/a.pdf#page=3:~:text=Keep%20records."


def test_without_a_directive_the_page_is_opened_at_its_top() -> None:
    assert opened(directive="") == f"{BASE}/records/keeping.html"


def test_a_strange_address_is_encoded_and_stays_on_the_site() -> None:
    assert opened(but(address='a b"(é).html'), directive="") == f"{BASE}/a%20b%22%28%C3%A9%29.html"
    assert urlsplit(opened(but(address="//evil.test/x"))).netloc == "regulator.test"
    assert urlsplit(opened(but(address="x/https://evil.test/x"))).netloc == "regulator.test"


@pytest.mark.parametrize("base", [BASE, "", "https://gate.test/site/"])
def test_an_address_that_is_stored_whole_opens_itself_whatever_the_base(base: str) -> None:
    away = but(address="https://news.test/q.html?x=1")
    assert opened(away, site_base=base) == "https://news.test/q.html?x=1#:~:text=Keep%20records."
    assert urlsplit(opened(but(address="https://user@news.test/q"), site_base=base)).path.startswith("/sources/")


def test_the_page_at_the_base_itself_opens_there() -> None:
    assert opened(but(address="./"), directive="") == f"{BASE}/"


@pytest.mark.parametrize(
    ("passage", "base"),
    [
        (but(kind="reference"), BASE),
        (but(address=""), BASE),
        (PASSAGE, ""),
        (PASSAGE, "javascript:alert(1)//"),
        (PASSAGE, "https://user:pw@regulator.test/"),
        (but(address="../../admin"), BASE),
        (but(address="a/%2e%2e/%2e%2e/admin"), BASE),
        (but(address="a\\..\\b"), BASE),
        (but(address="a\nb"), BASE),
        (but(kind="web", address="javascript:alert(1)"), BASE),
        (but(kind="web", address="/relative"), BASE),
    ],
)
def test_what_has_no_safe_address_opens_as_the_stored_snapshot(passage: Passage, base: str) -> None:
    url = urlsplit(opened(passage, site_base=base, quote="Keep “records” & more #1"))
    assert (url.scheme, url.netloc, url.fragment) == ("", "", "quote")
    assert unquote(url.path) == f"/sources/{PASSAGE.passage_id}"
    assert parse_qs(url.query) == {"v": ["ab" * 32], "q": ["Keep “records” & more #1"]}


def test_a_snapshot_link_is_below_the_public_base_and_leaves_an_empty_quote_out() -> None:
    url = opened(but(kind="reference"), public_base="https://gate.test/app/")
    assert url == f"https://gate.test/app/sources/rules%2Frecords.html%234.2-1?v={'ab' * 32}"


def test_a_long_quote_is_cut_at_a_space() -> None:
    quote = "verbatim words " * 400
    sent = parse_qs(urlsplit(opened(but(kind="reference"), quote=quote)).query)["q"][0]
    assert len(sent) <= 1000
    assert quote.startswith(sent + " ")


def test_a_web_page_opens_at_its_own_address() -> None:
    web = but(kind="web", address="https://news.test/a?b=1#:~:text=old")
    assert opened(web) == "https://news.test/a?b=1#:~:text=Keep%20records."
