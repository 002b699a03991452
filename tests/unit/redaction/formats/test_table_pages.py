"""Pages of tables: rows from anywhere, with the number of all."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redaction.formats.table_pages import table_page


def page(
    folder: Path, name: str, content: str, first: int = 0, rows: int = 2
) -> tuple[list[str], list[list[str]], int | None]:
    source = folder / name
    source.write_text(content)
    found = table_page(source, name, first, rows)
    assert found is not None
    return found.columns, found.rows, found.total


def test_separated_values_are_paged_with_quoted_line_ends(tmp_path: Path) -> None:
    content = 'a,b\n1,"x\ny"\n2,z\n3,\n'
    assert page(tmp_path, "t.csv", content, 0) == (["a", "b"], [["1", "x\ny"], ["2", "z"]], 3)
    assert page(tmp_path, "t.csv", content, 2) == (["a", "b"], [["3", ""]], 3)
    assert page(tmp_path, "t.csv", content, 9) == (["a", "b"], [], 3)


def test_lists_in_json_are_tables_and_numbers_keep_their_spelling(tmp_path: Path) -> None:
    content = '[{"n": 1.10, "m": {"k": [1]}}, {"o": null, "n": 12345678901234567890}]'
    expected = (["n", "m", "o"], [["1.10", '{"k": [1]}', ""], ["12345678901234567890", "", ""]], 2)
    assert page(tmp_path, "t.json", content) == expected
    assert page(tmp_path, "t.jsonl", '{"n": 1}\n\n{"n": 2}\n{"n": 3}\n', 1) == (["n"], [["2"], ["3"]], 3)
    assert page(tmp_path, "t.json", "[[1, 2], [3]]") == (["1", "2"], [["1", "2"], ["3", ""]], 2)


@pytest.mark.parametrize(
    ("name", "content"), [("t.json", '{"a": 1}'), ("t.json", "[1, 2]"), ("t.json", "[" * 99_999), ("t.txt", "a,b")]
)
def test_other_content_is_no_table(tmp_path: Path, name: str, content: str) -> None:
    source = tmp_path / name
    source.write_text(content)
    assert table_page(source, name, 0, 2) is None


def test_parquet_is_paged_over_its_groups(tmp_path: Path) -> None:
    source = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": list(range(10))}), source, row_group_size=3)
    found = table_page(source, "t.parquet", 5, 4)
    assert found is not None
    assert (json.dumps(found.rows), found.total) == ('[["5"], ["6"], ["7"], ["8"]]', 10)
