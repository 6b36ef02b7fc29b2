"""The guarded fetch, against peers on loopback that stand for the internet (issue of the web, acceptance 3)."""

import asyncio
import gzip
import time
import tracemalloc
import zlib

import pytest

from service.errors import PageRefused
from service.web.fetch import USER_AGENT, Fetcher, FetchLimits, SystemResolver
from tests.web.peer import (
    PUBLIC,
    Answer,
    Net,
    drips,
    pours,
    redirects,
    responds,
    says_nothing,
    sends,
)

PAGE = "<!doctype html><title>Tolls</title><p>The toll is nine crowns."
QUICK = FetchLimits(total_s=0.4, resolve_s=0.1, connect_s=0.2)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n"
TWO_MB = 2 * 1024 * 1024


async def refusal(net: Net, url: str = "https://a.test/", limits: FetchLimits | None = None, **given: object) -> str:
    domains = given.get("domains")
    with pytest.raises(PageRefused) as refused:
        await net.fetcher(limits).fetch(url, domains)  # type: ignore[arg-type]
    return str(refused.value)


# A page that may be read


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_page_is_fetched_from_the_checked_address_with_its_host_and_name_kept(net: Net, scheme: str) -> None:
    net.site.pages[f"{scheme}://a.test/x?y=1"] = responds(PAGE)
    page = await net.fetcher().fetch(f"{scheme}://A.test/x?y=1#part")
    assert (page.url, page.data, page.content_type) == (
        f"{scheme}://a.test/x?y=1",
        PAGE.encode(),
        "text/html; charset=utf-8",
    )
    assert net.looked_up == ["a.test"]
    assert net.dialled == [(PUBLIC, 443 if scheme == "https" else 80)]
    asked = net.site.asked[0]
    assert (asked.method, asked.host, asked.headers["user-agent"]) == ("GET", "a.test", USER_AGENT)
    assert not asked.headers.keys() & {"cookie", "authorization", "proxy-authorization", "referer", "origin"}


def test_the_user_agent_says_who_we_are() -> None:
    assert USER_AGENT.startswith("Gatehouse/")
    assert "Mozilla" not in USER_AGENT


async def test_a_server_without_the_certificate_of_the_name_is_refused(net: Net) -> None:
    """TLS is checked against the page's name although the socket goes to a literal."""
    net.site.pages["https://other.test/"] = responds(PAGE)
    assert "could not be fetched" in await refusal(net, "https://other.test/")
    assert net.dialled == [(PUBLIC, 443)]
    assert net.site.asked == []


