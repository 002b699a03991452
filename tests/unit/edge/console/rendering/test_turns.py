import pytest

from edge.console.rendering.turns import visible


@pytest.mark.parametrize("code", [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_what_turns_text_around_is_a_mark_where_it_stands(code: int) -> None:
    shown = visible(f"<a{chr(code)}b>")
    assert chr(code) not in shown
    assert shown.startswith("&lt;a<span ")
    assert f">⟨U+{code:04X}⟩</span>b&gt;" in shown


def test_other_characters_stay() -> None:
    assert visible("שלום ż 😀\n\t") == "שלום ż 😀\n\t"
