from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import IncompleteRead

import pytest

from console.http import downloads
from tests.support.poll import until
from tests.unit.console.conftest import Desk

MOST_OF_SESSION = 6


def test_a_download_is_saved_and_never_shown_as_a_page(desk: Desk) -> None:
    answer = desk.browser("ann").get("/download?length=7")
    assert (answer.status, answer.text) == (200, "one two")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="<script>alert(1)</script>"')
    assert answer.headers["Cache-Control"] == "no-store"


def test_an_image_is_shown_where_its_page_says_so(desk: Desk) -> None:
    answer = desk.browser("ann").get("/download?inline=yes")
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Content-Disposition" not in answer.headers


def test_a_download_that_ends_early_is_not_taken_for_whole(desk: Desk) -> None:
    with pytest.raises((IncompleteRead, ConnectionError)):
        desk.browser("ann").get("/download?length=8")


def test_the_pictures_of_a_page_wait_for_each_other(start: Callable[..., Desk]) -> None:
    desk = start()
    token = desk.channel.begin("ann")

    def picture(_: int) -> tuple[int, str]:
        browser = desk.browser()
        browser.cookies["session"] = token
        answer = browser.get("/download?inline=yes&held=yes")
        return answer.status, answer.text

    pictures = 2 * MOST_OF_SESSION
    with ThreadPoolExecutor(pictures) as threads:
        answers = threads.map(picture, range(pictures))
        until(lambda: desk.downloads == pictures, "every picture to be asked for")
        desk.end_downloads()
        assert list(answers) == [(200, "one two")] * pictures


def test_a_download_is_refused_where_no_place_becomes_free(
    start: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "PLACE_SECONDS", 0.05)
    desk = start()
    browser = desk.browser("ann")
    with ThreadPoolExecutor(MOST_OF_SESSION) as threads:
        held = [threads.submit(browser.get, "/download?held=yes") for _ in range(MOST_OF_SESSION)]
        until(lambda: desk.downloads == MOST_OF_SESSION, "the downloads to begin")
        assert browser.get("/download").status == 429
        desk.end_downloads()
        assert [each.result().status for each in held] == [200] * MOST_OF_SESSION
    assert browser.get("/download").status == 200
