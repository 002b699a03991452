from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redaction.formats.outcome import WithheldError
from redaction.formats.preview import (
    MOST_CELL_CHARS,
    MOST_CHARS,
    MOST_COLUMNS,
    MOST_ROWS,
    MOST_TABLE_CHARS,
    FilePreview,
    preview_of,
)


def shown(folder: Path, content: str | bytes, name: str = "notes.md") -> FilePreview:
    path = folder / "source"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return preview_of(path, name, MOST_ROWS)


def test_text_is_shown_up_to_its_bound(tmp_path: Path) -> None:
    assert shown(tmp_path, "# Zwölf\n") == FilePreview("# Zwölf\n")
    assert shown(tmp_path, "é" * MOST_CHARS) == FilePreview("é" * MOST_CHARS)
    assert shown(tmp_path, "é" * (MOST_CHARS + 1)) == FilePreview("é" * MOST_CHARS, cut=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_the_head_of_a_file_may_end_in_the_middle_of_a_character(tmp_path: Path, encoding: str, missing: int) -> None:
    mark = "" if encoding == "utf-8" else "\ufeff"
    path = tmp_path / "source"
    path.write_bytes(f"{mark}Żółć\nĊ😀".encode(encoding)[:-missing])
    assert preview_of(path, "notes.txt", MOST_ROWS, head=True) == FilePreview("Żółć\nĊ", cut=True)


def test_the_last_row_of_the_head_of_a_table_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes("a,b\n1,2\n3,żółć".encode()[:-1])
    expected = FilePreview(columns=["a", "b"], rows=[["1", "2"]], cut=True)
    assert preview_of(path, "t.csv", MOST_ROWS, head=True) == expected


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", b"%PDF-1.7\n", b"PK\x03\x04 a zip", b"\0\1\2\3"])
def test_content_that_is_no_text_is_not_shown(tmp_path: Path, content: bytes) -> None:
    assert shown(tmp_path, content, "name.txt").empty


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separated_values_are_a_table(tmp_path: Path, separator: str) -> None:
    text = f'a{separator}b\r\n1{separator}"two\nlines"\r\n'
    assert shown(tmp_path, text, "t.CSV") == FilePreview(columns=["a", "b"], rows=[["1", "two\nlines"]])


def test_a_table_is_cut_at_its_bounds(tmp_path: Path) -> None:
    line = ",".join(["x" * (MOST_CELL_CHARS + 1)] * (MOST_COLUMNS + 1))
    table = shown(tmp_path, "\n".join([line, *["1,2"] * (MOST_ROWS + 1)]), "t.csv")
    assert table.cut
    assert (len(table.columns), len(table.rows)) == (MOST_COLUMNS, MOST_ROWS)
    assert {len(name) for name in table.columns} == {MOST_CELL_CHARS}
    assert not shown(tmp_path, "\n".join(["a,b", *["1,2"] * MOST_ROWS]), "t.csv").cut


def test_a_row_in_whose_middle_the_text_was_cut_is_left_out(tmp_path: Path) -> None:
    row = "9" * (MOST_TABLE_CHARS // 4)
    table = shown(tmp_path, "a\n" + f"{row}\n" * 5, "t.csv")
    assert [len(cells[0]) for cells in table.rows] == [MOST_CELL_CHARS] * 3
    assert table.cut


def test_parquet_is_a_table_of_its_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "source"
    pq.write_table(pa.table({"n": [1, None, 3], "name": ["a", "b", "c" * 400]}), path)
    assert preview_of(path, "t.parquet", MOST_ROWS) == FilePreview(
        columns=["n", "name"], rows=[["1", "a"], ["", "b"], ["3", "c" * MOST_CELL_CHARS]], cut=True
    )
    pq.write_table(pa.table({"n": range(MOST_ROWS + 1)}), path)
    assert len(preview_of(path, "t.parquet", MOST_ROWS).rows) == MOST_ROWS


def test_malformed_parquet_is_withheld(tmp_path: Path) -> None:
    with pytest.raises(WithheldError):
        shown(tmp_path, b"PAR1 and nothing", "t.parquet")


def test_only_what_it_writes_itself_is_read_back() -> None:
    preview = FilePreview(columns=["a"], rows=[["1"]], cut=True)
    assert FilePreview.from_dict(preview.as_dict()) == preview
    longer = FilePreview("x" * (MOST_CHARS + 1)).as_dict()
    wider = FilePreview(columns=["a"] * (MOST_COLUMNS + 1)).as_dict()
    for wrong in (None, {}, longer, wider, {**preview.as_dict(), "rows": [["1"], [2]]}):
        assert FilePreview.from_dict(wrong) is None


def test_bytes_that_are_not_valid_are_shown_as_windows_1252(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_bytes("Größe, Zürich, ".encode() + b"K\xf6ln")
    assert preview_of(source, "a.txt", 5).text == "Größe, Zürich, Köln"
