import ast
import json
import shlex
from typing import Any

from console.run.header import lines_of
from workflow_api.v1.runs_pb2 import Run, RunSummary

HOSTILE = 'it\'s $(rm) `x` "q" \\ \n{}'


def run(**fields: Any) -> Run:
    return Run(summary=RunSummary(run_id="run_1", workflow_id="wf_1", version=2), **fields)


def test_lines_that_start_a_run_like_it_hold_its_inputs_whatever_these_are() -> None:
    lines = {line.name: line.text for line in lines_of(run(parameters=json.dumps({"a": HOSTILE}), input_text="t"))}
    words = shlex.split(lines["start-shell"])
    given = {"parameters": {"a": HOSTILE}, "input_text": "t", "version": 2}
    assert json.loads(words[words.index("-d") + 1]) == given
    calls = [node for node in ast.walk(ast.parse(lines["start-python"])) if isinstance(node, ast.Call)]
    (start,) = (call for call in calls if getattr(call.func, "attr", "") == "start")
    assert {word.arg: ast.literal_eval(word.value) for word in start.keywords} == given


def test_long_inputs_are_not_written_into_lines() -> None:
    assert [line.purpose for line in lines_of(run(input_text="x" * 5_000))] == ["Read this run"] * 3


def test_a_run_with_uploaded_files_has_no_lines_that_start_one_like_it() -> None:
    manifest = [{"parameter": "uploads", "uri": "upload://upl_1/uploads/", "objects": 1, "bytes": 1, "items": []}]
    lines = lines_of(run(parameters="{}", inputs_manifest=json.dumps(manifest)))
    assert not any(line.name.startswith("start") for line in lines)
