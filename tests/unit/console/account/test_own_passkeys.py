"""The passkey after the password, and a person's own passkeys, over HTTP."""

from typing import Any

import pytest

from tests.support.browsing import Browser, Seen
from tests.unit.console.conftest import Desk
from tests.unit.console.people import PASSKEYS, PASSWORD


def _at_name(desk: Desk, name: str | None = None) -> tuple[Browser, dict[str, str]]:
    """A browser, and the headers of a page that was opened by the host's name."""
    return desk.browser(name), {"Host": f"localhost:{desk.console.port}"}


def _sent(desk: Desk, rpc: str) -> Any:
    return next(request for called, request, _ in reversed(desk.channel.calls) if called == PASSKEYS + rpc)


def _post(browser: Browser, desk: Desk, path: str, **fields: str) -> Seen:
    host = f"localhost:{desk.console.port}"
    token = browser.get(path, Host=host).token
    return browser.post(path, token, {"Host": host, "Origin": f"http://{host}"}, **fields)


def test_a_right_password_leads_to_the_passkey_and_on_to_the_requested_page(desk: Desk) -> None:
    browser = desk.browser()
    answer = browser.sign_in("pia", PASSWORD, next="/runs?status=failed")
    assert (answer.status, answer.location) == (303, "/sign-in/passkey?next=/runs?status%3Dfailed")
    assert "session" not in browser.cookies
    pending = answer.cookies["pending"]
    assert [pending[flag] for flag in ("httponly", "samesite", "max-age")] == [True, "Strict", "300"]
    assert browser.get("/runs").status == 303

    page = browser.get(answer.location, Host=f"localhost:{desk.console.port}")
    assert 'data-passkey-options="{&#34;challenge&#34;: &#34;c&#34;}"' in page.text
    assert "<noscript>" in page.text
    assert 'name="next" value="/runs?status=failed"' in page.text
    done = _post(browser, desk, "/sign-in/passkey", response="signed", next="/runs?status=failed")
    assert (done.status, done.location) == (303, "/runs?status=failed")
    assert browser.cookies.keys() == {"session"}
    sent = _sent(desk, "FinishPasskeySignIn")
    origin = f"http://localhost:{desk.console.port}"
    assert (sent.answer.origin, sent.answer.host, sent.address) == (origin, "localhost", "127.0.0.1")


def test_a_recovery_code_works_without_script_and_at_any_address(desk: Desk) -> None:
    browser = desk.browser()
    page = browser.get(browser.sign_in("pia", PASSWORD).location)
    assert "your passkeys work at localhost only" in page.words
    wrong = browser.post("/sign-in/passkey", page.token, recovery_code="guessed", next="/")
    assert (wrong.status, "not accepted" in wrong.words) == (401, True)
    assert browser.post("/sign-in/passkey", wrong.token, recovery_code="a-code", next="//evil.example").location == "/"
    assert browser.get("/runs").status == 200


def test_the_page_of_the_passkey_is_for_who_gave_the_password(desk: Desk) -> None:
    browser = desk.browser()
    answer = browser.get("/sign-in/passkey")
    assert (answer.status, answer.location) == (303, "/sign-in")


def test_who_needs_a_passkey_adds_one_first(desk: Desk) -> None:
    una = desk.browser()
    assert una.sign_in("una", PASSWORD, next="/runs").location == "/passkeys"
    assert una.get("/runs").location == "/passkeys"
    assert una.get("/passkeys").status == 200
    assert "<nav" not in una.get("/passkeys/add").text


def test_a_passkey_is_added_and_its_recovery_codes_are_shown(desk: Desk) -> None:
    browser, _ = _at_name(desk, "bob")
    assert "must be made just now" in _post(browser, desk, "/passkeys/add", label="key", response="other").words
    assert "need script" in _post(browser, desk, "/passkeys/add", label="key", response="").words
    made = _post(browser, desk, "/passkeys/add", label="key", response="signed")
    assert "a-code" in made.words
    assert _sent(desk, "FinishPasskeyRegistration").token == browser.cookies["session"]


def test_a_page_opened_by_an_address_says_where_passkeys_work(desk: Desk) -> None:
    page = desk.browser("bob").get("/passkeys/add")
    assert "as localhost" in page.words
    assert "data-passkey=" not in page.text


@pytest.mark.parametrize("confirmation", [{"password": PASSWORD}, {"response": "signed"}], ids=str)
def test_a_passkey_is_removed_once_that_is_confirmed(desk: Desk, confirmation: dict[str, str]) -> None:
    browser, name = _at_name(desk, "bob")
    page = browser.get("/passkeys/remove?id=c-1", **name)
    assert "Remove &lt;laptop&gt;" in page.text
    headers = {**name, "Origin": f"http://{name['Host']}"}
    refused = browser.post("/passkeys/remove", page.token, headers, id="c-1", password="wrong")
    assert "The password must be your password" in refused.words
    removed = browser.post("/passkeys/remove", page.token, headers, id="c-1", **confirmation)
    assert removed.location == "/passkeys"
    assert _sent(desk, "RemovePasskey").credential_id == "c-1"
    assert browser.get("/passkeys/remove?id=c-2").status == 404


def test_new_recovery_codes_are_shown_in_the_answer_only(desk: Desk) -> None:
    browser, _ = _at_name(desk, "bob")
    assert "new-code" in _post(browser, desk, "/passkeys/codes", password=PASSWORD).words
    assert "new-code" not in browser.get("/passkeys").words
