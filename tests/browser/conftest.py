"""One started service with its console, and one Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.support.service import Service
from tests.support.wheels import make_wheel
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, Role

_LONGEST_WAIT_MS = LONGEST_WAIT_SECONDS * 1000
expect.set_options(timeout=_LONGEST_WAIT_MS)

ROLES = (ROLE_ADMINISTRATOR, ROLE_APPROVER)


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    # Each test signs in people of its own.
    people = {"WORKFLOW_API_BACKEND_USERS_LIMIT": "500"}
    # Those of the S3 server of tests, which connectors without a secret use.
    credentials = {"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "NO_PROXY": "127.0.0.1"}
    folder = tmp_path_factory.mktemp("console")
    make_wheel(folder / "wheels", "alpha", "1.5")
    packages = {"WORKFLOW_API_PACKAGES_INDEX_URL": "none", "WORKFLOW_API_PACKAGES_WHEELS": str(folder / "wheels")}
    sheet = {"WORKFLOW_API_CONSOLE_DESIGN_SHEET": "true"}
    service = Service(folder, "--console", "127.0.0.1:0", variables=people | credentials | packages | sheet)
    service.start()
    try:
        service.admin.apply_test_workflows()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for one module: until it closes, an event loop runs in this thread."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Debian's chromium")
    # Chromium has no sandbox of its own for the user root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options, timeout=_LONGEST_WAIT_MS)
        yield browser
        browser.close()


class Screen:
    """A page in a window of its own, and the errors that the browser reported."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._address = address.rstrip("/")
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in {"error", "warning"} else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> None:
        self.page.goto(self.address(path))

    def address(self, path: str) -> str:
        return self._address + path

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self._address)

    def sign_in(self, name: str, password: str) -> None:
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def change_password(self, password: str, new: str) -> None:
        self.page.get_by_label("Current password").fill(password)
        self.page.get_by_label("New password", exact=True).fill(new)
        self.page.get_by_label("Repeat the new password").fill(new)
        self.page.get_by_role("button", name="Change password").click()


@pytest.fixture
def screen(chromium: Browser, console: Service) -> Iterator[Screen]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(_LONGEST_WAIT_MS)
    yield Screen(context.new_page(), console.ready["console"])
    context.close()


NewPerson = Callable[[str, Role.ValueType], Screen]


@pytest.fixture
def signed_in(screen: Screen, console: Service) -> NewPerson:
    """Signs in a new user, who chooses a password."""

    def sign_in(name: str, role: Role.ValueType) -> Screen:
        password = console.admin.add_user(name, role)
        screen.open("/sign-in")
        screen.sign_in(name, password)
        screen.page.wait_for_url("**/password")
        screen.change_password(password, f"the password of {name}")
        screen.page.get_by_role("status").wait_for()
        return screen

    return sign_in


_AGREE = """new MutationObserver(() => document.querySelector("dialog.question[open] button:last-child")?.click())
  .observe(document, { childList: true, subtree: true, attributes: true })"""


def agree(page: Page) -> None:
    """Makes a page and those after it agree to each question before a dangerous action."""
    page.add_init_script(_AGREE)
    page.evaluate(f"() => {{ {_AGREE}; }}")
