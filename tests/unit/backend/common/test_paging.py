import pytest

from backend.common.errors import ApiError
from backend.common.paging import Cursors

CURSORS = Cursors(b"secret")


def test_a_cursor_returns_the_position_it_was_issued_for() -> None:
    cursor = CURSORS.issue("runs", "ak_1", [1_790_000_000_000, "run_é"])
    assert CURSORS.read("runs", "ak_1", cursor) == [1_790_000_000_000, "run_é"]
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("place", range(40))
def test_a_cursor_with_one_letter_changed_is_refused(place: int) -> None:
    cursor = CURSORS.issue("runs", "ak_1", [1, "run_0123456789"])
    letter = "A" if cursor[place] != "A" else "B"
    with pytest.raises(ApiError):
        CURSORS.read("runs", "ak_1", cursor[:place] + letter + cursor[place + 1 :])


@pytest.mark.parametrize(("route", "key_id"), [("workflows", "ak_1"), ("runs", "ak_2"), ("runs", None)])
def test_a_cursor_of_another_route_or_key_is_refused(route: str, key_id: str | None) -> None:
    with pytest.raises(ApiError):
        CURSORS.read(route, key_id, CURSORS.issue("runs", "ak_1", [1]))


def test_a_cursor_of_another_deployment_is_refused() -> None:
    with pytest.raises(ApiError):
        CURSORS.read("runs", "ak_1", Cursors(b"other").issue("runs", "ak_1", [1]))


@pytest.mark.parametrize("cursor", ["", "x", "é", "A" * 10_000, "=", "not a cursor", "%%%%", "AAAA="])
def test_text_that_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ApiError):
        CURSORS.read("runs", "ak_1", cursor)
