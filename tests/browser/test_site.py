"""The documents as a site: nothing is loaded from other hosts, a search needs no server, and pages fit a phone."""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).parents[2]
WIDTHS = {"phone": 390, "desk": 1280}
SHOWN = ("index", "start", "concepts", "how-to/webhooks", "reference/api", "reference/errors", "repository/CHANGELOG")


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Writes nothing."""


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the site is built into."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def site(site_folder: Path) -> Iterator[str]:
    """The address of the site, served as plain files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(site_folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Visit:
    """A window on the site, with what it asked other hosts for and what the browser complained about."""

    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self.elsewhere: list[str] = []
        self.complaints: list[str] = []
        page.on(
            "request",
            lambda sent: None if sent.url.startswith((site, "data:", "blob:")) else self.elsewhere.append(sent.url),
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_load_nothing_from_other_hosts(chromium: Browser, site: str, width: int, scheme: str) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type] # one of its words
    visit = Visit(page, site)
    for name in SHOWN:
        page.goto(f"{site}/{name}.html")
        expect(page.locator("article h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        if folder := os.environ.get("WORKFLOW_API_TEST_PICTURES"):
            page.screenshot(path=f"{folder}/{name.replace('/', '-')}-{width}-{scheme}.png")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is (scheme == "light")
    assert (visit.elsewhere, visit.complaints) == ([], [])
    page.close()


@pytest.mark.parametrize("opened", ["from a server", "from its folder"])
def test_a_search_finds_the_page(chromium: Browser, site: str, site_folder: Path, opened: str) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    begin = site if opened == "from a server" else site_folder.as_uri()
    visit = Visit(page, begin)
    page.goto(f"{begin}/index.html")
    page.locator("input.md-search__input").click()
    page.keyboard.type("idempotency replayed")
    found = page.locator("a.md-search-result__link")
    expect(found.first).to_be_visible()
    assert any("start-safely.html" in str(link.get_attribute("href")) for link in found.all())
    assert (visit.elsewhere, visit.complaints) == ([], [])
    page.close()


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("how-to/index.html", "How to"),
        ("repository/clients/python/index.html", "Python client"),
        ("decisions/index.html", "Decisions"),
    ],
)
def test_a_page_that_begins_a_folder_is_in_the_navigation(
    chromium: Browser, site: str, address: str, title: str
) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{site}/{address}")
    shown = page.locator(".md-sidebar--primary a.md-nav__link--active:visible")
    expect(shown.last).to_have_text(title)
    page.close()
