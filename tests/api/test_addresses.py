"""The address a client is named by: the peer's, and what trusted proxies say, read from the right."""

from ipaddress import ip_network

import pytest

from service.api.addresses import client_address, origin_of

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("", "unknown:"),
        ("/run/gatehouse.sock", "unknown:"),
    ],
)
def test_a_peer_is_named_by_its_address_and_in_ipv6_by_its_network(peer: str, name: str) -> None:
    assert client_address(peer, [], PROXIES) == name


TRICKS = [
    ["203.0.113.7"],
    ["203.0.113.7, 198.51.100.9"],
    ["203.0.113.7", "198.51.100.9"],
    ["junk"],
    ["[::1]:80"],
    [""],
    ["127.0.0.1"],
    [", ,,"],
    ["10.0.0.1, " * 700],
]


@pytest.mark.parametrize("forwarded", TRICKS, ids=str)
def test_a_peer_that_is_no_proxy_is_not_believed(forwarded: list[str]) -> None:
    """D12."""
    assert client_address("192.0.2.1", forwarded, PROXIES) == "192.0.2.1"
    assert client_address("192.0.2.1", forwarded, []) == "192.0.2.1"


@pytest.mark.parametrize(
    ("forwarded", "name"),
    [
        ([], "10.0.0.1"),
        (["203.0.113.7"], "203.0.113.7"),
        (["203.0.113.7:4711"], "203.0.113.7"),
        (['"[2001:db8:1:2::5]:4711"'], "2001:db8:1:2::/64"),
        (["2001:db8:1:2::5"], "2001:db8:1:2::/64"),
        (["::ffff:203.0.113.7"], "203.0.113.7"),
        (["198.51.100.9, 203.0.113.7"], "203.0.113.7"),
        (["198.51.100.9", "203.0.113.7"], "203.0.113.7"),
        (["198.51.100.9, 203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        (["198.51.100.9, 203.0.113.7 , 2001:db8:ffff::1"], "203.0.113.7"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (["junk, 203.0.113.7"], "203.0.113.7"),
        (["203.0.113.7, " + "10.0.0.2, " * 30 + "10.0.0.3"], "203.0.113.7"),
    ],
    ids=str,
)
def test_a_proxy_is_believed_up_to_the_first_hop_that_is_none(forwarded: list[str], name: str) -> None:
    assert client_address("10.0.0.1", forwarded, PROXIES) == name


UNREADABLE = [
    ["203.0.113.7, junk"],
    ["203.0.113.7, junk, 10.0.0.2"],
    ["203.0.113.7,"],
    [""],
    ["unknown"],
    ["unix:"],
    ["203.0.113.7, _hidden"],
    ["203.0.113.7 10.0.0.2"],
    ["127.0.0.1, " * 40 + "127.0.0.1"],
    ["203.0.113.7, " + "10.0.0.2, " * 500 + "10.0.0.3"],
]


@pytest.mark.parametrize("forwarded", UNREADABLE, ids=lambda forwarded: forwarded[0][:30])
@pytest.mark.parametrize("peer", ["10.0.0.1", "127.0.0.1", "::1"])
def test_whom_a_proxy_names_in_a_way_that_cannot_be_read_is_nobody_known_and_not_the_proxy(
    peer: str, forwarded: list[str]
) -> None:
    proxies = [*PROXIES, ip_network("127.0.0.0/8"), ip_network("::1")]
    assert origin_of(peer, forwarded, proxies) is None
    assert client_address(peer, forwarded, proxies) == "unknown:"


@pytest.mark.parametrize(
    ("peer", "forwarded", "name"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "::1", "127.0.0.1"),
        ("10.0.0.1", "127.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::1%of-a-name-of-ones-own", "10.0.0.1"),
        ("10.0.0.1", "::ffff:127.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "203.0.113.7, 127.0.0.1", "203.0.113.7"),
    ],
)
def test_a_loopback_address_is_the_own_machine_of_whoever_wrote_it(peer: str, forwarded: str, name: str) -> None:
    """Behind a proxy that is another machine, one of its own processes is not a process of ours."""
    assert client_address(peer, [forwarded], [*PROXIES, ip_network("127.0.0.0/8")]) == name


def test_two_readers_behind_one_proxy_have_two_names() -> None:
    names = {client_address("10.0.0.1", [f"203.0.113.{number}"], PROXIES) for number in range(50)}
    assert len(names) == 50
