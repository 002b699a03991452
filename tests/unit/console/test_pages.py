"""Behaviour common to all pages of the console."""

import pytest

from tests.support.browsing import Browser
from tests.unit.console.conftest import Desk


def test_a_page_of_another_role_is_forbidden_and_not_in_the_navigation(desk: Desk) -> None:
    ann, bob = desk.browser("ann"), desk.browser("bob")

    assert ann.get("/keys").status == 200
    assert bob.get("/keys").status == 403
    assert 'href="/keys"' in ann.get("/runs").text
    assert 'href="/keys"' not in bob.get("/runs").text


def test_every_response_has_the_security_headers(desk: Desk) -> None:
    ann = desk.browser("ann")
    style = ann.get("/runs").text.split('href="/static/')[1].split('"')[0]
    for path in ("/runs", "/nowhere", "/refused", "/broken", "/healthz", f"/static/{style}"):
        headers = ann.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["X-Request-Id"]
        assert headers["Server"] == "workflow-api"
        assert (headers["Cache-Control"] == "no-store") is not path.startswith("/static/")


def test_a_refusal_is_shown_escaped_with_its_status(desk: Desk) -> None:
    answer = desk.browser("ann").get("/refused")

    assert answer.status == 400
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
    assert "must be &lt;i&gt;plain&lt;/i&gt;" in answer.text


def test_an_internal_error_shows_only_the_request_id(desk: Desk) -> None:
    answer = desk.browser("ann").get("/broken")

    assert answer.status == 500
    assert "secret words" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.text


def test_no_page_leads_away_from_the_console(desk: Desk) -> None:
    answer = desk.browser("ann").get("/elsewhere")

    assert answer.status == 500
    assert "Location" not in answer.headers


def test_an_unreachable_backend_is_reported(desk: Desk) -> None:
    ann = desk.browser("ann")
    desk.channel.reachable = False
    try:
        assert ann.get("/runs").status == 502
        assert ann.get("/healthz").text == "ok"
    finally:
        desk.channel.reachable = True
    assert ann.get("/runs").status == 200


def test_unknown_paths_are_404_and_other_methods_405(desk: Desk) -> None:
    ann = desk.browser("ann")

    assert ann.get("/nowhere").status == 404
    assert ann.get("/static/0/console.css").status == 404
    refused = ann.post("/keys")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET,HEAD")


@pytest.mark.parametrize(
    "path", ["/runs", "/refused", "/nowhere", "/healthz", "/download", "/download?length=7", "/live"]
)
def test_head_answers_as_get_without_a_body(path: str, desk: Desk) -> None:
    ann = desk.browser("ann")
    if path == "/live":
        desk.end()

    got, head = ann.get(path), ann.send("HEAD", path)

    assert (head.status, head.text) == (got.status, "")
    for name in ("Content-Type", "Content-Length", "Content-Disposition", "Cache-Control"):
        assert head.headers[name] == got.headers[name], name


def test_head_shows_no_notice_and_leaves_it_for_the_page(desk: Desk) -> None:
    ann = desk.browser("ann")
    ann.post("/keys/ak_1/rename", ann.get("/keys").token, name="headed")

    ann.send("HEAD", "/keys")

    assert "Renamed to headed." in ann.get("/keys").text


def test_whoever_has_signed_in_stays_within_the_frame_of_the_pages_where_nothing_is_or_nothing_is_allowed(
    desk: Desk,
) -> None:
    bob = desk.browser("bob")
    for path, status in (("/nowhere", 404), ("/keys", 403)):
        answer = bob.get(path)
        assert answer.status == status
        assert 'href="/runs"' in answer.text
        assert "Sign out" in answer.words
    assert 'href="/runs"' not in desk.browser().get("/nowhere").text


def test_a_call_of_a_page_has_the_user_and_the_request_id(desk: Desk) -> None:
    ann = desk.browser("ann")

    answer = ann.post("/sign-out", ann.get("/runs").token)

    rpc, _, metadata = desk.channel.calls[-1]
    assert rpc.endswith("/SignOut")
    assert metadata == {
        "workflow-api-actor": "user:ann",
        "workflow-api-person": "ann",
        "workflow-api-request-id": answer.headers["X-Request-Id"],
    }


def test_a_path_and_a_query_reach_the_page_decoded(desk: Desk) -> None:
    ann = desk.browser("ann")

    ann.get("/keys/a%2Fb%20c?q=%C3%A9&q=2&r=")

    visit = desk.visits[-1]
    assert visit.path == {"key_id": "a/b c"}
    assert visit.query == {"q": "é", "r": ""}


def test_bytes_that_are_not_utf8_are_handled(desk: Desk) -> None:
    ann: Browser = desk.browser("ann")

    for path in ("/keys/%ff", "/keys/%00", "/%ff", "/keys?q=%ff", "/keys/%ed%a0%80", "/../keys", "//keys"):
        assert ann.get(path).status in {200, 400, 404}


def test_a_form_that_is_sent_twice_is_done_once_and_answered_twice(desk: Desk) -> None:
    ann = desk.browser("ann")
    token = ann.get("/keys").token
    first, again = (ann.post("/keys/ak_1/rename", token, name="b") for _ in range(2))
    assert first.location == again.location == "/keys"
    assert len([visit for visit in desk.visits if visit.form == {"name": ["b"]}]) == 1
    ann.post("/keys/ak_1/rename", ann.get("/keys").token, name="b")
    assert len([visit for visit in desk.visits if visit.form == {"name": ["b"]}]) == 2
