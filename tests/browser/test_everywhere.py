"""What every page offers: relative times in a zone of one's own, the menu, and the command palette."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, ROLE_OPERATOR


def test_times_say_how_long_ago_and_exactly_in_the_chosen_zone(console: Service, signed_in: NewPerson) -> None:
    console.admin.create_key(name="timed")
    screen = signed_in("timekeeper", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/preferences")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Times are shown in Asia/Tokyo.")
    screen.open("/keys")
    expires = page.get_by_role("row", name="timed").locator("time").first
    expect(expires).to_have_text("in 90 days")
    expect(expires).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d JST$"))
    assert screen.complaints == []


def test_settings_follow_a_person_into_another_browser_without_script(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("chooser", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/preferences")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for label, choice in (("Colours", "dark"), ("Density", "compact"), ("Times", "exact")):
        page.get_by_label(label).select_option(choice)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Your settings are saved.")
    assert wrong_in_both_schemes(page, "settings") == {}
    browser = page.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False)
    elsewhere = Screen(plain.new_page(), console.ready["console"])
    elsewhere.open("/sign-in")
    elsewhere.sign_in("chooser", "the password of chooser")
    elsewhere.open("/keys")
    expect(elsewhere.page.locator("html")).to_have_attribute("data-density", "compact")
    expect(elsewhere.page.locator("body")).not_to_have_css("background-color", light)
    plain.close()
    assert screen.complaints == []


def test_times_are_exact_without_script(console: Service, signed_in: NewPerson) -> None:
    key_id = console.admin.create_key(name="plain").key_id
    context = signed_in("plain-reader", ROLE_ADMINISTRATOR).page.context
    browser = context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False, storage_state=context.storage_state())
    page = plain.new_page()
    page.goto(f"{console.ready['console'].rstrip('/')}/keys/{key_id}")
    expect(page.locator("time").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d UTC$"))
    page.get_by_role("link", name="Search").click()
    page.get_by_label("Look for").fill("plain")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(f'#found a[href="/keys/{key_id}"]')).to_be_visible()
    plain.close()


def test_the_command_palette_leads_to_a_key_by_keyboard_alone(console: Service, signed_in: NewPerson) -> None:
    key_id = console.admin.create_key(name="needle in the haystack").key_id
    screen = signed_in("typist", ROLE_ADMINISTRATOR)
    page = screen.page
    page.keyboard.press("Control+k")
    search = page.get_by_role("dialog", name="Search").get_by_role("searchbox")
    expect(search).to_be_focused()
    search.fill("needle")
    expect(page.locator(".palette a.chosen")).to_contain_text("needle in the haystack")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/keys/{key_id}")
    assert screen.complaints == []


def test_the_command_palette_changes_the_colours_and_stays_on_the_page(signed_in: NewPerson) -> None:
    screen = signed_in("of-the-night", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/runs?sort=oldest")
    page.keyboard.press("Control+k")
    search = page.get_by_role("dialog", name="Search").get_by_role("searchbox")
    search.fill("workfolws")
    expect(page.locator('.palette a[href="/workflows"]')).to_be_visible()
    search.fill("drak colours")
    expect(page.locator(".palette .chosen")).to_have_text("Dark colours")
    page.keyboard.press("Enter")
    expect(page.locator('html[data-theme="dark"]')).to_be_attached()
    assert screen.path == "/runs?sort=oldest"
    assert screen.complaints == []


def test_the_command_palette_finds_a_run_a_workflow_and_a_page(console: Service, signed_in: NewPerson) -> None:
    workflows = console.admin.apply_test_workflows()
    run_id = console.new_caller().finished(workflows["Echo"], client_reference="palette 1")["run_id"]
    screen = signed_in("seeker", ROLE_APPROVER)
    page = screen.page
    page.get_by_role("link", name="Search").click()
    search = page.get_by_role("dialog", name="Search").get_by_role("searchbox")
    found = page.locator(".palette .found")
    search.fill("palette 1")
    expect(found.locator(f'a[href="/runs/{run_id}"]')).to_be_visible()
    search.fill("two gates")
    expect(found.get_by_role("link", name="Two gates")).to_be_visible()
    search.fill("appro")
    expect(found.get_by_role("link", name="Approvals", exact=True)).to_be_visible()
    search.fill("nothing of this name")
    expect(found).to_contain_text("Nothing matches")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert screen.complaints == []


def test_the_command_palette_starts_a_workflow_and_leads_back_until_the_sign_out(
    console: Service, signed_in: NewPerson
) -> None:
    workflow_id = console.admin.apply_test_workflows()["Echo"]
    page = signed_in("starts-everywhere", ROLE_OPERATOR).page
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="Search").get_by_role("searchbox").fill("start ech")
    expect(page.locator(".palette a.chosen")).to_have_text("Start Echo")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/workflows/{workflow_id}/start")
    page.goto(f"{console.ready['console'].rstrip('/')}/schedules")
    page.keyboard.press("Control+k")
    recent = page.locator(".palette .found ul").first.get_by_role("link")
    expect(recent.first).to_have_attribute("href", f"/workflows/{workflow_id}/start")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('recent:'))") == []


def test_on_a_narrow_screen_the_pages_are_in_a_menu_and_rows_are_cards(signed_in: NewPerson, console: Service) -> None:
    console.admin.create_key(name="narrow")
    screen = signed_in("traveller", ROLE_ADMINISTRATOR)
    page = screen.page
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.get_by_role("link", name="Keys")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Keys").click()
    page.wait_for_url("**/keys")
    card = page.get_by_role("row", name="narrow")
    expect(card).to_have_css("display", "block")
    assert card.locator("td").first.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"Name"'
    assert screen.complaints == []


def test_the_command_palette_finds_what_workflows_use(console: Service, signed_in: NewPerson) -> None:
    console.admin.apply("kind: Environment\nname: quiet-corner\n---\nkind: KnowledgeGraph\nname: quiet-facts\n")
    page = signed_in("librarian", ROLE_ADMINISTRATOR).page
    page.keyboard.press("Control+k")
    page.get_by_role("dialog", name="Search").get_by_role("searchbox").fill("QUIET")
    found = page.get_by_role("dialog", name="Search").get_by_role("link")
    expect(found).to_have_count(2)
    expect(found.last).to_contain_text("quiet-facts")
    found.first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("quiet-corner")


def test_a_form_that_is_sent_by_a_double_click_is_done_once_without_script(
    console: Service, signed_in: NewPerson
) -> None:
    context = signed_in("hasty", ROLE_ADMINISTRATOR).page.context
    assert context.browser is not None
    plain = context.browser.new_context(java_script_enabled=False, storage_state=context.storage_state())
    page = plain.new_page()
    page.goto(f"{console.ready['console'].rstrip('/')}/keys/new")
    page.get_by_label("Name", exact=True).fill("made once")
    page.get_by_label("workflows:read").check()
    page.get_by_label("All active workflows").check()
    page.get_by_role("button", name="Create key").dblclick(no_wait_after=True)
    # The browser gives up the first answer for that to the second form, which has the value all the same.
    expect(page.get_by_role("heading", level=1)).to_have_text("The key is made")
    expect(page.get_by_text("ak_").first).to_be_visible()
    page.goto(f"{console.ready['console'].rstrip('/')}/keys?q=made+once")
    expect(page.get_by_role("link", name="made once")).to_have_count(1)
    plain.close()
