"""Sign-in, sign-out and the change of the password, over HTTP."""

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from google.protobuf.message import Message

from contract.refusals import Refusal
from tests.unit.console.conftest import Desk
from tests.unit.console.people import LEAVE, PASSWORD, SESSIONS

FLAGS = ("path", "httponly", "samesite", "secure", "domain", "max-age")


def test_a_sign_in_begins_a_session_that_scripts_and_other_sites_cannot_use(desk: Desk) -> None:
    ann = desk.browser()

    answer = ann.sign_in("ann", PASSWORD)

    assert (answer.status, answer.location) == (303, "/")
    session = answer.cookies["session"]
    assert [session[flag] for flag in FLAGS] == ["/", True, "Strict", "", "", ""]
    assert ann.cookies.keys() == {"session"}
    assert ann.get("/runs").status == 200


def test_over_https_cookies_are_bound_to_it_and_to_the_host(start: Callable[..., Desk]) -> None:
    desk = start(https=True)
    browser = desk.browser()
    secure = {"Origin": f"https://127.0.0.1:{desk.console.port}"}

    form = browser.get("/sign-in")
    answer = browser.post("/sign-in", form.token, secure, name="ann", password=PASSWORD)

    assert "max-age" in form.headers["Strict-Transport-Security"]
    assert browser.cookies.keys() == {"__Host-session"}
    for cookie in (form.cookies["__Host-visitor"], answer.cookies["__Host-session"]):
        assert [cookie[flag] for flag in FLAGS] == ["/", True, "Strict", True, "", ""]


def test_a_wrong_name_and_a_wrong_password_read_alike(desk: Desk) -> None:
    answers = [desk.browser().sign_in(name, "wrong") for name in ("ann", "nobody")]

    assert [answer.status for answer in answers] == [401, 401]
    assert answers[0].words == answers[1].words
    assert "wrong" not in answers[0].text


def test_too_many_failures_are_reported_with_the_wait(desk: Desk) -> None:
    answer = desk.browser().sign_in("eve", "wrong")

    assert (answer.status, answer.headers["Retry-After"]) == (429, "60")
    assert "Try again in 60 seconds" in answer.words


def test_names_are_lower_cased_and_passwords_unchanged(desk: Desk) -> None:
    desk.browser().sign_in(" Ann ", " A b ")

    asked = next(request for rpc, request, _ in reversed(desk.channel.calls) if rpc == SESSIONS + "SignIn")
    assert (asked.name, asked.password, asked.address) == ("ann", " A b ", "127.0.0.1")


@pytest.mark.parametrize(
    ("asked", "reached"),
    [
        ("/runs?status=failed", "/runs?status=failed"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/a\r\nSet-Cookie: a=b", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/sign-out", "/"),
        ("/sign-in?next=/sign-in", "/"),
        ("", "/"),
    ],
)
def test_a_sign_in_redirects_only_within_this_console(desk: Desk, asked: str, reached: str) -> None:
    browser = desk.browser()

    answer = browser.sign_in("ann", PASSWORD, next=asked)

    assert answer.location == reached


def test_a_sign_in_redirects_to_the_requested_page(desk: Desk) -> None:
    browser = desk.browser()
    answer = browser.get("/keys/ak_1?a=b&c=%2F")

    assert answer.status == 303
    form = browser.get(answer.location)
    assert 'name="next" value="/keys/ak_1?a=b&amp;c=%2F"' in form.text


def test_a_link_from_another_site_works_for_signed_in_users(desk: Desk) -> None:
    """A browser withholds a strict cookie on navigation from another site, and sends it with the reload."""
    answer = desk.browser().get("/runs", Sec_Fetch_Site="cross-site")

    assert answer.status == 200
    assert 'http-equiv="refresh"' in answer.text


