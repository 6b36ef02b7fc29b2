"""Which label decides how bytes are read: the Encoding Standard's, and no other that Python would take."""

import time
from encodings.aliases import aliases

import pytest

from service.knowledge.readers.charsets import CODECS
from service.knowledge.readers.decode import decode

PYTHONS = sorted({"u7", "utf_7", "idna", "punycode", "undefined", "utf-8-sig", *aliases, *aliases.values()})
HEADERS = {label: f"text/html; charset={label}" for label in (*CODECS, *PYTHONS)}


@pytest.mark.parametrize("label", ["idna", "punycode", "utf_7", "u7", "undefined", "unicode_escape", "cp037", "hz"])
def test_a_label_that_python_alone_knows_counts_as_none(label: str) -> None:
    data = "<p>“é” +AGE- \\x41 ~{VP~}".encode()
    assert decode(data, f"text/html; charset={label}") == data.decode()
    assert decode(b"a" * 10_000, f"text/html; charset={label}") == "a" * 10_000
    for declared in (f"<meta charset={label}><p>é", f"<?xml encoding='{label}'?><p>é"):
        assert decode(declared.encode()) == declared


def test_no_label_of_python_s_makes_a_page_unreadable() -> None:
    assert {label: decode(b"<p>a", HEADERS[label]) for label in PYTHONS} == dict.fromkeys(PYTHONS, "<p>a")


def test_every_label_of_the_standard_has_a_codec_that_reads_any_bytes() -> None:
    assert {label: decode(b"<p>a", HEADERS[label].upper()) for label in CODECS} == dict.fromkeys(CODECS, "<p>a")
    for codec in set(CODECS.values()):
        assert isinstance((bytes(range(256)) * 2).decode(codec, errors="replace"), str)


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("ISO-8859-1", b"\x93\xe9\x94", "“é”"),
        ("koi8-r", b"\xf0", "П"),
        ("iso-8859-9", b"\xfd", "ı"),
        ("gb2312", b"\xd6\xd0", "中"),
        ("Big5", b"\xa4\xa4", "中"),
        ("Shift_JIS", b"\x82\xa0", "あ"),
        ("euc-jp", b"\xa4\xa2", "あ"),
        ("euc-kr", b"\xb0\xa1", "가"),
        ("unicode", "é".encode(), "é"),
    ],
)
def test_a_label_of_the_standard_is_read_as_a_browser_reads_it(label: str, data: bytes, text: str) -> None:
    assert decode(data, f'text/html; charset="{label}"') == text


@pytest.mark.parametrize("space", [" " * 50_000, "\t\n" * 25_000])
def test_a_header_of_white_space_takes_no_time(space: str) -> None:
    began = time.process_time()
    for header in (f"text/html; charset={space};", f"text/html; charset{space};", f'text/html; charset="{space};'):
        assert decode("<p>é".encode(), header) == "<p>é"
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "header", ['charset = "koi8-r"', "charset= ' koi8-r'", "CHARSET=koi8-r;x", "charset\t=\tkoi8-r"]
)
def test_a_label_may_stand_in_quotes_and_white_space(header: str) -> None:
    assert decode(b"\xf0", f"text/html; {header}") == "П"
