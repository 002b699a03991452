"""Passkeys in a real browser, with the virtual authenticator of its developer protocol."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, CDPSession

from tests.browser.conftest import Screen, agree
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER

PASSWORD = "the password of pat"


@pytest.fixture
def named(chromium: Browser, console: Service) -> Iterator[Screen]:
    """A window on the console by its name: an address has no passkeys."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    yield Screen(context.new_page(), console.ready["console"].replace("127.0.0.1", "localhost"))
    context.close()


def authenticator(screen: Screen) -> tuple[CDPSession, str]:
    """Plugs in an authenticator whose person always agrees."""
    session = screen.page.context.new_cdp_session(screen.page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
    }
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, added["authenticatorId"]


def add_passkey(screen: Screen, name: str) -> list[str]:
    """Adds a passkey from the settings; returns the recovery codes."""
    screen.open("/preferences")
    screen.page.get_by_role("link", name="Your passkeys").click()
    screen.page.get_by_role("link", name="Add a passkey").click()
    screen.page.get_by_label("Name").fill(name)
    screen.page.get_by_role("button", name="Add").click()
    screen.page.get_by_role("heading", name="Recovery codes").wait_for()
    codes = screen.page.locator("main li code").all_inner_texts()
    screen.page.get_by_role("link", name="I have saved them").click()
    return codes


def with_password(screen: Screen, console: Service, name: str) -> None:
    password = console.admin.add_user(name, ROLE_APPROVER)
    screen.open("/sign-in")
    screen.sign_in(name, password)
    screen.page.wait_for_url("**/password")
    screen.change_password(password, PASSWORD)
    screen.page.get_by_role("status").wait_for()


def sign_out(screen: Screen) -> None:
    screen.page.get_by_role("button", name="Sign out").click()
    screen.page.get_by_text("You have signed out.").wait_for()


def test_a_person_adds_a_passkey_signs_in_with_it_and_removes_it(named: Screen, console: Service) -> None:
    with_password(named, console, "pat")
    authenticator(named)
    add_passkey(named, "laptop")
    named.page.get_by_role("cell", name="laptop", exact=True).wait_for()
    sign_out(named)

    named.open("/sign-in?next=/runs?status=failed")
    named.sign_in("pat", PASSWORD)
    named.page.get_by_role("button", name="Use your passkey").click()
    named.page.get_by_role("heading", name="Runs").wait_for()
    assert named.path == "/runs?status=failed"

    named.open("/passkeys")
    named.page.get_by_role("link", name="Remove laptop").click()
    named.page.get_by_role("button", name="Remove with a passkey").click()
    named.page.get_by_text("The passkey is removed.").wait_for()
    sign_out(named)
    named.sign_in("pat", PASSWORD)
    named.page.get_by_role("link", name="pat").wait_for()
    assert named.complaints == []


def test_without_the_passkey_a_recovery_code_or_an_administrator_helps(named: Screen, console: Service) -> None:
    with_password(named, console, "pam")
    session, plugged = authenticator(named)
    code, *_ = add_passkey(named, "key")
    sign_out(named)
    session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": plugged})
    authenticator(named)
    named.sign_in("pam", PASSWORD)
    named.page.get_by_role("button", name="Use your passkey").click()
    assert "No passkey answered" in named.page.get_by_role("alert").inner_text()
    named.page.get_by_label("Recovery code").fill(code)
    named.page.get_by_role("button", name="Use the code").click()
    named.page.get_by_role("link", name="pam").wait_for()
    sign_out(named)

    password = console.admin.add_user("root-of-pam", ROLE_ADMINISTRATOR)
    named.sign_in("root-of-pam", password)
    named.change_password(password, PASSWORD)
    named.page.get_by_role("status").wait_for()
    named.open("/people")
    agree(named.page)
    named.page.get_by_role("row", name="pam", exact=False).get_by_role("button", name="Remove passkeys").click()
    named.page.get_by_text("signs in with the password alone").wait_for()
    sign_out(named)
    named.sign_in("pam", PASSWORD)
    named.page.get_by_role("link", name="pam").wait_for()


def test_no_page_of_passkeys_excludes_anybody_or_cuts_anything_off(named: Screen, console: Service) -> None:
    with_password(named, console, "pia")
    authenticator(named)
    named.open("/passkeys/add")
    named.page.get_by_label("Name").fill("a key with a name of its own")
    named.page.get_by_role("button", name="Add").click()
    named.page.get_by_role("link", name="I have saved them").wait_for()
    wrong = wrong_in_both_schemes(named.page, "recovery codes")
    named.page.get_by_role("link", name="I have saved them").click()
    named.page.get_by_role("link", name="Remove a key with a name of its own").click()
    named.page.get_by_role("button", name="Remove with a passkey").wait_for()
    wrong |= wrong_in_both_schemes(named.page, "removing a passkey")
    named.open("/passkeys/codes")
    wrong |= wrong_in_both_schemes(named.page, "making new recovery codes")
    named.page.get_by_role("button", name="Make new codes with a passkey").click()
    named.page.get_by_role("link", name="I have saved them").wait_for()
    wrong |= wrong_in_both_schemes(named.page, "new recovery codes")
    named.page.get_by_role("link", name="I have saved them").click()
    sign_out(named)
    wrong |= wrong_in_both_schemes(named.page, "signing in")
    named.sign_in("pia", PASSWORD)
    named.page.get_by_role("button", name="Use your passkey").wait_for()
    wrong |= wrong_in_both_schemes(named.page, "the second factor")
    named.page.get_by_label("Recovery code").fill("not a code")
    named.page.get_by_role("button", name="Use the code").click()
    named.page.get_by_role("alert").wait_for()
    wrong |= wrong_in_both_schemes(named.page, "a wrong recovery code")
    assert wrong == {}
