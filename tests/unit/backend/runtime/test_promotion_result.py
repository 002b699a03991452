import json
from pathlib import Path

import pytest

from backend.runtime.promotion import (
    LARGEST_INLINE_BYTES,
    SUMMARY_TOO_LONG,
    carried_summary,
    make_result,
    may_carry_summary,
)
from backend.storage.objects import FolderObjects


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path)


def test_a_result_is_inline_up_to_256_kib_of_json(objects: FolderObjects) -> None:
    fits = json.dumps("x" * (LARGEST_INLINE_BYTES - 2))
    over = json.dumps("x" * (LARGEST_INLINE_BYTES - 1))
    assert make_result(objects, "run_a", fits, None)[0].value == fits
    result, output, _ = make_result(objects, "run_a", over, None)
    assert result.value is None
    assert result.error_code is None
    assert (result.size_bytes, output.size_bytes) == (LARGEST_INLINE_BYTES + 1, LARGEST_INLINE_BYTES + 1)


def test_the_result_is_the_output_result_json_of_no_step(objects: FolderObjects) -> None:
    result, output, _ = make_result(objects, "run_a", '{"a":1}', None)
    assert (output.path, output.step, output.media_type) == ("result.json", None, "application/json")
    assert (result.output_id, result.sha256) == (output.output_id, output.sha256)
    assert b"".join(objects.open_range(output.object_key, 0, 7)) == b'{"a":1}'


def test_null_is_a_result(objects: FolderObjects) -> None:
    assert make_result(objects, "run_a", "null", None)[0].value == "null"


@pytest.mark.parametrize(
    ("value", "summary"),
    [({"summary_markdown": "# S"}, "# S"), ({"summary_markdown": 1}, None), (["summary_markdown"], None), ("s", None)],
)
def test_a_summary_is_a_string_in_an_object(objects: FolderObjects, value: object, summary: str | None) -> None:
    text = json.dumps(value)
    assert (carried_summary(json.loads(text)) if may_carry_summary(text) else None) == summary
    assert make_result(objects, "run_a", text, None, summary)[0].summary_markdown == summary


def test_a_value_that_does_not_fit_is_only_in_its_output(objects: FolderObjects) -> None:
    result, output, _ = make_result(objects, "run_a", '{"total":"7"}', "why not")
    assert (result.value, result.error_code, result.error_message) == (None, "result_schema_mismatch", "why not")
    assert b"".join(objects.open_range(output.object_key, 0, output.size_bytes)) == b'{"total":"7"}'


@pytest.mark.parametrize(("more", "warnings"), [(0, []), (1, [SUMMARY_TOO_LONG])])
def test_a_summary_over_256_kib_is_null_and_warned_of(objects: FolderObjects, more: int, warnings: list[str]) -> None:
    summary = "é" * (LARGEST_INLINE_BYTES // 2) + "x" * more
    value = json.dumps({"summary_markdown": summary}, ensure_ascii=False)
    made = make_result(objects, "run_a", value, None, summary)
    assert made.result.summary_markdown == (None if more else summary)
    assert made.warnings == warnings
