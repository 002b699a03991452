import pytest

from console.rendering.excerpts import beginning, ending, html_bytes, short


@pytest.mark.parametrize("text", ["a" * 30, "<" * 30, "ż" * 30, "😀" * 30, "a\u202e" * 30, "&\r\n" * 30])
def test_what_is_shown_of_a_text_takes_no_more_bytes_than_asked_and_no_fewer_than_fit(text: str) -> None:
    for most in range(200):
        shown, cut = beginning(text, most)
        assert text.startswith(shown)
        assert html_bytes(shown) <= most
        assert cut == (shown != text)
        assert not cut or html_bytes(text[: len(shown) + 1]) > most


def test_the_end_of_a_text_is_shown_where_its_beginning_is_cut() -> None:
    assert ending("one two", 3) == ("two", True)
    assert ending("two", 3) == ("two", False)


def test_an_ellipsis_stands_where_a_text_is_cut() -> None:
    assert (short("one two", 3), short("one", 3)) == ("one…", "one")
