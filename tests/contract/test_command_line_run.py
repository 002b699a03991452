"""`workflow-api run`: a workflow from its file, without a server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MANIFEST = """
kind: Connector
name: inbox
type: s3
bucket: contracts
prefixes: [incoming/]
---
kind: Agent
name: reader
type: python
code: |
  def run(context):
      files = sorted(path for path in (context.inputs / "documents").rglob("*") if path.is_file())
      (context.outputs / "names.txt").write_text(" ".join(path.name for path in files))
      return {"texts": [path.read_text() for path in files], "top": context.parameters["top"]}
---
kind: Agent
name: failing
type: python
code: |
  def run(context):
      print("about to fail")
      raise ValueError("no good")
---
kind: Workflow
name: Read
parameters:
  - {name: documents, type: s3_prefix, connector: inbox, required: true}
  - {name: top, type: integer, required: true}
steps:
  - {step: read, agent: reader, environment: elsewhere}
  - {step: review, approval: {title: Right}, needs: [read]}
result: {step: read}
---
kind: Workflow
name: Fail
steps:
  - {step: fail, agent: failing, environment: elsewhere}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.yaml").write_text(MANIFEST)
    (tmp_path / "environments.yaml").write_text("kind: Environment\nname: elsewhere\n---\nkind: Broken\n")
    (tmp_path / "documents" / "deep").mkdir(parents=True)
    (tmp_path / "documents" / "a.txt").write_text("one")
    (tmp_path / "documents" / "deep" / "b ü.txt").write_text("two")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the workflow of `flow.yaml` in a process of its own, without a terminal."""
    command = [str(Path(sys.executable).parent / "workflow-api"), "run", "flow.yaml", *arguments]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WORKFLOW_API_"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**variables, "XDG_CACHE_HOME": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


READ = ("--workflow", "Read", "--param", "top=2", "--input", "documents=documents")


def test_a_folder_takes_the_place_of_object_storage_and_the_result_alone_is_printed(folder: Path) -> None:
    done = run(folder, *READ, "--approve", "yes", "--out", "out")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"texts": ["one", "two"], "top": 2}), done.stderr
    assert (folder / "out" / "read" / "names.txt").read_text() == "a.txt b ü.txt"
    assert "Environment elsewhere from environments.yaml" in done.stderr


def test_a_step_that_fails_shows_its_log(folder: Path) -> None:
    failed = run(folder, "--workflow", "Fail")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "fail | about to fail" in failed.stderr
    assert "fail | ValueError: no good" in failed.stderr


def test_without_a_terminal_an_approval_needs_an_answer(folder: Path) -> None:
    asked = run(folder, *READ)
    assert (asked.returncode, "give --approve yes or --approve no" in asked.stderr) == (1, True)
    rejected = run(folder, *READ, "--approve", "no", "--json")
    record = json.loads(rejected.stdout)
    assert (rejected.returncode, record["status"], record["error"]["code"]) == (1, "failed", "invariant_blocked")
    assert record["triggered_by"] == "console"
    assert rejected.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "choose one with --workflow, of 'Read', 'Fail'"),
        (("--workflow", "Other"), "the files have no workflow 'Other', but 'Read', 'Fail'"),
        ((*READ[:4], "--input", "papers=documents"), "--input papers: must be an s3_prefix parameter, of documents"),
        ((*READ[:4], "--input", "documents=nowhere"), "documents: nowhere is no folder"),
        (READ[:2], "give --input documents=DIR"),
        ((*READ, "--param", "top=x"), "top is given twice"),
        (("--workflow", "Read", "--param", "top=x", *READ[4:]), "--param top: must be a whole number, not 'x'"),
        ((*READ[:2], *READ[4:]), "--param top: is required"),
    ],
)
def test_a_mistake_is_told_in_words_of_the_options(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    refused = run(folder, *arguments)
    assert refused.returncode in {1, 2}
    assert message in refused.stderr
    assert refused.stdout == ""
