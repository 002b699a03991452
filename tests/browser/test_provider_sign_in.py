"""Sign-in with an identity provider in a real browser, from the button to the requested page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Screen
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider
from tests.support.service import Service


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def federated(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose people sign in with the provider."""
    folder = tmp_path_factory.mktemp("federated")
    (folder / "settings.toml").write_text(
        f"""
        [oidc]
        issuer = "{provider.issuer}"
        client_id = "{CLIENT_ID}"
        client_secret = "oidc"
        roles = "platform=administrator,staff=approver"

        [secrets]
        oidc = "env:OIDC_SECRET"
        """
    )
    variables = {"OIDC_SECRET": CLIENT_SECRET, "WORKFLOW_API_CONFIG": str(folder / "settings.toml")}
    service = Service(folder, "--console", "127.0.0.1:0", variables=variables)
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def federated_screen(chromium: Browser, federated: Service) -> Iterator[Screen]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    # Another site than the console's address: the browser treats the way back as one from elsewhere.
    yield Screen(context.new_page(), federated.ready["console"].replace("127.0.0.1", "localhost"))
    context.close()


def test_a_person_signs_in_with_the_provider_and_reaches_the_requested_page(
    provider: IdentityProvider, federated_screen: Screen
) -> None:
    screen = federated_screen
    provider.person = {"sub": "1", "preferred_username": "ana", "groups": ["platform"]}
    screen.open("/runs?status=failed")
    screen.page.get_by_role("link", name="Sign in with your organization").click()
    screen.page.get_by_role("heading", name="Runs").wait_for()

    assert screen.path == "/runs?status=failed"
    assert screen.page.get_by_role("link", name="ana").is_visible()
    screen.page.get_by_role("link", name="People").click()
    screen.page.get_by_role("cell", name="Administrator").wait_for()
    screen.open("/preferences")
    assert screen.page.get_by_role("link", name="Change your password").count() == 0
    screen.page.get_by_role("button", name="Sign out").click()
    screen.page.get_by_text("here and at your identity provider").wait_for()
    assert provider.ended[-1]["id_token_hint"].count(".") == 2
    screen.page.get_by_role("link", name="Sign in again").click()
    screen.page.get_by_role("heading", name="Sign in").wait_for()
    assert screen.complaints == []


def test_a_person_without_a_role_is_told_so(provider: IdentityProvider, federated_screen: Screen) -> None:
    screen = federated_screen
    provider.person = {"sub": "2", "preferred_username": "eve", "groups": ["visitors"]}
    screen.open("/sign-in")
    wrong = wrong_in_both_schemes(screen.page, "signing in")
    screen.page.get_by_role("link", name="Sign in with your organization").click()

    assert "may not sign in here" in screen.page.get_by_role("alert").inner_text()
    assert wrong | wrong_in_both_schemes(screen.page, "refused") == {}
    screen.page.get_by_role("link", name="Back to the sign-in").click()
    screen.page.get_by_role("heading", name="Sign in").wait_for()
