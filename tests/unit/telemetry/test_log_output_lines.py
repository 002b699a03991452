"""The forms of a log line."""

import json

import pytest

from telemetry.log_output import json_line, shortened, text_line


def test_a_line_of_json_takes_names_that_are_no_utf_8() -> None:
    assert json.loads(json_line({"message": "a\udcff"})) == {"message": "a\udcff"}
    assert json_line({"message": "a\nb"}) == b'{"message":"a\\nb"}\n'


def test_a_line_of_text_leads_with_the_time() -> None:
    fields = {"run_id": "run_1", "ms": 3}
    given = ("2026-09-24T10:11:12.123+00:00", "info", "edge.requests", "GET /me 200", fields, "")
    assert text_line(*given, colour=False) == b"10:11:12.123  INFO      edge.requests  GET /me 200  run_id=run_1 ms=3\n"
    assert b"\x1b[32mINFO" in text_line(*given, colour=True)


def test_text_moves_no_cursor() -> None:
    line = text_line("", "error", "edge", "a\x1b[2Jb\nc\u202ed", {}, "ValueError\n  file:1", colour=False)
    assert line.decode() == "ERROR     edge  a\\x1b[2Jb\\x0ac\\x202ed\n    ValueError\n      file:1\n"


@pytest.mark.parametrize("character", ["x", "é", "語", "😀", "\udcff"])
def test_a_long_traceback_is_cut_in_the_middle(character: str) -> None:
    exception = "\n".join(["ValueError", *(f"  {character * 80}:{line} place" for line in range(100)), "from KeyError"])
    cut = shortened(exception)
    assert 2_000 < len(cut.encode("utf-8", "backslashreplace")) <= 3_100
    assert cut.startswith("ValueError\n")
    assert cut.endswith("\nfrom KeyError")
    assert "\n  ...\n" in cut


def test_a_long_message_of_an_exception_keeps_its_begin_and_end() -> None:
    cut = shortened("Traceback\n  file:1\nValueError: first" + "x" * 9_000 + "last")
    assert cut.startswith("Traceback\n  file:1\n  ...\n")
    assert cut.endswith("xlast")
    one_line = shortened("first" + "x" * 9_000 + "last")
    assert one_line.startswith("firstx")
    assert one_line.endswith("xlast")
