import pytest

from console.rendering.page_budget import PageBudget, html_bytes


@pytest.mark.parametrize("text", ["a" * 500, "<" * 500, "ż😀<" * 200, "a" * 90 + "&" * 90, ""])
def test_what_is_shown_fits_and_says_whether_it_is_cut(text: str) -> None:
    for show in (PageBudget.begin, PageBudget.end):
        shown, cut = show(PageBudget(100), text, 1_000)
        assert html_bytes(shown) <= 100
        assert cut is (shown != text)
        assert bool(shown) is bool(text)
    assert text.startswith(PageBudget(100).begin(text, 1_000)[0])
    assert text.endswith(PageBudget(100).end(text, 1_000)[0])


def test_texts_share_the_room_in_their_order() -> None:
    room = PageBudget(100)
    assert room.begin("a" * 90, 80) == ("a" * 80, True)
    assert not room.holds(21)
    assert room.holds(5)
    assert room.begin("<" * 9, 10) == ("<" * 3, True)
    assert room.begin("more", 10) == ("more"[:3], True)
    assert PageBudget(-1).begin("x", 1) == ("", True)
