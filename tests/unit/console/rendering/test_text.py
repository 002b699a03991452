import json

import pytest

from console.rendering.text import breakable, escaped_json, marked, short_id, visible, visible_value
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


@pytest.mark.parametrize(
    ("html", "broken"),
    [
        ("<td>reconciliation</td>", "<td>reconciliation</td>"),
        ("<td>a/path_of/some.file.csv</td>", "<td>a/<wbr>path_<wbr>of/<wbr>some.<wbr>file.<wbr>csv</td>"),
        ("<td>1,234,567.89 127.0.0.100:8080</td>", "<td>1,234,567.89 127.0.0.100:8080</td>"),
        ("<td>several-words-with-hyphens-that-break</td>", "<td>several-words-with-hyphens-that-break</td>"),
        ('<a href="/a/path_of/some.file.csv">x</a>', '<a href="/a/path_of/some.file.csv">x</a>'),
        ("<td>run_01m8j71kkgf0k6g80qg6jwczwb</td>", "<td>run_<wbr>01m8j71k<wbr>kgf0k6g8<wbr>0qg6jwcz<wbr>wb</td>"),
        (f"<td>{'!' * 33}</td>", f'<td><span class="solid">{"!" * 33}</span></td>'),
        ("<td>&lt;script&gt;&amp;&#39;&#34;</td>", "<td>&lt;script&gt;&amp;&#39;&#34;</td>"),
        ("<td><textarea>\na_b_c_d_e_f_g_h_i_j</textarea></td>", "<td><textarea>\na_b_c_d_e_f_g_h_i_j</textarea></td>"),
        (
            '<td><a class="clamped" title="x">a_b_c_d_e_f_g_h_i_j</a></td>',
            '<td><a class="clamped" title="x">a_b_c_d_e_f_g_h_i_j</a></td>',
        ),
    ],
)
def test_long_words_of_cells_may_break_after_separators_alone(html: str, broken: str) -> None:
    assert breakable(html) == broken


def test_an_id_is_shortened_to_its_kind_and_its_end() -> None:
    assert short_id("run_01m8j71kkgf0k6g80qg6jwczwb") == "run_…g6jwczwb"
    assert [short_id("run_1"), short_id("no-underscore-at-all")] == ["run_1", "no-underscore-at-all"]


def test_json_goes_on_in_a_new_line_after_each_escaped_line_end() -> None:
    assert visible_value(r'{"a": "one\ntwo"}') == "{&#34;a&#34;: &#34;one\\n<i></i>two&#34;}"
    assert "<i>" not in visible_value(r'{"a": "C:\\new"}')
    assert visible_value(r'{"a": "C:\\\n"}').count("<i></i>") == 1
    assert "<i>" not in visible_value(r"a script with \n in it")
