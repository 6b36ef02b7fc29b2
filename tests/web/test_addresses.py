"""The table of forbidden addresses, and addresses read so that no other reader takes them for another host."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import PageRefused
from service.web.addresses import FORBIDDEN, is_public
from service.web.target import Target

INSIDE_LIST = """
127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
169.254.170.2 100.64.0.1 100.100.100.200 100.127.255.255 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255
198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:7f00:1 ::127.0.0.1 64:ff9b::a9fe:a9fe
64:ff9b:1::7f00:1 2002:7f00:1:: 2002:c0a8:101:: 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:10::1 2001:db8::1 100::1
fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 5f00::1 3fff::1 4000::1 e000::1 fe80::1%eth0 2606:4700::1%lo
"""

OUTSIDE_LIST = """
1.1.1.1 8.8.8.8 93.184.215.14 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 172.15.0.1
172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255
2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450:4001:81b::200e 2001:200::1 2003::1
"""


@pytest.mark.parametrize("address", INSIDE_LIST.split())
def test_an_address_that_may_lead_inside_is_forbidden(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTSIDE_LIST.split())
def test_an_address_of_the_open_internet_is_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "text", ["", "example.test", "127.1", "0x7f.0.0.1", "2130706433", "01.1.1.1", "[::1]", " 1.1.1.1"]
)
def test_what_is_no_literal_is_not_public(text: str) -> None:
    assert not is_public(text)


@given(st.sampled_from(FORBIDDEN), st.integers(min_value=0, max_value=2**128 - 1))
def test_no_address_of_a_forbidden_network_is_public(network: object, number: int) -> None:
    assert isinstance(network, type(ip_network("10.0.0.0/8")) | type(ip_network("::/8")))
    assert not is_public(str(network[number % network.num_addresses]))


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_no_spelling_of_a_private_ipv4_address_inside_ipv6_is_public(number: int) -> None:
    four = str(ip_address(number))
    groups = f"{number >> 16:x}:{number & 0xFFFF:x}"
    for spelled in (f"::ffff:{four}", f"::{four}", f"64:ff9b::{groups}", f"2002:{groups}::", f"::ffff:0:{groups}"):
        assert not is_public(spelled)


REFUSED = [
    "http://127.0.0.1/",
    "http://localhost/",
    "http://LOCALHOST:80/",
    "http://localhost./",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://0/",
    "http://93.184.215.014/",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[0:0:0:0:0:ffff:7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[::127.0.0.1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://metadata.google.internal/",
    "http://printer.home.arpa/",
    "file:///etc/passwd",
    "ftp://example.com/x",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "data:text/html,hi",
    "javascript:alert(1)",
    "jar:http://example.com!/",
    "view-source:http://example.com/",
    "//127.0.0.1/",
    "//example.com/",
    "/etc/passwd",
    "http:/example.com/",
    "http:///127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://example.com\\@127.0.0.1/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "http://example.com:8080/",
    "http://example.com:0/",
    "http://example.com:99999/",
    "http://example.com:80:80/",
    "http://exam ple.com/",
    "http://example.com /",
    "http://example.com\r\nX: y/",
    "http://example.com/\r\nX: y",
    "http://example.com\x00.evil/",
    "http://example.com\u2028/",
    "http://./",
    "http://..example.com/",
    "http://example..com/",
    "http://-a.example.com/",
    f"https://{'a' * 64}.com/",
    f"https://{'a.' * 127}com/",
    f"https://example.com/{'a' * 3000}",
    "http://[::1",
    "http://127.0.0.1:80\\@example.com/",
    "http://example.local/",
    "http://redis:6379/",
    "http://redis/",
    "http://milvus:19530/",
    "http://%6c%6f%63alhost/",
    "http://example.com%2f@127.0.0.1/",
    "",
    "   ",
    "not a url",
    "http://",
    "https://?q",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_may_not_be_fetched_is_refused(url: str) -> None:
    with pytest.raises(PageRefused):
        Target.of(url)


@pytest.mark.parametrize(
    ("url", "fetched"),
    [
        ("https://example.com/", "https://example.com/"),
        ("https://example.com", "https://example.com/"),
        ("https://example.com?q=1", "https://example.com/?q=1"),
        ("http://example.com:80/a?b=c", "http://example.com/a?b=c"),
        ("https://example.com:443/", "https://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("HTTPS://EXAMPLE.com./A", "https://example.com/A"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://example.com/a%20b#frag", "https://example.com/a%20b"),
        ("https://example.com/100%", "https://example.com/100%25"),
        ("http://93.184.215.14/", "http://93.184.215.14/"),
        ("http://[2606:4700:4700::1111]/", "http://[2606:4700:4700::1111]/"),
        ("https://127.0.0.1.example.com/", "https://127.0.0.1.example.com/"),
    ],
)
def test_an_address_that_may_be_fetched_is_read_in_one_form(url: str, fetched: str) -> None:
    assert Target.of(url).url == fetched
    assert Target.of(fetched).url == fetched


@given(st.text(alphabet="htps:/\\@.[]%#?127 0x\n\tfe:xample", max_size=40))
def test_whatever_is_read_names_a_public_literal_or_a_whole_name(url: str) -> None:
    try:
        target = Target.of(f"http://{url}")
    except PageRefused:
        return
    assert target.port in (80, 443)
    assert is_public(target.host) if target.is_literal else "." in target.host
    assert target.url.isascii()
    assert not any(character in target.path for character in " \r\n\\#")


@pytest.mark.parametrize(
    ("location", "result"),
    [
        ("/ok", "https://a.test/ok"),
        ("ok?x=1", "https://a.test/dir/ok?x=1"),
        ("//b.test/x", "https://b.test/x"),
        ("https://b.test", "https://b.test/"),
        ("http://127.0.0.1/", None),
        ("//127.0.0.1/", None),
        ("///127.0.0.1/", "https://a.test/127.0.0.1/"),
        ("\\\\127.0.0.1\\", None),
        ("https:\\\\127.0.0.1\\", None),
        ("file:///etc/passwd", None),
        ("http://b.test/", None),
        ("//user@b.test/", None),
        ("//[::1", None),
        ("\t//127.0.0.1/", None),
        ("", None),
    ],
)
def test_a_redirect_is_read_like_a_first_address(location: str, result: str | None) -> None:
    here = Target.of("https://a.test/dir/page")
    if result is None:
        with pytest.raises(PageRefused):
            here.redirected(location)
    else:
        assert here.redirected(location).url == result
