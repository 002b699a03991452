"""Open pages whose console is away or whose session has ended, in a real browser."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.sweep import findings
from tests.browser.test_ended_session import NEW, end_sessions_elsewhere
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Service]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = Service(tmp_path, "--console", f"127.0.0.1:{port}")
    service.start()
    yield service
    service.stop()


def test_a_page_says_since_when_it_is_not_current_until_it_is_again(restartable: Service, chromium: Browser) -> None:
    password = restartable.admin.add_user("waiting", ROLE_ADMINISTRATOR)
    context = chromium.new_context()
    screen = Screen(context.new_page(), restartable.ready["console"])
    page = screen.page
    screen.open("/sign-in")
    screen.sign_in("waiting", password)
    page.wait_for_url("**/password")
    screen.change_password(password, "the password of waiting")
    page.get_by_role("status").wait_for()
    screen.open("/runs")
    banner = page.locator("#not-current")
    expect(banner).to_be_hidden()
    page.get_by_label("Find").fill("half a wo")
    page.evaluate("window.stayed = true")
    restartable.kill()
    expect(banner).to_have_text(re.compile(r"^Not current since \d\d:\d\d\. The console tries again by itself\.$"))
    assert findings(page) == []
    restartable.start()
    expect(banner).to_be_hidden()
    expect(page.locator("#news")).to_have_text("Current again.")
    workflows = restartable.admin.apply_test_workflows()
    run_id = restartable.new_caller().finished(workflows["Echo"], input_text="words")["run_id"]
    expect(page.locator(f"#row-{run_id}")).to_be_visible()
    expect(page.get_by_label("Find")).to_have_value("half a wo")
    assert page.evaluate("window.stayed")
    context.close()


def test_an_ended_session_is_said_and_typed_text_is_sent_after_signing_in_elsewhere(
    chromium: Browser, console: Service, signed_in: NewPerson
) -> None:
    screen = signed_in("staying", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/keys/new")
    page.get_by_label("Name").fill("typed before")
    page.get_by_label("runs:read").check()
    page.get_by_label("All active workflows").check()
    end_sessions_elsewhere(chromium, console, "staying")
    page.evaluate("document.dispatchEvent(new Event('refresh'))")
    banner = page.locator("#not-current")
    expect(banner).to_have_text("You are signed out. What you have typed stays here: sign in again in another tab.")
    assert findings(page) == []
    with page.expect_popup() as opened:
        banner.get_by_role("link").click()
    again = Screen(opened.value, console.ready["console"])
    again.sign_in("staying", NEW.format("staying"))
    opened.value.wait_for_url("**/keys/new")
    page.evaluate("document.dispatchEvent(new Event('refresh'))")
    expect(banner).to_be_hidden()
    expect(page.get_by_label("Name")).to_have_value("typed before")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("heading", name="The key is made")).to_be_visible()


def test_a_page_of_a_stream_keeps_typed_text_when_the_session_ends(
    chromium: Browser, console: Service, signed_in: NewPerson
) -> None:
    workflows = console.admin.apply_test_workflows()
    run_id = console.new_caller().parked(workflows["Gate"], input_text="words")["run_id"]
    screen = signed_in("deciding", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(f"/runs/{run_id}")
    page.get_by_label("Comment").fill("almost typed")
    end_sessions_elsewhere(chromium, console, "deciding")
    expect(page.locator("#not-current")).to_contain_text("You are signed out")
    expect(page.get_by_label("Comment")).to_have_value("almost typed")


def test_an_open_page_in_the_background_asks_less_often(console: Service, signed_in: NewPerson) -> None:
    screen = signed_in("elsewhere", ROLE_ADMINISTRATOR)
    page = screen.page
    page.clock.install()
    screen.open("/keys")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/waiting") else None)
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {value: true}); "
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.clock.run_for(50_000)
    assert asked == []
    page.clock.run_for(20_000)
    expect(page.locator("#waiting")).to_have_count(1)
    assert len(asked) == 1
