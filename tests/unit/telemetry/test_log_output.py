"""Lines of a process."""

import json
import os
import select

import pytest

from telemetry.log_output import LogOutput


def test_a_field_without_a_value_is_in_neither_form() -> None:
    fields = {"run_id": "run_1", "key_id": None, "reason": "", "steps": ["one"], "ms": 0}
    output = LogOutput(os.open(os.devnull, os.O_WRONLY), "edge")
    output.set_format("json", colour=False)
    line = json.loads(output.line("info", "edge.requests", "request", "GET /me 200", fields))
    assert {name: line[name] for name in line.keys() & fields.keys()} == {"run_id": "run_1", "steps": ["one"], "ms": 0}
    output.set_format("text", colour=False)
    text = output.line("info", "edge.requests", "request", "GET /me 200", fields)
    assert text.endswith(b"  GET /me 200  run_id=run_1 steps=['one'] ms=0\n")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_with_a_long_traceback_is_written_to_a_pipe_at_once(form: str) -> None:
    output = LogOutput(os.open(os.devnull, os.O_WRONLY), "edge")
    output.set_format(form, colour=False)
    exception = "\n".join(f"  /opt/workflow-api/lib/module_{number}.py:{number} function" for number in range(500))
    line = output.line("error", "contract.refusals", "message", "A request failed", {"request_id": "req_1"}, exception)
    assert len(line) <= select.PIPE_BUF
    assert b"module_0.py" in line
    assert b"module_499.py" in line
