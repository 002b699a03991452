"""Administration of the deployment and its users in a real browser."""

from urllib.parse import urlsplit

from playwright.sync_api import Dialog

from tests.browser.conftest import NewPerson
from tests.support.browsing import Browser
from tests.support.planted import plant
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


def test_a_change_in_the_console_is_audited_in_the_name_of_the_user(signed_in: NewPerson) -> None:
    screen = signed_in("warden", ROLE_ADMINISTRATOR)
    screen.page.on("dialog", lambda dialog: dialog.accept())
    screen.open("/deployment")
    screen.page.get_by_label("Days to keep run data").fill("91")
    screen.page.get_by_role("button", name="Save").click()
    screen.page.get_by_role("status").wait_for()

    screen.open("/audit")
    newest = screen.page.locator("tbody tr").first.inner_text()
    assert "user:warden" in newest
    assert "deployment.changed" in newest
    assert "retention_days: 91" in newest
    assert screen.complaints == []


def test_a_user_added_in_the_console_signs_in_until_disabled(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("host", ROLE_ADMINISTRATOR)
    screen.page.on("dialog", lambda dialog: dialog.accept())
    screen.open("/people")
    screen.page.get_by_label("Name").fill("guest")
    screen.page.get_by_role("button", name="Add").click()
    password = screen.page.locator("#password").inner_text()
    plant(password)
    port = urlsplit(console.ready["console"]).port
    assert port is not None
    address = ("127.0.0.1", port)
    assert Browser(address).sign_in("guest", password).location == "/password"

    screen.open("/people")
    guest = screen.page.get_by_role("row", name="guest")
    guest.get_by_role("button", name="Disable").click()
    screen.page.get_by_role("status").wait_for()
    assert Browser(address).sign_in("guest", password).status == 401
    assert screen.complaints == []


def test_a_dismissed_confirmation_does_nothing(signed_in: NewPerson) -> None:
    screen = signed_in("unsure", ROLE_ADMINISTRATOR)
    asked: list[str] = []

    def decline(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    screen.page.on("dialog", decline)
    screen.open("/deployment")
    screen.page.get_by_label("Governed").uncheck()
    screen.page.get_by_role("button", name="Save").click()
    assert len(asked) == 1
    screen.open("/deployment")
    assert screen.page.get_by_label("Governed").is_checked()
