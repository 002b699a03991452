import asyncio
from datetime import UTC, datetime, tzinfo
from types import CodeType
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.http.static_files import StaticFiles
from console.rendering.templates import Rendering, labelled, number, number_columns
from workflow_api.v1.users_pb2 import Preferences

AT = 1_790_244_930_123
SHOWN = '<time datetime="2026-09-24T10:15:30.123Z" title="2026-09-24 10:15:30 UTC">2026-09-24 10:15:30 UTC</time>'


def rendered(source: str, **context: Any) -> str:
    return Rendering(StaticFiles()).environment.from_string(source).render(context)


@pytest.mark.parametrize(
    "time",
    [
        AT,
        Timestamp(seconds=1_790_244_930, nanos=123_000_000),
        datetime(2026, 9, 24, 10, 15, 30, 123_000, UTC),
    ],
)
def test_a_time_has_exact_text_a_datetime_attribute_and_a_tooltip(time: Any) -> None:
    assert rendered("{{ time|time }}", time=time) == SHOWN


@pytest.mark.parametrize(
    ("zone", "text"),
    [(UTC, "2026-09-24 10:15:30 UTC"), (ZoneInfo("Europe/Berlin"), "2026-09-24 12:15:30 CEST")],
)
def test_a_time_is_shown_in_the_zone_of_the_person(zone: tzinfo, text: str) -> None:
    assert f">{text}</time>" in rendered("{{ time|time }}", time=AT, zone=zone)


def test_who_prefers_exact_times_has_them_everywhere_but_in_countdowns() -> None:
    preferences = Preferences(exact_times=True)
    assert "title" not in rendered("{{ time|time }}", time=AT, preferences=preferences)
    assert "title" in rendered("{{ time|time(countdown=true) }}", time=AT, preferences=preferences)


def test_a_time_that_has_to_stay_exact_has_no_tooltip() -> None:
    assert "title" not in rendered("{{ time|time(exact=true) }}", time=AT)


@pytest.mark.parametrize("never", [None, 0, Timestamp()])
def test_a_missing_value_is_a_dash(never: Any) -> None:
    assert rendered("{{ time|time }}", time=never) == "\N{EN DASH}"


def test_each_cell_has_the_head_of_its_column_as_label() -> None:
    rows = '<tr><th scope="row">a</th><td class="long">b</td></tr><tr><td>c</td><td>d</td><td>e</td></tr>'
    assert labelled(rows, ["One", 'T"wo']) == (
        '<tr><th data-label="One" scope="row">a</th><td data-label="T&#34;wo" class="long">b</td></tr>'
        '<tr><td data-label="One">c</td><td data-label="T&#34;wo">d</td><td>e</td></tr>'
    )


def test_a_number_has_thousands_separators() -> None:
    assert [number(value) for value in (1234567, 0, 1234.5, 2.0)] == ["1,234,567", "0", "1,234.5", "2"]


def test_an_undefined_name_raises() -> None:
    with pytest.raises(jinja2.UndefinedError):
        Rendering(StaticFiles()).page("sign_in.html", {})


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        ([["a", "1,234", "0.04"], ["b", "\N{EN DASH}", ""]], "2 3"),
        ([["412 ms", "98 %", "4 min 5 s"], ["3.2 s", "100 %", "1 d 2 h"]], "1 2 3"),
        ([["\N{EN DASH}", "", "12 of 50"]], ""),
        ([["1", "a"], ["1", "2"]], "1"),
    ],
)
def test_columns_of_numbers_alone_are_found(cells: list[list[str]], columns: str) -> None:
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in cells)
    assert number_columns(rows) == columns


def test_a_number_with_markup_is_no_number() -> None:
    assert number_columns('<tr id="a"><th scope="row">1</th>\n<td class="long"><b>2</b></td>\n<td>3</td></tr>') == "1 3"


def test_a_prepared_template_is_not_compiled_by_a_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    rendering = Rendering(StaticFiles())
    environment = rendering.environment
    compiled: list[str | None] = []
    compile_template = environment.compile

    def compile_counted(source: str, name: str | None = None, filename: str | None = None) -> CodeType:
        compiled.append(name)
        return compile_template(source, name, filename)

    monkeypatch.setattr(environment, "compile", compile_counted)
    asyncio.run(rendering.prepare())
    assert len(compiled) == len(environment.list_templates())
    for name in environment.list_templates():
        environment.get_template(name)
    assert len(compiled) == len(environment.list_templates())
