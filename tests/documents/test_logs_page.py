"""The lines on docs/logs.md have the fields of those that a service writes, and its commands find them."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.documents.conftest import DOCS, Reader
from tests.support.log_lines import lines_of
from tests.support.page import blocks_of
from tests.support.poll import until

[SHOWN, COMMANDS] = [block.body for block in blocks_of(DOCS / "logs.md")]
PLAIN = [
    "Started workflow-api.service - Programmatic Workflow API.",
    "http://127.0.0.1:8080/api/v1",
    "Data: /var/lib/workflow-api",
    "Ready. Data: /var/lib/workflow-api/worker-1",
    "0",
    "",
]
"""What the journal has besides."""
REQUEST_ID, RUN_ID = "8f1c…0012", "run_01m8…3hdt"


def logged(reader: Reader, event: str, **fields: object) -> dict[str, Any]:
    """Returns the line of this event with these values."""

    def found() -> list[dict[str, Any]]:
        whole = reader.log().rpartition("\n")[0]
        return [line for line in lines_of(whole) if line["event"] == event and fields.items() <= line.items()]

    [line] = until(found, f"the line {fields}")
    return line


@pytest.fixture
def lines(reader: Reader) -> list[dict[str, Any]]:
    """The lines of the reader's run that the page shows."""
    return [
        logged(reader, "request", run_id=reader.run_id, method="POST", status=201),
        # A service in one process executes a run at once, which a deployment of several parts queues.
        logged(reader, "run", run_id=reader.run_id, message="run started, running"),
        logged(reader, "run", run_id=reader.run_id, message="run running -> completed"),
    ]


def test_a_line_has_the_fields_of_the_example(lines: list[dict[str, Any]]) -> None:
    shown = [json.loads(line) for line in SHOWN.splitlines()]
    for example, line in zip(shown, lines, strict=True):
        assert example.keys() == line.keys()
        constant = ("level", "logger", "event", "method", "route", "status", "from")
        assert {name: example.get(name) for name in constant} == {name: line.get(name) for name in constant}
        assert example["message"].replace("started, queued", "started, running") == line["message"]


def test_the_commands_find_a_request_and_a_run_between_lines_that_are_not_json(
    reader: Reader, lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("needs jq")
    log = reader.log().rpartition("\n")[0]
    (tmp_path / "journal").write_text("\n".join([*PLAIN, log, *PLAIN, ""]), encoding="utf-8")
    said = []
    for command in COMMANDS.splitlines():
        asked = command.replace(REQUEST_ID, lines[0]["request_id"]).replace(RUN_ID, reader.run_id)
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"journalctl() {{ cat journal; }}\n{asked}"],
            cwd=tmp_path,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        said.append(ended.stdout.splitlines())
    request, run, failures = said
    assert {json.loads(line)["event"] for line in request} >= {"request", "run"}
    assert "run running -> completed" in {line.split("\t")[2] for line in run}
    assert all(json.loads(line)["status"] >= 500 for line in failures)
