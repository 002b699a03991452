"""Administration of the deployment and its users in a real browser."""

import csv
import json
import re
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.browser.sweep import findings
from tests.support.browsing import Browser
from tests.support.planted import plant
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


def test_a_change_in_the_console_is_audited_in_the_name_of_the_user(signed_in: NewPerson) -> None:
    screen = signed_in("warden", ROLE_ADMINISTRATOR)
    agree(screen.page)
    screen.open("/deployment")
    screen.page.get_by_label("Days to keep run data").fill("91")
    screen.page.get_by_role("button", name="Save").click()
    screen.page.get_by_role("status").wait_for()

    screen.open("/audit")
    newest = screen.page.locator("tbody tr").first
    expect(newest).to_contain_text("warden changed the days to keep run data from 90 to 91 of the deployment")
    newest.get_by_text("deployment.changed").click()
    expect(newest).to_contain_text("by user:warden")
    expect(newest).to_contain_text("retention_days: 91")
    assert screen.complaints == []


def test_the_audit_trail_is_searched_by_its_address_and_exported(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("examiner", ROLE_ADMINISTRATOR)
    page = screen.page
    for name in ("audited-one", "audited-two"):
        console.admin.add_user(name, ROLE_ADMINISTRATOR)
    screen.open("/audit")
    page.get_by_label("Find").fill("AUDITED-")
    page.get_by_label("What").fill("user.added")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"q=AUDITED-.*action=user\.added"))
    page.get_by_role("link", name="audited-one").click()
    expect(page.locator("tbody tr")).to_have_count(1)

    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    head, line = list(csv.reader(saved.value.path().read_text(encoding="utf-8").splitlines()))
    assert head == ["at", "actor", "action", "target", "details"]
    assert line[2:4] == ["user.added", "audited-one"]
    with page.expect_download() as saved:
        page.get_by_role("link", name="JSON lines").click()
    assert json.loads(saved.value.path().read_text(encoding="utf-8"))["details"] == {"role": "administrator"}
    screen.open("/audit?action=audit.exported&actor=user%3Aexaminer")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert screen.complaints == []
    refused = page.goto(screen.address("/audit.csv?from=2020-01-01"))
    assert refused is not None
    assert refused.status == 400
    expect(page.locator("main")).to_contain_text("must be less than 90 days before")


def test_a_user_added_in_the_console_signs_in_until_disabled(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("host", ROLE_ADMINISTRATOR)
    agree(screen.page)
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
    screen.open("/deployment")
    screen.page.get_by_label("Governed").uncheck()
    save = screen.page.get_by_role("button", name="Save")
    save.press("Enter")
    question = screen.page.get_by_role("alertdialog", name="Change the deployment?")
    expect(question.get_by_role("button", name="Go back")).to_be_focused()
    assert findings(screen.page) == []
    screen.page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(save).to_be_focused()
    screen.open("/deployment")
    assert screen.page.get_by_label("Governed").is_checked()
