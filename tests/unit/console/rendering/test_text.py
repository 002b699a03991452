import json

import pytest

from console.rendering.text import escaped_json, marked, visible
from tests.unit.console.rendered import RENDERING

UNSEEN = [
    *(0x00, 0x07, 0x08, 0x0B, 0x0D, 0x1B, 0x1F, 0x7F, 0x80, 0x85, 0x9B, 0x9F, 0xAD, 0x061C, 0x180E),
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2065),
    *range(0x2066, 0x206A),
    *(0xFEFF, 0xFFF9, 0xE0041),
]


@pytest.mark.parametrize("code", UNSEEN)
def test_what_is_not_seen_is_a_mark_where_it_stands(code: int) -> None:
    shown = visible(f"<a{chr(code)}b>")
    assert chr(code) not in shown
    assert shown.startswith("&lt;a<span ")
    assert f">⟨U+{code:04X}⟩</span>b&gt;" in shown
    assert marked(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


@pytest.mark.parametrize("code", UNSEEN)
def test_every_text_of_a_template_has_marks_but_values_of_fields(code: int) -> None:
    template = RENDERING.environment.from_string(
        '<p title="{{ text }}">{{ text }}</p>{{ "of %s"|format(text) }}<input value="{{ text|verbatim }}">'
    )
    text = f"a{chr(code)}<b>"
    seen = f"a⟨U+{code:04X}⟩&lt;b&gt;"
    field = text.replace("<", "&lt;").replace(">", "&gt;")
    assert template.render(text=text) == f'<p title="{seen}">{seen}</p>of {seen}<input value="{field}">'


@pytest.mark.parametrize("code", [each for each in UNSEEN if each > 0x1F])
def test_json_has_escapes_of_the_same_value(code: int) -> None:
    value = {f"k{chr(code)}": [chr(code)]}
    text = escaped_json(json.dumps(value, ensure_ascii=False))
    assert chr(code) not in text
    assert json.loads(text) == value


def test_other_characters_stay() -> None:
    text = "שלום ż 😀 👩‍👩‍👧 می‌خواهم\r\n\t"
    assert visible(text) == text
    assert marked(text) == text
