"""Administration of webhooks in a real browser."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


def test_a_webhook_is_made_its_secret_shown_once_and_paused(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("integrator", ROLE_ADMINISTRATOR)
    page = screen.page
    agree(page)
    key_id = console.admin.create_key().key_id
    screen.open(f"/keys/{key_id}/webhooks")
    address = page.get_by_label("Address")
    address.fill("https://10.0.0.1/hook")
    page.get_by_role("button", name="Add").click()
    # The problem stands at its field, which has the focus, with what was typed.
    expect(address).to_be_focused()
    expect(address).to_have_accessible_description(re.compile("must be a public address"))
    expect(address).to_have_value("https://10.0.0.1/hook")
    address.fill("https://example.org/hook")
    page.get_by_role("button", name="Add").click()
    secret = page.locator("#webhook-secret").inner_text()
    assert secret.startswith("whsec_")
    page.get_by_role("link", name="Back to the webhook").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("An administrator paused it.")).to_be_visible()
    assert secret not in page.content()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    # The refusal of the first address alone.
    assert [text for text in screen.complaints if "400" not in text] == []
