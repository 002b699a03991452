import pytest

from console.rendering.text import beginning, ending, html_bytes, short


@pytest.mark.parametrize("text", ["a" * 500, "<" * 500, "ż😀<" * 200, "a" * 90 + "&" * 90, "a\u202e" * 50, ""])
def test_what_is_shown_fits_and_says_whether_it_is_cut(text: str) -> None:
    for show in (beginning, ending):
        for size in (0, 100, 1_000):
            shown, cut = show(text, 100, size)
            assert len(shown) <= 100
            assert html_bytes(shown) <= (size or 400)
            assert cut is (shown != text)
            assert bool(shown) is bool(text)
    assert text.startswith(beginning(text, 100)[0])
    assert text.endswith(ending(text, 100)[0])


def test_a_text_of_few_escapes_is_cut_by_its_characters() -> None:
    assert beginning('"one": "two" ' * 9, 100) == (('"one": "two" ' * 9)[:100], True)


def test_an_ellipsis_stands_where_a_text_is_cut() -> None:
    assert (short("one two", 3), short("one", 3)) == ("one…", "one")