async def test_the_environment_cannot_send_a_fetch_through_a_proxy(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    net.site.pages["https://a.test/"] = responds(PAGE)
    await net.fetcher().fetch("https://a.test/")
    assert net.dialled == [(PUBLIC, 443)]


async def test_a_host_with_one_dead_address_is_reached_at_its_next(net: Net) -> None:
    net.names = {"a.test": [["93.184.215.1", PUBLIC]]}
    net.dead = frozenset({"93.184.215.1"})
    net.site.pages["https://a.test/"] = responds(PAGE)
    await net.fetcher().fetch("https://a.test/")
    assert net.dialled == [("93.184.215.1", 443), (PUBLIC, 443)]


@pytest.mark.parametrize(
    "kind", ["text/html", "TEXT/HTML; charset=utf-7", "text/plain;charset=bogus", "application/xhtml+xml"]
)
async def test_pages_and_plain_text_are_taken(net: Net, kind: str) -> None:
    net.site.pages["https://a.test/"] = responds(PAGE, kind)
    assert (await net.fetcher().fetch("https://a.test/")).content_type == kind


async def test_one_layer_of_gzip_is_undone_and_no_second(net: Net) -> None:
    once, twice = gzip.compress(PAGE.encode()), gzip.compress(gzip.compress(PAGE.encode()))
    net.site.pages["https://a.test/"] = responds(once, content_encoding="gzip")
    net.site.pages["https://b.test/"] = responds(twice, content_encoding="gzip")
    assert (await net.fetcher().fetch("https://a.test/")).data == PAGE.encode()
    assert (await net.fetcher().fetch("https://b.test/")).data[:2] == b"\x1f\x8b"


# Where a name leads


@pytest.mark.parametrize(
    "answers",
    [
        [PUBLIC, "10.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::a9fe:a9fe"],
        ["127.0.0.1"],
        ["not an address"],
        ["fe80::1%eth0"],
    ],
)
async def test_one_address_that_is_not_public_refuses_the_name(net: Net, answers: list[str]) -> None:
    net.names = {"a.test": [answers]}
    assert "not public" in await refusal(net)
    assert net.dialled == []


async def test_a_name_without_addresses_and_one_that_is_not_found_are_refused(net: Net) -> None:
    net.names = {"a.test": [[]]}
    assert "resolved" in await refusal(net)

    async def unknown(host: str) -> list[str]:
        raise OSError(host)

    with pytest.raises(PageRefused, match="resolved"):
        await Fetcher(unknown, net.dial, tls=net.site.authority.client).fetch("https://a.test/")
    assert net.dialled == []


async def test_a_resolver_that_changes_its_answer_is_asked_once(net: Net) -> None:
    net.names = {"rebind.test": [[PUBLIC], ["127.0.0.1"]]}
    net.site.pages["https://rebind.test/"] = responds(PAGE)
    await net.fetcher().fetch("https://rebind.test/")
    assert net.looked_up == ["rebind.test"]
    assert net.dialled == [(PUBLIC, 443)]


async def test_each_hop_is_resolved_and_pinned_anew(net: Net) -> None:
    net.names = {"rebind.test": [["93.184.215.1"], ["127.0.0.1"]]}
    net.site.pages |= {
        "https://a.test/": redirects("https://rebind.test/"),
        "https://rebind.test/": redirects("https://rebind.test/again"),
        "https://rebind.test/again": responds(PAGE),
    }
    assert "not public" in await refusal(net)
    assert net.dialled == [(PUBLIC, 443), ("93.184.215.1", 443)]


async def test_a_resolver_that_never_answers_is_left(net: Net) -> None:
    async def never(_: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    began = time.monotonic()
    with pytest.raises(PageRefused, match="resolved"):
        await Fetcher(never, net.dial, tls=net.site.authority.client, limits=QUICK).fetch("https://a.test/")
    assert time.monotonic() - began < 3
    assert FetchLimits().resolve_s == 3


async def test_the_system_resolver_asks_for_whole_names_and_gives_each_address_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a dot at the end no search domain of the machine is tried, and none hears of the name."""
    asked: list[str] = []

    def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(0, 0, 0, "", (PUBLIC, 0)), (0, 0, 0, "", (PUBLIC, 0)), (0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    resolver = SystemResolver()
    try:
        assert await resolver("a.test") == [PUBLIC, "10.0.0.1"]
    finally:
        resolver.close()
    assert asked == ["a.test."]


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_by_hand(net: Net, status: int) -> None:
    net.site.pages |= {"https://a.test/": redirects("/ok", status), "https://a.test/ok": responds(PAGE)}
    assert (await net.fetcher().fetch("https://a.test/")).url == "https://a.test/ok"


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "//127.0.0.1/",
        "https://127.0.0.1/",
        "http://169.254.169.254/latest/",
        "https://localhost/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/",
        "https://a.test:8443/",
        "https://user:pass@a.test/",
        "http://b.test/",
        "https:\\\\127.0.0.1\\",
        "",
    ],
)
async def test_a_redirect_to_what_may_not_be_fetched_makes_no_second_connection(net: Net, location: str) -> None:
    net.site.pages["https://a.test/"] = redirects(location)
    await refusal(net)
    assert net.dialled == [(PUBLIC, 443)]


async def test_http_may_lead_to_https_and_never_back(net: Net) -> None:
    net.site.pages |= {
        "http://a.test/": redirects("https://b.test/"),
        "https://b.test/": redirects("http://a.test/"),
    }
    assert "https to http" in await refusal(net, "http://a.test/")
    assert net.site.urls == ["http://a.test/", "https://b.test/"]


async def test_five_redirects_are_followed_and_a_sixth_is_not(net: Net) -> None:
    for number in range(7):
        net.site.pages[f"https://a.test/{number}"] = redirects(f"/{number + 1}")
    net.site.pages["https://a.test/6"] = responds(PAGE)
    assert "too many" in await refusal(net, "https://a.test/0")
    assert len(net.site.asked) == 6
    assert (await net.fetcher().fetch("https://a.test/1")).url == "https://a.test/6"


async def test_a_circle_ends(net: Net) -> None:
    net.site.pages["https://a.test/"] = redirects("https://a.test/")
    assert "too many" in await refusal(net)
    assert len(net.site.asked) == 6


async def test_a_refresh_in_the_page_is_not_followed(net: Net) -> None:
    net.site.pages["https://a.test/"] = responds(
        '<meta http-equiv="refresh" content="0;url=http://127.0.0.1/"><p>Here.'
    )
    assert b"Here." in (await net.fetcher().fetch("https://a.test/")).data
    assert len(net.dialled) == 1


async def test_a_cookie_is_not_sent_on(net: Net) -> None:
    net.site.pages |= {
        "https://a.test/": redirects("/ok", set_cookie="id=1; Path=/"),
        "https://a.test/ok": responds(PAGE, set_cookie="id=2"),
    }
    fetcher = net.fetcher()
    await fetcher.fetch("https://a.test/")
    await fetcher.fetch("https://a.test/ok")
    assert not any("cookie" in asked.headers for asked in net.site.asked)


async def test_no_hop_leaves_the_allowed_domains(net: Net) -> None:
    net.site.pages |= {"https://a.test/": redirects("https://evil.test/"), "https://evil.test/": responds(PAGE)}
    assert "allowed domains" in await refusal(net, domains=frozenset({"a.test"}))
    assert "allowed domains" in await refusal(net, "https://evil.test/", domains=frozenset({"a.test"}))
    assert "allowed domains" in await refusal(net, domains=frozenset())
    assert net.looked_up == ["a.test"]


# Bodies


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "application/pdf", "text/javascript", ""])
async def test_what_is_no_page_is_refused_unread(net: Net, kind: str) -> None:
    net.site.pages["https://a.test/"] = responds(PAGE, kind)
    assert "content type" in await refusal(net)


@pytest.mark.parametrize("status", [204, 206, 300, 304, 400, 401, 403, 404, 429, 500, 503])
async def test_what_is_no_200_is_refused(net: Net, status: int) -> None:
    net.site.pages["https://a.test/"] = responds("", status=status)
    assert str(status) in await refusal(net)


async def test_a_long_body_is_refused_by_its_head(net: Net) -> None:
    net.site.pages["https://a.test/"] = drips(HEAD + b"content-length: 5000000000\r\n\r\n")
    assert "longer" in await refusal(net)
    net.site.pages["https://a.test/"] = drips(HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n")
    await refusal(net)


async def test_a_body_without_a_length_is_left_at_two_megabytes(net: Net) -> None:
    net.site.pages["https://a.test/"] = pours(HEAD + b"\r\n", b"x" * 65536, 800)
    assert "longer" in await refusal(net)
    net.site.pages["https://b.test/"] = pours(HEAD + b"connection: close\r\n\r\n", b"x" * 65536, 32)
    assert len((await net.fetcher().fetch("https://b.test/")).data) == TWO_MB


async def test_a_bomb_is_left_at_two_megabytes_and_never_unpacked(net: Net) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    # Fully flushed pieces stand by themselves: the second, again and again, is a gigabyte.
    first, second = (packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + second * 1023
    assert len(zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(first + second * 3)) == 4 * 2**20
    assert len(bomb) < TWO_MB
    net.site.pages["https://a.test/"] = responds(bomb, content_encoding="gzip")
    tracemalloc.start()
    try:
        assert "longer" in await refusal(net)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, gzip", "identity, gzip", "x" * 500])
async def test_an_encoding_that_is_not_known_is_refused(net: Net, coding: str) -> None:
    net.site.pages["https://a.test/"] = responds(gzip.compress(PAGE.encode()), content_encoding=coding)
    assert "encoding" in await refusal(net)


async def test_two_headers_of_encoding_are_two_layers(net: Net) -> None:
    double = HEAD + b"content-encoding: gzip\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
    net.site.pages["https://a.test/"] = sends(double + gzip.compress(gzip.compress(b"x")))
    assert "encoding" in await refusal(net)


@pytest.mark.parametrize(
    "body",
    [gzip.compress(PAGE.encode())[:-9], b"no gzip", gzip.compress(b"one") + b"more", b""],
    ids=["cut off", "no gzip", "more after it", "empty"],
)
async def test_a_broken_encoding_is_refused(net: Net, body: bytes) -> None:
    net.site.pages["https://a.test/"] = responds(body, content_encoding="gzip")
    assert "broken" in await refusal(net)


# Peers that do not end, or do not speak HTTP


@pytest.mark.parametrize(
    "answer",
    [
        drips(HEAD + b"\r\n"),
        drips(b""),
        drips(HEAD, b"x: y\r\n"),
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        drips(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        says_nothing,
    ],
)
async def test_a_peer_that_drips_is_left_in_time(net: Net, answer: Answer) -> None:
    net.site.pages["https://a.test/"] = answer
    began = time.monotonic()
    assert "within 0.4 s" in await refusal(net, limits=QUICK)
    assert time.monotonic() - began < 3
    assert FetchLimits().total_s == 8


async def test_redirects_share_one_time_limit(net: Net) -> None:
    async def slowly(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        await redirects("https://a.test/")(writer)

    net.site.pages["https://a.test/"] = slowly
    assert "within 0.4 s" in await refusal(net, limits=QUICK)
    assert len(net.site.asked) <= 3


async def test_an_address_that_never_connects_is_left_in_time(net: Net) -> None:
    async def hangs(address: str, port: int) -> object:
        net.dialled.append((address, port))
        await asyncio.sleep(60)
        raise AssertionError

    fetcher = Fetcher(net.resolve, hangs, tls=net.site.authority.client, limits=QUICK)  # type: ignore[arg-type]
    with pytest.raises(PageRefused):
        await fetcher.fetch("https://a.test/")


@pytest.mark.parametrize(
    "data",
    [
        b"<html>an answer of HTTP/0.9\r\n\r\n",
        b"\x00\xff" * 500 + b"\r\n\r\n",
        b"",
        HEAD,
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n-5\r\nx\r\n",
        HEAD + b"content-length: 10\r\n\r\nfive.",
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nfive.",
        HEAD + b"x: y\r\n" * 100_000 + b"\r\n",
        HEAD + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    ],
)
async def test_what_is_not_http_fails_cleanly(net: Net, data: bytes) -> None:
    net.site.pages["http://a.test/"] = sends(data)
    await refusal(net, "http://a.test/")


async def test_a_cancelled_fetch_closes_its_connection(net: Net) -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        begun.set()
        try:
            await drips(HEAD + b"\r\n")(writer)
        finally:
            closed.set()

    net.site.pages["https://a.test/"] = answer
    task = asyncio.create_task(net.fetcher().fetch("https://a.test/"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(2):
        await closed.wait()
