"""Which address counts behind a load balancer and behind a delivery network. (contract 8.9)"""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_usage_records import record_of
from tests.support.admin import Admin, Credentials
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.nginx import VIEWER_HEADER, Nginx
from tests.support.part import Part, address_of
from tests.support.poll import until
from tests.support.wire import BASE, Address, Answer, Wire, request

ALLOWED, OTHER, OVER_IPV6, UNTOLD = "127.0.0.2", "127.0.0.3", "127.0.0.6", "127.0.0.7"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Part]:
    folder = tmp_path_factory.mktemp("backend")
    with Part.started(folder, "backend", "--data", str(folder / "data"), "--grpc", "127.0.0.1:0") as backend:
        yield backend


@pytest.fixture(scope="module")
def admin(backend: Part) -> Iterator[Admin]:
    admin = Admin(backend.ready["grpc"])
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory, backend: Part) -> Iterator[tuple[Address, Address]]:
    """An edge that believes a load balancer, and one that believes a front door."""
    command = ("edge", "--http", "127.0.0.1:0", "--grpc", backend.ready["grpc"])
    folder = tmp_path_factory.mktemp("edges")
    setting = "WORKFLOW_API_EDGE_CLIENT_ADDRESS"
    with (
        Part.started(folder / "balanced", *command, variables={setting: "load_balancer"}) as balanced,
        Part.started(folder / "delivered", *command, variables={setting: f"header:{VIEWER_HEADER}"}) as delivered,
    ):
        yield address_of(balanced.ready["base_address"]), address_of(delivered.ready["base_address"])


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory, edges: tuple[Address, Address]) -> Iterator[Nginx]:
    balanced, delivered = edges
    server = Nginx(tmp_path_factory.mktemp("nginx"), balanced=balanced, delivered=delivered)
    yield server
    server.close()


class Keys:
    """Makes keys that both edges know."""

    def __init__(self, admin: Admin, edges: tuple[Address, Address]) -> None:
        self._admin = admin
        self._edges = edges

    def __call__(self, **properties: Any) -> Credentials:
        key = self._admin.create_key(**properties)
        for edge in self._edges:
            caller = Caller(edge, key.key_id, key.key, key.external_id)
            until(lambda: caller.get("/me").status not in {401, 503}, "the edge to know the key")  # noqa: B023
        return key


@pytest.fixture(scope="module")
def new_key(admin: Admin, edges: tuple[Address, Address]) -> Keys:
    return Keys(admin, edges)


@pytest.fixture(scope="module")
def key(new_key: Keys) -> Credentials:
    """A key that may be used from one address only."""
    return new_key(source_allow_list=[f"{ALLOWED}/32"])


def me(at: Address, key: Credentials, source: str, *headers: tuple[str, str]) -> Answer:
    """GET /me from an address of this machine, on a connection of its own."""
    caller = Caller(at, key.key_id, key.key, key.external_id)
    connection = HTTPConnection(*at, timeout=60, source_address=(source, 0))
    try:
        connection.putrequest("GET", f"{BASE}/me")
        for name, value in (*caller.credential_headers, *headers):
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def connections_to(at: Address) -> set[str]:
    """The other ends of the connections that are open to an address of this machine."""
    place, established = f"0100007F:{at[1]:04X}", "01"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[2:4] == [place, established]}


FORGED = [
    [("X-Forwarded-For", ALLOWED)],
    [("x-forwarded-for", f"{ALLOWED}, {ALLOWED}")],
    [("X-Forwarded-For", f"{ALLOWED},")],
    [("X-Forwarded-For", ALLOWED), ("X-Forwarded-For", ALLOWED)],
    [("X-Forwarded-For", f"{OTHER}, {ALLOWED}"), ("X-Real-IP", ALLOWED), ("Forwarded", f"for={ALLOWED}")],
    [(VIEWER_HEADER, f"{ALLOWED}:443")],
    [(VIEWER_HEADER.lower(), ALLOWED), (VIEWER_HEADER, ALLOWED)],
    [(VIEWER_HEADER.replace("-", "_"), ALLOWED)],
]


@pytest.mark.parametrize("place", ["balancer", "front_door"])
def test_the_address_that_the_proxy_saw_is_checked(nginx: Nginx, key: Credentials, place: str) -> None:
    at: Address = getattr(nginx, place)
    assert me(at, key, ALLOWED).status == 200
    refused(me(at, key, OTHER), 403, "forbidden")


@pytest.mark.parametrize("place", ["balancer", "front_door"])
@pytest.mark.parametrize("forged", FORGED, ids=repr)
def test_an_address_claimed_by_the_caller_is_ignored(
    nginx: Nginx, key: Credentials, place: str, forged: list[tuple[str, str]]
) -> None:
    at: Address = getattr(nginx, place)
    refused(me(at, key, OTHER, *forged), 403, "forbidden")
    elsewhere = [(name, value.replace(ALLOWED, OTHER)) for name, value in forged]
    assert me(at, key, ALLOWED, *elsewhere).status == 200


@pytest.mark.parametrize("place", ["balancer", "front_door"])
def test_callers_that_share_a_proxy_connection_keep_their_addresses(
    nginx: Nginx, key: Credentials, edges: tuple[Address, Address], place: str
) -> None:
    at: Address = getattr(nginx, place)
    behind = edges[place == "front_door"]
    me(at, key, ALLOWED)
    before = connections_to(behind)
    assert [me(at, key, source).status for source in (ALLOWED, OTHER) * 10] == [200, 403] * 10
    assert connections_to(behind) == before


def test_a_proxy_may_name_an_ipv6_address_with_its_port(nginx: Nginx, new_key: Keys) -> None:
    key = new_key(source_allow_list=["2001:db8::/64"])
    assert me(nginx.front_door, key, OVER_IPV6).status == 200
    refused(me(nginx.front_door, key, ALLOWED), 403, "forbidden")


def test_an_unknown_address_is_refused_where_there_is_an_allow_list(nginx: Nginx, new_key: Keys) -> None:
    everywhere = new_key(source_allow_list=["0.0.0.0/0", "::/0"])
    refused(me(nginx.front_door, everywhere, UNTOLD), 403, "forbidden")
    assert me(nginx.front_door, everywhere, OTHER).status == 200
    assert me(nginx.front_door, new_key(), UNTOLD).status == 200


def test_a_call_that_bypasses_the_proxy_has_no_address(edges: tuple[Address, Address], key: Credentials) -> None:
    for edge in edges:
        refused(me(edge, key, ALLOWED), 403, "forbidden")


@pytest.mark.parametrize("place", ["balancer", "front_door"])
def test_usage_records_hold_the_address_that_the_proxy_saw(
    nginx: Nginx, key: Credentials, admin: Admin, place: str
) -> None:
    answer = me(getattr(nginx, place), key, OTHER, ("X-Forwarded-For", ALLOWED))
    assert record_of(admin, answer.headers["X-Request-Id"], key.key_id).address == OTHER


def test_refusals_reach_the_caller_through_the_proxy(nginx: Nginx) -> None:
    declared = request("POST", "/runs/x/cancel", ("Content-Length", str(1_048_577)), ("X-Request-Id", "over"))
    with Wire(nginx.balancer) as wire:
        wire.send(declared + b"x" * 1_048_577)
        answer = wire.answer()
    assert refused(answer, 413, "payload_too_large")["request_id"] == answer.headers["X-Request-Id"] == "over"
