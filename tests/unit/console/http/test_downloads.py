from http.client import IncompleteRead

import pytest

from tests.unit.console.conftest import Desk


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
