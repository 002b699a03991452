"""Source addresses and allow-lists: admission, compared with `ipaddress` and plain loops. (contract 8.9, 8.11)."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from types import SimpleNamespace
from typing import cast

from multidict import CIMultiDict

from backend.services.keys.rules import allow_list_problems
from contract.addresses import plain_address
from edge.admission.call import address_reader
from edge.admission.keyring import AddressRanges
from edge.http.request import HttpRequest
from tests.fuzz.target import Target

_VIEWER = "X-Viewer-Address"
_PEER = "192.0.2.1"
_READERS = {setting: address_reader(setting) for setting in ("peer", "load_balancer", f"header:{_VIEWER}")}
_Address = IPv4Address | IPv6Address


def check(data: bytes) -> None:
    """Reads lines: `f` and `v` begin a header's value, `c` a range of the allow-list."""
    lines = [(line[:1], line[1:].decode(errors="surrogateescape")) for line in data.split(b"\n")]
    headers = [({b"f": "X-Forwarded-For", b"v": _VIEWER}[key], value) for key, value in lines if key in {b"f", b"v"}]
    ranges = [value for key, value in lines if key == b"c"]
    good = [cidr for cidr in ranges if not list(allow_list_problems([cidr]))]
    for cidr in ranges:
        assert (cidr in good) == _is_range(cidr), cidr
    allowed = AddressRanges(good)
    for setting, read in _READERS.items():
        text = read(_request(headers))
        assert text == _told(setting, headers)
        address = expected_address(text)
        assert plain_address(text) == ("" if address is None else str(address)), text
        assert allowed.allow(text) == any(_holds(cidr, address) for cidr in good), (text, good)


def _request(headers: Sequence[tuple[str, str]]) -> HttpRequest:
    given = CIMultiDict(headers)
    request = SimpleNamespace(
        connection=SimpleNamespace(peername=(_PEER, 5)), header_values=lambda name: given.getall(name, ())
    )
    return cast("HttpRequest", request)


def _told(setting: str, headers: Sequence[tuple[str, str]]) -> str:
    if setting == "peer":
        return _PEER
    if setting == "load_balancer":
        entries = ",".join(value for name, value in headers if name == "X-Forwarded-For").split(",")
        return entries[-1].strip()
    values = [value.strip() for name, value in headers if name == _VIEWER]
    return values[0] if len(values) == 1 else ""


def expected_address(text: str) -> _Address | None:
    """The address in `ip`, `ip:port`, `[ipv6]` or `[ipv6]:port`; an IPv6 zone is no part of it."""
    candidates = [text]
    if text.startswith("["):
        inner, bracket, port = text[1:].partition("]")
        if bracket and "[" not in inner and (not port or _is_port(port)):
            candidates.append(inner)
    else:
        before, colon, port = text.rpartition(":")
        if colon and _is_port(f":{port}") and "]" not in before:
            candidates.append(before)
    for candidate in candidates:
        bare = candidate.partition("%")[0]
        try:
            address = ip_address(bare)
        except ValueError:
            continue
        if "%" in candidate and isinstance(address, IPv4Address):
            continue
        return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    return None


def _is_port(text: str) -> bool:
    digits = text[1:]
    return text[:1] == ":" and len(digits) <= 5 and digits.isascii() and digits.isdecimal() and int(digits) <= 65_535


def _is_range(cidr: str) -> bool:
    try:
        ip_network(cidr, strict=True)
    except ValueError:
        return False
    return True


def _holds(cidr: str, address: _Address | None) -> bool:
    if address is None:
        return False
    network = ip_network(cidr)
    if network.version == 4:
        return address in network
    # What is written as mapped IPv6 is IPv4, on both sides.
    mapped = IPv6Address(f"::ffff:{address}") if address.version == 4 else None
    if mapped is not None:
        return network.prefixlen >= 96 and mapped in network
    return address in network


def seeds() -> Iterator[bytes]:
    """Addresses of each form before allow-lists of each kind."""
    addresses = (
        *(b"203.0.113.9", b"203.0.113.9:46532", b"2001:DB8::1", b"[2001:db8::1]:443", b"[2001:db8::1]", b"unknown"),
        *(b"::ffff:203.0.113.9", b"fe80::1%eth0", b"203.0.113.010", b"2001:db8:0:0:0:0:0:1:46532", b"", b"1.2.3.4%x"),
        *("203.0.113.\u0669".encode(), b"\xff", b"[::ffff:203.0.113.9]:80", b"::203.0.113.1", b"[fe80::1%a]:1"),
        *(b"203.0.113.9:65535", b"203.0.113.9:65536", b"[2001:db8::1]:65536", b"2001:db8:0:0:0:0:0:1:99999"),
    )
    lists = (b"c203.0.113.0/30\nc2001:db8::/127", b"c::ffff:10.0.0.0/104", b"c::/0", b"c0.0.0.0/0", b"c10.0.0.1/8")
    for address in addresses:
        for ranges in lists:
            yield b"f10.0.0.1\nf10.0.0.2, " + address + b"\nv" + address + b"\n" + ranges


TARGET = Target(
    name="addresses",
    check=check,
    seeds=seeds,
    words=(
        b"\nf",
        b"\nv",
        b"\nc",
        b"::",
        b"::ffff:",
        b":443",
        b"%eth0",
        b"[",
        b"]",
        b"/0",
        b"/96",
        b"/128",
        b"0.0.0.0",
    ),
    longest=256,
)
