"""Forms whose session has ended, in a real browser."""

from playwright.sync_api import Browser, expect

from tests.browser.conftest import NewPerson, Screen, agree
from tests.browser.editing import write, written
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

OLD = "the password of {}"
NEW = "another password of {}"


def end_sessions_elsewhere(chromium: Browser, console: Service, name: str) -> None:
    """Changes the password in another browser, which ends all other sessions."""
    context = chromium.new_context()
    other = Screen(context.new_page(), console.ready["console"])
    other.open("/sign-in?next=/password")
    other.sign_in(name, OLD.format(name))
    other.change_password(OLD.format(name), NEW.format(name))
    other.page.get_by_role("status").wait_for()
    context.close()


def test_a_form_whose_session_ended_is_as_it_was_after_the_sign_in(
    chromium: Browser, console: Service, signed_in: NewPerson
) -> None:
    console.admin.apply_test_workflows()
    screen = signed_in("typing", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/keys/new")
    page.get_by_label("Name").fill('a "quoted" <key> & more')
    page.get_by_label("Description").fill("what it is for")
    page.get_by_label("runs:read").check()
    page.get_by_label("Runs a day").fill("77")
    page.get_by_label("Allowed from (UTC)").select_option("8")
    page.get_by_label("Allowed until (UTC)").select_option("18")
    page.get_by_label("Only these").check()
    ticked = page.locator("[name=workflow_ids]").first
    ticked.check()
    page.get_by_label("Source addresses").fill("203.0.113.0/24\n2001:db8::/32")
    end_sessions_elsewhere(chromium, console, "typing")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    screen.sign_in("typing", NEW.format("typing"))
    expect(page.get_by_role("status")).to_contain_text("The form is as you sent it")
    assert screen.path == "/keys/new"
    expect(page.get_by_label("Name")).to_have_value('a "quoted" <key> & more')
    expect(page.get_by_label("Description")).to_have_value("what it is for")
    expect(page.get_by_label("runs:read")).to_be_checked()
    expect(page.get_by_label("workflows:read")).not_to_be_checked()
    expect(page.get_by_label("Runs a day")).to_have_value("77")
    expect(page.get_by_label("Allowed from (UTC)")).to_have_value("8")
    expect(ticked).to_be_checked()
    expect(page.get_by_label("Source addresses")).to_have_value("203.0.113.0/24\n2001:db8::/32")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("heading", name="The key is made")).to_be_visible()


def test_a_manifest_under_way_outlives_the_session(chromium: Browser, console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("drafting", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/workflows/new")
    expect(page.locator("#verdict")).to_contain_text("It is valid.")
    end_sessions_elsewhere(chromium, console, "drafting")
    write(page, "kind: Workflow\nname: Not lost\nsteps: []\n")
    expect(page.locator("#verdict")).to_contain_text("could not be checked")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    screen.sign_in("drafting", NEW.format("drafting"))
    expect(page.get_by_role("status").first).to_contain_text("The form is as you sent it")
    assert written(page) == "kind: Workflow\nname: Not lost\nsteps: []\n"


def test_the_question_about_several_runs_is_asked_again_after_the_sign_in(
    chromium: Browser, console: Service, signed_in: NewPerson
) -> None:
    caller = console.new_caller()
    run_id = caller.parked(console.admin.apply_test_workflows()["Park"])["run_id"]
    screen = signed_in("asked-again", ROLE_ADMINISTRATOR)
    page = screen.page
    question = f"/runs/cancel?run_id={run_id}"
    screen.open(question)
    page.get_by_label("Reason").fill("too late")
    end_sessions_elsewhere(chromium, console, "asked-again")
    agree(page)
    page.get_by_role("button", name="Cancel this run").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    screen.sign_in("asked-again", NEW.format("asked-again"))
    expect(page.get_by_role("status")).to_contain_text("The form is as you sent it")
    assert screen.path == question
    expect(page.get_by_label("Reason")).to_have_value("too late")
    agree(page)
    page.get_by_role("button", name="Cancel this run").click()
    expect(page.get_by_role("status")).to_have_text("1 cancelled or ending, 0 skipped, 0 refused.")


def test_a_form_of_one_person_is_not_shown_to_another(
    chromium: Browser, console: Service, signed_in: NewPerson
) -> None:
    screen = signed_in("leaving", ROLE_ADMINISTRATOR)
    password = console.admin.add_user("coming", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/keys/new")
    page.get_by_label("Name").fill("mine alone")
    page.get_by_label("runs:read").check()
    end_sessions_elsewhere(chromium, console, "leaving")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("main").get_by_role("link", name="Sign in").click()
    screen.sign_in("coming", password)
    page.wait_for_url("**/password")
    screen.change_password(password, OLD.format("coming"))
    page.get_by_role("status").wait_for()
    screen.open("/keys/new")
    expect(page.get_by_label("Name")).to_have_value("")
