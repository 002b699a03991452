from collections.abc import Callable

import pytest

from tests.unit.console.conftest import Desk


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "127.0.0.1:8443"])
def test_the_listening_address_is_an_allowed_host(desk: Desk, host: str) -> None:
    assert desk.browser().get("/sign-in", Host=host.format(port=desk.console.port)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example.org",
        "127.0.0.1.example.org",
        "127.0.0.2",
        "",
        "127.0.0.1:",
        "a:b",
        "[::1]",
        "127.0.0.1@x",
        "x y",
    ],
)
def test_another_host_is_refused_for_every_path(desk: Desk, host: str) -> None:
    browser = desk.browser("ana")
    for path in ("/sign-in", "/runs", "/nowhere"):
        assert browser.get(path, Host=host).status == 421
    assert not desk.visits


def test_a_form_under_another_host_is_refused(desk: Desk) -> None:
    host = {"Host": "rebound.example.org", "Origin": "http://rebound.example.org"}
    assert desk.browser().post("/sign-in", "0" * 64, host, name="ana", password="x").status == 421


def test_configured_hosts_are_the_only_allowed_ones(start: Callable[..., Desk]) -> None:
    desk = start(hosts=("console.example.org", "10.0.0.7"))
    answers = {
        host: desk.browser().get("/sign-in", Host=host).status
        for host in ("console.example.org", "Console.Example.Org.:443", "10.0.0.7", "127.0.0.1", "localhost")
    }
    assert list(answers.values()) == [200, 200, 200, 421, 421]


def test_the_health_check_answers_any_host(desk: Desk) -> None:
    assert desk.browser().get("/healthz", Host="10.1.2.3:8081").status == 200