def test_a_form_without_a_session_is_refused(desk: Desk) -> None:
    seen = len(desk.visits)

    assert desk.browser().post("/keys/ak_1/rename", "0" * 64).status == 401
    assert len(desk.visits) == seen


def test_a_temporary_password_is_changed_first(desk: Desk) -> None:
    tim = desk.browser()
    assert tim.sign_in("tim", PASSWORD, next="/runs").location == "/password"
    assert tim.get("/runs").location == "/password"

    form = tim.get("/password")
    new: dict[str, Any] = {"new_password": "a new password", "again": "another password"}
    assert tim.post("/password", form.token, password=PASSWORD, **new).status == 400
    new["again"] = new["new_password"]
    assert "must be the password until now" in tim.post("/password", form.token, password="x", **new).words
    assert tim.post("/password", form.token, password=PASSWORD, **new).location == "/"
    assert "Your password is changed" in tim.get("/runs").words
    assert "Your password is changed" not in tim.get("/runs").words


def test_a_session_that_ended_before_the_password_change_redirects_to_the_sign_in(desk: Desk) -> None:
    tim = desk.browser()
    tim.sign_in("tim", PASSWORD)
    form = tim.get("/password")
    desk.channel.answers[SESSIONS + "ChangePassword"] = _ended
    new = "a new password"
    assert tim.post("/password", form.token, password=PASSWORD, new_password=new, again=new).location == "/sign-in"


def _ended(_: Message) -> NoReturn:
    raise Refusal("unauthorized")


def test_a_sign_out_ends_the_session(desk: Desk) -> None:
    ann = desk.browser("ann")
    token = ann.get("/runs").token
    session = dict(ann.cookies)

    assert ann.post("/sign-out", "0" * 64).status == 403
    assert ann.post("/sign-out", token).location == "/sign-in"
    assert "session" not in ann.cookies
    assert "You have signed out." in ann.get("/sign-in").words
    ann.cookies = session
    assert ann.get("/runs").location.startswith("/sign-in")


def test_another_site_cannot_sign_users_out(desk: Desk) -> None:
    elsewhere = {"Origin": "https://elsewhere.example", "Content-Type": "application/x-www-form-urlencoded"}
    answer = desk.browser().send("POST", "/sign-out", b"", elsewhere)
    assert answer.status == 403
    assert not [line for line in answer.headers.get_all("Set-Cookie", []) if line.startswith("session=")]


def test_a_refresh_of_an_open_page_leaves_the_notice_for_the_page_that_follows_the_redirect(desk: Desk) -> None:
    ann = desk.browser("ann")
    ann.post("/keys/ak_1/rename", ann.get("/keys").token, name="b")

    assert "Renamed" not in ann.get("/runs", X_Refresh="true").words
    assert "Renamed to b." in ann.get("/runs").words


def test_a_notice_cannot_be_forged(desk: Desk) -> None:
    ann, bob = desk.browser("ann"), desk.browser("bob")
    ann.post("/keys/ak_1/rename", ann.get("/keys").token, name="<b>")
    bob.cookies["notice"] = ann.cookies["notice"]

    assert "Renamed" not in bob.get("/runs").words
    assert "Renamed to &lt;b&gt;." in ann.get("/runs").text


def _label(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.channel, "provider_label", "Sign in with <Example>")


def test_the_button_of_the_provider_is_there_where_one_is_configured(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "/sign-in/provider" not in desk.browser().get("/sign-in").text
    _label(desk, monkeypatch)
    form = desk.browser().get("/sign-in?next=/runs")
    assert "Sign in with &lt;Example&gt;" in form.text
    assert 'href="/sign-in/provider?next=/runs"' in form.text


def test_the_sign_in_page_works_while_the_backend_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.channel, "reachable", False)
    assert desk.browser().get("/sign-in").status == 200


