import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redaction.formats import csv_text
from redaction.formats.csv_text import sweep_csv
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile
from tests.unit.redaction.formats.pieces import collecting, pieces_of


def test_cells_are_swept_and_the_rest_of_a_table_stays(engine: Redactor, sweep_file: SweepFile) -> None:
    table = 'id;"mail";note;first_name\r\n1;jane@example.org;"a ""b""\n; 4111111111111111";Jane\r\n2;;"";"Bo;b"'
    swept = 'id;"mail";note;first_name\r\n1;[EMAIL_ADDRESS];"a ""b""\n; [CREDIT_CARD]";[PERSON]\r\n2;;"";"[PERSON]"'
    outcome, copy = sweep_file(engine, "a.csv", table.encode())
    assert (outcome.kind, outcome.values) == ("csv", 4)
    assert copy == swept.encode()


@pytest.mark.parametrize("inside", ["a ", '""', "a,b\n"])
def test_a_quote_that_is_not_closed_takes_no_more_memory_than_its_text(engine: Redactor, inside: str) -> None:
    size = 1_000_000
    blocks = ['"', *[inside * (100_000 // len(inside))] * (size // 100_000), "jane@example.org"]
    engine.text("jane@example.org")
    tracemalloc.start()
    for _ in sweep_csv(iter(blocks), lambda *_: {}, ","):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 36 * size


def test_a_value_does_not_reach_over_cells(engine: Redactor, sweep_file: SweepFile) -> None:
    assert sweep_file(engine, "a.tsv", b"4111 1111\t1111 1111\n")[1] == b"4111 1111\t1111 1111\n"


def test_a_first_row_of_nothing_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []

    def note(_: list[str], more: list[str]) -> dict[int, str]:
        labels.extend(more)
        return {}

    text = "\n" * 20_000 + "a,b\n1,2\n"
    assert "".join(sweep_csv([text], note, ",")) == text
    assert labels[-2:] == ["a", "b"]


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.text(alphabet='xy,"\n é', max_size=6), min_size=2, max_size=4), min_size=1, max_size=6),
    size=st.integers(1, 9),
)
def test_csv_is_read_alike_inpieces_of(rows: list[list[str]], size: int) -> None:
    text = "\r\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_text, "BATCH", 1)
        seen: list[str] = []
        swept = "".join(sweep_csv(pieces_of(text, size), collecting(seen), ","))
    assert swept == text
    assert seen == ['"' + cell.replace('"', '""') + '"' for row in rows for cell in row]


def test_a_cell_too_long_to_hold_is_swept_as_text(
    engine: Redactor, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "LONGEST_VALUE", 600_000)
    outcome, swept = sweep_file(engine, "a.csv", b'"' + b"a " * 1_000_000 + b"jane@example.org")
    assert (outcome.kind, outcome.values) == ("text", 1)
    assert swept is not None
    assert swept.endswith(b"[EMAIL_ADDRESS]")


@pytest.mark.parametrize(
    "table",
    [
        "sep=;\r\nsurname;note\r\nRoe;a\r\n",
        '"sep=|"\nsurname|note\nRoe|a\n',
        "Customers\nsurname,note\nRoe,a\n",
        "Customers,,\nid,note,surname\n1,a,Roe\n",
        "Customers,\n\nAs of March,\n\nsurname,note\nRoe,a\n",
        "Customers, March 2026\nsurname,note,more\nRoe,a,b\nRoe,c,d\n",
        "surname,note\nRoe,a,\nRoe,b,\n",
        'surname;note\nRoe;"a,b,c"\nRoe;"a,b,c"\n',
        "surname\tnote\nRoe\tb, c, d, e\n",
    ],
)
def test_columns_are_known_by_their_names_below_titles(engine: Redactor, sweep_file: SweepFile, table: str) -> None:
    assert sweep_file(engine, "a.csv", table.encode())[1] == table.replace("Roe", "[PERSON]").encode()


@pytest.mark.parametrize("table", ["surname\nRoe\nRoe\n", "surname,a\nRoe,1", "surname,a,b,c\nRoe,1\nRoe,1\n"])
def test_a_first_row_that_names_columns_is_no_title(engine: Redactor, sweep_file: SweepFile, table: str) -> None:
    assert sweep_file(engine, "a.csv", table.encode())[1] == table.replace("Roe", "[PERSON]").encode()


_STRAY = "first_name\tsurname\tnote\n"


@pytest.mark.parametrize(
    "rows",
    [
        'Rosalind\tAchterberg\t"Big Bertha\nDetlef\tKummerow\tok\nOttilie\tBrand\t"x',
        'Rosalind\tAchterberg\t"Big Bertha\nDetlef\tKummerow\t5"\nOttilie\tBrand\tx',
        '"Rosalind\tAchterberg\tBig Bertha\nDetlef\tKummerow"\tok\nOttilie\tBrand\tx',
        'Rosalind\tAchterberg\t"Big Bertha\n' + "Detlef\tKummerow\tok\n" * 20,
    ],
)
@pytest.mark.parametrize("size", [7, 1_000])
def test_a_quote_that_only_begins_a_cell_takes_no_rows_into_it(
    rows: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "BATCH", 110)
    names: list[tuple[str, str]] = []

    def note(cells: list[str], labels: list[str]) -> dict[int, str]:
        names.extend(pair for pair in zip(cells, labels, strict=True) if pair[1] in {"first_name", "surname"})
        return {}

    text = _STRAY + rows
    assert "".join(sweep_csv(pieces_of(text, size), note, "\t")) == text
    split = [row.split("\t") for row in rows.splitlines()]
    assert names == [pair for first, last, _ in split for pair in ((first, "first_name"), (last, "surname"))]


@pytest.mark.parametrize(
    "cell",
    [
        '"one\ntwo"',
        '"one\na,b,c\ntwo"',
        '"dear Ann, Bo, Cy\none, two, three"',
        '"a ""b""\n, c"',
        '"Roe, Jane" <j@x.org>',
    ],
)
def test_a_cell_of_several_lines_is_one_value(cell: str) -> None:
    seen: list[str] = []
    text = f"id,note,surname\n1,{cell},Roe\n2,x,Doe\n"
    assert "".join(sweep_csv([text], collecting(seen), ",")) == text
    assert seen == ["id", "note", "surname", "1", cell, "Roe", "2", "x", "Doe"]


def test_in_a_table_of_fields_each_row_names_its_value(engine: Redactor, sweep_file: SweepFile) -> None:
    table = b"id,field,value\n1,surname,Roe\n2,phone,02079460321\n3,,x\n4,colour,Green\n"
    swept = b"id,field,value\n1,surname,[PERSON]\n2,phone,[PHONE_NUMBER]\n3,,x\n4,colour,Green\n"
    assert sweep_file(engine, "a.csv", table)[1] == swept


def test_a_value_that_a_line_break_divides_is_known_by_its_column(engine: Redactor, sweep_file: SweepFile) -> None:
    table = b'name,phone,note\n"Jane\nDoe","020 7946\r\n0321","one\ntwo"\n'
    assert sweep_file(engine, "a.csv", table)[1] == b'name,phone,note\n"[PERSON]","[PHONE_NUMBER]","one\ntwo"\n'
