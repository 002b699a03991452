import logging
from types import SimpleNamespace
from typing import cast

import pytest
from multidict import CIMultiDict

from contract.addresses import parse_address, plain_address
from edge.admission.call import address_reader
from edge.admission.keyring import AddressRanges
from edge.http.request import HttpRequest


def read(setting: str, *headers: tuple[str, str], peer: str = "192.0.2.1") -> str:
    given = CIMultiDict(headers)
    request = SimpleNamespace(
        connection=SimpleNamespace(peername=(peer, 5)), header_values=lambda name: given.getall(name, ())
    )
    return address_reader(setting)(cast("HttpRequest", request))


def test_peer_believes_no_header() -> None:
    assert read("peer", ("X-Forwarded-For", "10.0.0.1")) == "192.0.2.1"


def test_load_balancer_believes_only_the_last_entry() -> None:
    headers = ("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "10.0.0.2, 203.0.113.9")
    assert read("load_balancer", *headers) == "203.0.113.9"


@pytest.mark.parametrize("headers", [[], [("X-Forwarded-For", "")], [("X-Forwarded-For", "10.0.0.1,")]], ids=repr)
def test_load_balancer_without_an_entry_knows_no_address(headers: list[tuple[str, str]]) -> None:
    assert read("load_balancer", *headers) == ""


def test_header_names_the_viewer() -> None:
    assert read("header:CloudFront-Viewer-Address", ("cloudfront-viewer-address", "203.0.113.9:443")) == (
        "203.0.113.9:443"
    )


def test_a_repeated_viewer_header_is_not_believed() -> None:
    assert read("header:X-Viewer", ("X-Viewer", "10.0.0.1"), ("X-Viewer", "203.0.113.9")) == ""


@pytest.mark.parametrize("setting", ["", "header:", "header", "header:a b", "forwarded", "peer:x"])
def test_an_unknown_setting_is_an_error(setting: str) -> None:
    with pytest.raises(ValueError, match="must be peer, load_balancer or header:<Name>"):
        address_reader(setting)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:46532", "203.0.113.9"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8:0:0:0:0:0:1:46532", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::1"),
        ("", ""),
        ("unknown", ""),
        ("203.0.113", ""),
        ("203.0.113.010", ""),
        ("203.0.113.9:port", ""),
        ("203.0.113.9:0", "203.0.113.9"),
        ("203.0.113.9:65535", "203.0.113.9"),
        ("203.0.113.9:65536", ""),
        ("203.0.113.9:99999", ""),
        ("203.0.113.9:", ""),
        ("[2001:db8::1]:65535", "2001:db8::1"),
        ("[2001:db8::1]:65536", ""),
        ("2001:db8:0:0:0:0:0:1:65535", "2001:db8::1"),
        ("2001:db8:0:0:0:0:0:1:65536", ""),
        ("[203.0.113.9", ""),
        ("203.0.113.\u0669", ""),
        ("\udcff", ""),
        ("203.0.113.9\n", ""),
        ("[]", ""),
        ("[]:443", ""),
        (":443", ""),
        ("203.0.113.9%eth0", ""),
        ("203.0.113.9%eth0:443", ""),
    ],
    ids=repr,
)
def test_an_address_may_have_a_port(text: str, address: str) -> None:
    assert plain_address(text) == address


def test_ranges_hold_both_families_and_their_edges() -> None:
    ranges = AddressRanges(["203.0.113.0/30", "2001:db8::/127"])
    inside = ["203.0.113.0", "203.0.113.3", "::ffff:203.0.113.2", "2001:db8::", "2001:db8::1"]
    outside = ["203.0.112.255", "203.0.113.4", "2001:db8::2", "::203.0.113.1", "", "nonsense"]
    assert [ranges.allow(address) for address in inside + outside] == [True] * 5 + [False] * 6


def test_a_mapped_range_is_a_range_of_ipv4() -> None:
    assert AddressRanges(["::ffff:10.0.0.0/104"]).allow("10.255.255.255")


def test_every_address_of_one_family_is_none_of_the_other() -> None:
    assert not AddressRanges(["::/0"]).allow("203.0.113.9")
    assert not AddressRanges(["0.0.0.0/0"]).allow("2001:db8::1")


def test_an_unreadable_range_allows_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert not AddressRanges(["everywhere"]).allow("203.0.113.9")
    assert "everywhere" in caplog.text


def test_parsing_gives_nothing_for_endless_text() -> None:
    assert parse_address("1:" * 16000) is None