def test_a_sign_in_with_the_provider_leads_there_and_back_to_the_requested_page(desk: Desk) -> None:
    browser = desk.browser()
    away = browser.get("/sign-in/provider?next=/runs?status=failed")
    assert (away.status, away.location) == (303, "https://login.example.org/authorize?state=s")
    assert [away.cookies["attempt"][flag] for flag in FLAGS] == ["/", True, "Lax", "", "", "600"]

    back = browser.get("/sign-in/provider/return?state=s&code=of-bob", Sec_Fetch_Site="cross-site")

    assert back.status == 200
    assert 'http-equiv="refresh" content="0; url=/runs?status=failed"' in back.text
    assert [back.cookies["session"][flag] for flag in FLAGS] == ["/", True, "Strict", "", "", ""]
    assert browser.cookies.keys() == {"session"}
    finished = next(request for rpc, request, _ in reversed(desk.channel.calls) if rpc.endswith("FinishProviderSignIn"))
    port = desk.console.port
    assert (finished.redirect_uri, finished.address) == (
        f"http://127.0.0.1:{port}/sign-in/provider/return",
        "127.0.0.1",
    )
    assert not finished.HasField("issuer")


def test_who_came_from_the_provider_is_led_there_to_sign_out(desk: Desk) -> None:
    desk.channel.id_token = "head.claims.signature"
    browser = desk.browser()
    browser.get("/sign-in/provider")
    back = browser.get("/sign-in/provider/return?state=s&code=of-bob")
    assert [back.cookies["at-provider"][flag] for flag in FLAGS] == ["/sign-out", True, "Strict", "", "", ""]

    out = browser.post("/sign-out", browser.get("/runs").token)
    assert out.status == 200
    address = f"{LEAVE}&id_token_hint=head.claims.signature".replace("&", "&amp;")
    assert f'http-equiv="refresh" content="0; url={address}"' in out.text
    asked = next(request for rpc, request, _ in reversed(desk.channel.calls) if rpc.endswith("SignOut"))
    assert asked.redirect_uri == f"http://127.0.0.1:{desk.console.port}/signed-out"
    assert not {"session", "at-provider"} & browser.cookies.keys()
    assert "at your identity provider" in browser.get("/signed-out").words


def test_an_id_token_that_no_browser_would_keep_is_not_kept(desk: Desk) -> None:
    desk.channel.id_token = "x" * 3_801
    browser = desk.browser()
    browser.get("/sign-in/provider")
    browser.get("/sign-in/provider/return?state=s&code=of-bob")
    assert browser.cookies.keys() == {"session"}
    assert browser.post("/sign-out", browser.get("/runs").token).location == "/sign-in"


@pytest.mark.parametrize(
    "asked", ["//evil.example", "https://evil.example", "javascript:alert(1)", f"/runs?q={'x' * 2_000}"]
)
def test_a_sign_in_with_the_provider_leads_back_only_to_a_path_of_this_console_that_a_cookie_holds(
    desk: Desk, asked: str
) -> None:
    browser = desk.browser()
    browser.get(f"/sign-in/provider?next={asked}")
    assert 'content="0; url=/"' in browser.get("/sign-in/provider/return?state=s&code=of-bob").text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("error=access_denied&state=s", 400),
        (f"state=s&code={'x' * 5000}", 400),
        ("state=t&code=of-bob", 401),
    ],
)
def test_a_sign_in_that_the_provider_did_not_confirm_begins_again(desk: Desk, query: str, status: int) -> None:
    browser = desk.browser()
    browser.get("/sign-in/provider")
    answer = browser.get(f"/sign-in/provider/return?{query}")
    assert answer.status == status
    assert "attempt" not in browser.cookies
    assert "session" not in browser.cookies
    assert 'href="/sign-in"' in answer.text


def test_a_return_without_a_sign_in_calls_nobody(desk: Desk) -> None:
    before = len(desk.channel.calls)
    assert "not begun in this browser" in desk.browser().get("/sign-in/provider/return?state=s&code=c").text
    assert len(desk.channel.calls) == before
