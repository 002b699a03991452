import json
import subprocess
import sys

import pytest

from deploy.cli.output.printing import TableColumn, print_details, print_table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (["a", "b"], "a, b"),
        ({"a": 1}, '{"a": 1}'),
        ([{"a": 1}], '[{"a": 1}]'),
    ],
)
def test_a_cell_is_readable(value: object, text: str) -> None:
    assert TableColumn("X", "x").cell({"x": value}) == text


def test_a_nested_field_is_found_or_missing() -> None:
    column = TableColumn("X", "error.message")
    assert column.cell({"error": {"message": "no"}}) == "no"
    assert column.cell({"error": None}) == "-"
    assert column.cell({}) == "-"


def test_in_a_pipe_a_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"x": "word " * 100}], [TableColumn("X", "x")], none="nothing")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_no_record_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], [TableColumn("X", "x")], none="Nothing there.")
    assert capsys.readouterr().out == "Nothing there.\n"


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_details({"x": "a\x1b[31mb\rc"}, [TableColumn("x", "x")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\r" not in out
    assert "\\x1b[31mb\\rc" in out


def test_characters_outside_the_encoding_are_escaped() -> None:
    code = "from deploy.cli.output.printing import *; print_json({'a': chr(233) + chr(0x1f600)})"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == {"a": "\u00e9\U0001f600"}
