"""Administration of keys in a real browser, and its effect on callers."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, Screen, agree
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


def make_key(screen: Screen, name: str) -> None:
    screen.open("/keys/new")
    screen.page.get_by_label("Name").fill(name)
    screen.page.get_by_label("runs:create").check()
    screen.page.get_by_label("All active workflows").check()
    screen.page.get_by_role("button", name="Create key").dblclick()
    screen.page.get_by_role("heading", name="The key is made").wait_for()


def issued(console: Service, screen: Screen) -> Caller:
    key = screen.page.locator("#key-value").inner_text()
    external_id = screen.page.locator("#external-id").inner_text()
    return Caller(console.address, key.partition(".")[0], key, external_id)


def test_a_key_created_in_the_console_works_until_it_is_revoked(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("keeper", ROLE_ADMINISTRATOR)
    agree(screen.page)
    make_key(screen, "from the console")
    caller = issued(console, screen)

    until(lambda: caller.get("/me").status == 200, "the key that serves")
    me = caller.get("/me").json()
    assert (me["name"], me["scopes"]) == ("from the console", ["workflows:read", "runs:create"])

    screen.page.get_by_role("link", name="Back to the key").click()
    screen.page.get_by_role("button", name="Revoke").click()
    screen.page.get_by_role("status").wait_for()
    until(lambda: caller.get("/me").status == 401, "the refusal of the key")
    screen.page.get_by_role("button", name="Delete").click()
    screen.page.wait_for_url("**/keys")
    assert screen.page.get_by_text(caller.key_id, exact=True).count() == 0
    assert screen.complaints == []


def test_credentials_are_only_on_the_page_that_created_them(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("discreet", ROLE_ADMINISTRATOR)
    asked: list[str] = []
    screen.page.on("request", lambda request: asked.append(f"{request.url} {request.headers}"))
    make_key(screen, "shown once")
    caller = issued(console, screen)
    secrets = (caller.key.partition(".")[2], caller.external_id)

    for path in ("/keys", f"/keys/{caller.key_id}", f"/keys/{caller.key_id}/usage", "/audit"):
        screen.open(path)
        assert not any(secret in screen.page.content() for secret in secrets)
    assert not any(secret in f"{asked} {screen.page.context.cookies()}" for secret in secrets)
    assert not any(console.databases_holding(secret) for secret in secrets)


def test_the_lines_of_a_new_key_are_complete_and_a_call_of_it_is_judged(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("guide", ROLE_ADMINISTRATOR)
    page = screen.page
    agree(page)
    make_key(screen, "with lines")
    key_value = page.locator("#key-value").inner_text()
    expect(page.locator("#env")).to_contain_text(f"WORKFLOW_API_KEY={key_value}")
    expect(page.locator("#env")).to_contain_text("WORKFLOW_API_URL=http://{}:{}\n".format(*console.address))
    expect(page.locator("#curl")).to_contain_text("/api/v1/me")
    expect(page.get_by_text("in 90 days")).to_be_visible()
    page.get_by_role("link", name="Back to the key").click()
    page.get_by_role("link", name="Would this call pass?").click()
    page.get_by_label("Route").select_option("GET /runs/{run_id}")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="No, it would be refused")).to_be_visible()
    expect(page.get_by_text("The route requires runs:read")).to_be_visible()
    page.get_by_label("Route").select_option("POST /workflows/{workflow_id}/runs")
    page.get_by_label("Workflow").select_option("Echo")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="Yes, it would pass")).to_be_visible()
    assert screen.complaints == []


def test_a_rotation_counts_the_overlap_down(console: Service, signed_in: NewPerson) -> None:
    key_id = console.admin.create_key(name="rotated").key_id
    screen = signed_in("rotator", ROLE_ADMINISTRATOR)
    page = screen.page
    agree(page)
    screen.open("/keys?q=rotated&state=active")
    page.get_by_role("link", name="rotated").click()
    page.get_by_role("link", name="Rotate the secret").click()
    page.get_by_role("button", name="Issue a new secret").click()
    expect(page.locator("#env")).to_contain_text(f"WORKFLOW_API_KEY={key_id}.")
    screen.open(f"/keys/{key_id}/rotate")
    expect(page.locator("[aria-current=step] time")).to_have_text(re.compile(r"^23:59:\d\d$"))
    expect(page.get_by_role("heading", name="Give it to every caller")).to_be_visible()
    assert screen.complaints == []


def test_a_second_click_creates_no_second_key(signed_in: NewPerson) -> None:
    screen = signed_in("double-clicker", ROLE_ADMINISTRATOR)
    make_key(screen, "clicked twice")
    screen.open("/keys")
    assert screen.page.get_by_role("link", name="clicked twice").count() == 1


def test_typed_values_stay_beside_their_problems(signed_in: NewPerson) -> None:
    screen = signed_in("mistaken", ROLE_ADMINISTRATOR)
    screen.open("/keys/new")
    screen.page.get_by_label("Name").fill("<script>alert(1)</script>")
    screen.page.get_by_label("runs:read").check()
    screen.page.get_by_label("All active workflows").check()
    screen.page.get_by_label("Source addresses").fill("10.0.0.1/8")
    screen.page.get_by_role("button", name="Create key").click()
    screen.page.get_by_role("alert").wait_for()

    assert "has host bits set" in screen.page.locator("#field-source_allow_list-error").inner_text()
    assert screen.page.get_by_label("Source addresses").input_value() == "10.0.0.1/8"
    assert screen.page.get_by_label("Name").input_value() == "<script>alert(1)</script>"
    assert screen.page.get_by_label("runs:read").is_checked()
    assert not [said for said in screen.complaints if not re.search("status of 400", said)]
