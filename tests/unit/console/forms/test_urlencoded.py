"""Checks of submitted forms."""

import socket
from collections.abc import Callable

import pytest

from console.routes import PAGES
from tests.unit.console.conftest import Desk

RENAME = "/keys/ak_1/rename"


def test_a_page_gets_the_form_without_the_token(desk: Desk) -> None:
    ann = desk.browser("ann")

    answer = ann.post(RENAME, ann.get("/keys").token, name=" a  b ", scope=["x", "y"], empty="", lines="1\r\n2")

    assert (answer.status, answer.location) == (303, "/keys")
    visit = desk.visits[-1]
    assert visit.path == {"key_id": "ak_1"}
    assert visit.form == {"name": [" a  b "], "scope": ["x", "y"], "empty": [""], "lines": ["1\n2"]}
    assert visit.sent("name") == "a  b"


def test_a_field_with_one_value_is_refused_where_it_comes_twice(desk: Desk) -> None:
    ann = desk.browser("ann")
    seen = len(desk.visits)

    answer = ann.post(RENAME, ann.get("/keys").token, name=["b", "c"], scope=["x", "y"])

    assert (answer.status, len(desk.visits)) == (400, seen + 1)
    assert "The field name is in this form more than once. Nothing was done" in answer.words


def test_only_lists_may_come_more_than_once_and_a_decision_never() -> None:
    repeated = {name for page in PAGES for name in page.repeated_fields}

    assert repeated == {"approval_id", "events", "outcome", "run_id", "scopes", "workflow_ids"}


def test_a_form_needs_the_token_of_its_own_session(desk: Desk) -> None:
    ann, other = desk.browser("ann"), desk.browser("ann")
    seen = len(desk.visits)
    foreign = other.get("/refused").token

    for token in (None, foreign, "0" * 64, "é"):
        assert ann.post(RENAME, token, name="x").status == 403
    assert len(desk.visits) == seen


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "https://127.0.0.1:1"},
        {"Origin": "http://["},
    ],
    ids=str,
)
def test_a_form_of_another_site_is_refused_even_with_a_token(desk: Desk, headers: dict[str, str]) -> None:
    ann = desk.browser("ann")

    assert ann.post(RENAME, ann.get("/keys").token, headers, name="x").status == 403


def test_without_an_origin_a_fetch_header_of_another_site_is_refused_and_the_token_counts(desk: Desk) -> None:
    ann = desk.browser("ann")
    form = f"csrf={ann.get('/keys').token}&name=x".encode()
    content = {"Content-Type": "application/x-www-form-urlencoded"}

    assert ann.send("POST", RENAME, form, {**content, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert ann.send("POST", RENAME, b"csrf=of-another-session&name=x", content).status == 403
    assert ann.send("POST", RENAME, form, content).status == 303


def test_over_https_the_origin_must_be_https(start: Callable[..., Desk]) -> None:
    desk = start(https=True)
    browser = desk.browser()
    token = browser.get("/sign-in").token
    host = f"127.0.0.1:{desk.console.port}"

    assert browser.post("/sign-in", token, {"Origin": f"http://{host}"}, name="ann", password="x").status == 403
    assert browser.post("/sign-in", token, {"Origin": f"https://{host}"}, name="ann", password="x").status == 401


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"name=x", 415),
        ("application/x-www-form-urlencoded", b"name=%ff", 400),
        ("application/x-www-form-urlencoded", b"name=\xff", 400),
        ("application/x-www-form-urlencoded", b"&".join([b"a=b"] * 2_001), 400),
        ("application/x-www-form-urlencoded", b"a" * 1_048_577, 413),
    ],
    ids=["no form", "escapes that are no UTF-8", "bytes that are no ASCII", "too many fields", "too large"],
)
def test_a_malformed_form_is_refused(desk: Desk, content_type: str, body: bytes, status: int) -> None:
    ann = desk.browser("ann")
    own = {"Origin": f"http://127.0.0.1:{desk.console.port}", "Content-Type": content_type}

    assert ann.send("POST", RENAME, body, own).status == status


@pytest.mark.parametrize("path", ["/sign-in", "/sign-in/passkey"])
def test_a_form_of_somebody_who_has_not_signed_in_is_small(desk: Desk, path: str) -> None:
    browser = desk.browser()
    browser.get("/sign-in")
    own = {"Origin": f"http://127.0.0.1:{desk.console.port}", "Content-Type": "application/x-www-form-urlencoded"}

    assert browser.send("POST", path, b"a=" + b"%" * 8_190, own).status in {400, 403}
    assert browser.send("POST", path, b"a=" + b"%" * 8_191, own).status == 413


def test_no_form_is_read_of_a_visitor_without_a_cookie(desk: Desk) -> None:
    head = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1:{desk.console.port}\r\nContent-Length: 100\r\n"
    content = "Content-Type: application/x-www-form-urlencoded\r\n\r\ncsrf="
    with socket.create_connection(("127.0.0.1", desk.console.port), timeout=60) as caller:
        # The rest of the form never comes.
        caller.sendall(f"{head}{content}".encode())
        assert b"".join(iter(lambda: caller.recv(65536), b"")).startswith(b"HTTP/1.1 403 ")


def test_a_slow_form_is_refused_and_its_connection_closed(start: Callable[..., Desk]) -> None:
    desk = start(body_seconds=0.1)
    token = desk.channel.begin("ann")
    head = (
        f"POST {RENAME} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: session={token}\r\nContent-Length: 100\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n\r\ncsrf="
    )
    with socket.create_connection(("127.0.0.1", desk.console.port), timeout=60) as slow:
        slow.sendall(head.encode())
        assert b"".join(iter(lambda: slow.recv(65536), b"")).startswith(b"HTTP/1.1 408 ")


def test_malformed_http_is_answered_without_quoting_it(desk: Desk) -> None:
    with socket.create_connection(("127.0.0.1", desk.console.port), timeout=60) as caller:
        caller.sendall(b"GET /<script> HTTP/9.x\r\nSecret: words\r\n\r\n")
        answer = b"".join(iter(lambda: caller.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"Content-Security-Policy: default-src 'none'" in answer
    assert b"script>" not in answer
