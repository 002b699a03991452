"""`workflow-api run`: a workflow from its file, without a server."""

import json
import os
import signal
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
---
kind: Agent
name: telling
type: python
code: "def run(context): return 7"
---
kind: Workflow
name: Mismatch
steps: [{step: tell, agent: telling, environment: elsewhere}]
result: {step: tell, schema: {type: string}}
"""


SLOW = """
kind: Agent
name: waiting
type: python
code: |
  import time
  def run(context):
      print("halfway")
      time.sleep(240)
---
kind: Workflow
name: Wait
steps: [{step: wait, agent: waiting, environment: elsewhere}]
"""
NEEDLESS = {
    *("aiohttp", "alembic", "argon2", "boto3", "botocore", "cryptography", "dbos", "grpc_reflection.v1alpha"),
    *("http.server", "httptools", "jinja2", "packaging", "prometheus_client", "psycopg", "pyarrow", "pydantic_ai"),
    *("pyoxigraph", "redis", "rich", "sqlalchemy.dialects.postgresql", "yarl"),
    *("redaction.redactor", "backend.rpc.server", "deploy.serve.embedded", "console.app", "edge.server"),
}
"""Modules for what a run does only where it is asked to, and that take a while to import."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the first command fills, by migrations, for all."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    (tmp_path / "flow.yaml").write_text(MANIFEST)
    (tmp_path / "environments.yaml").write_text("kind: Environment\nname: elsewhere\n---\nkind: Broken\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "documents" / "deep").mkdir(parents=True)
    (tmp_path / "documents" / "a.txt").write_text("one")
    (tmp_path / "documents" / "deep" / "b ü.txt").write_text("two")
    return tmp_path


def variables() -> dict[str, str]:
    """The environment without settings of a service and credentials."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "WORKFLOW_API_"))}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the workflow of `flow.yaml` in a process of its own, without a terminal."""
    command = [str(Path(sys.executable).parent / "workflow-api"), "run", "flow.yaml", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=variables(),
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


def test_a_result_that_does_not_fit_its_schema_fails_the_command(folder: Path) -> None:
    failed = run(folder, "--workflow", "Mismatch")
    assert failed.returncode == 1, failed.stderr
    assert "result: " in failed.stderr


def test_json_has_the_log_of_a_step_that_fails(folder: Path) -> None:
    failed = run(folder, "--workflow", "Fail", "--json")
    (failure,) = json.loads(failed.stdout)["failures"]
    assert (failure["step"], failure["attempt"]) == ("fail", 1)
    assert failure["log"].startswith("about to fail\n")
    assert failure["log"].endswith("ValueError: no good")


@pytest.mark.parametrize("option", ["--logs", "--no-logs"])
def test_a_line_of_a_step_that_fails_is_shown_once(folder: Path, option: str) -> None:
    assert run(folder, "--workflow", "Fail", option).stderr.count("fail | about to fail\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_step_prints_is_shown_while_it_runs_and_an_interrupted_run_leaves_nothing(
    folder: Path, number: signal.Signals
) -> None:
    (folder / "flow.yaml").write_text(SLOW)
    command = [str(Path(sys.executable).parent / "workflow-api"), "run", "flow.yaml"]
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "wait | halfway\n" in iter(process.stderr.readline, "")
        assert list(temporary.iterdir())
        process.send_signal(number)
    assert process.returncode == 130
    assert list(temporary.iterdir()) == []


def test_a_run_imports_nothing_that_it_does_not_need(folder: Path) -> None:
    (folder / "flow.yaml").write_text(SLOW.replace("time.sleep(240)", "pass"))
    code = (
        "import json, sys; from deploy.cli.main import run; assert run(['run', 'flow.yaml']) == 0;"
        "print(json.dumps([name for name in sys.modules]))"
    )
    for _ in range(2):
        # The first fills the cache, by migrations.
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    assert imported & NEEDLESS == set()


def test_without_a_terminal_an_approval_needs_an_answer(folder: Path) -> None:
    asked = run(folder, *READ)
    assert (asked.returncode, "give --approve yes or --approve no" in asked.stderr) == (1, True)
    assert "running" not in asked.stderr
    rejected = run(folder, *READ, "--approve", "no", "--json")
    record = json.loads(rejected.stdout)
    assert (rejected.returncode, record["status"], record["error"]["code"]) == (1, "failed", "invariant_blocked")
    assert record["triggered_by"] == "console"
    assert rejected.stderr == ""


# Each is told before anything runs, so one process serves for all.
MISTAKES = [
    ((), "choose one with --workflow, of 'Read', 'Fail'"),
    (("--workflow", "Other"), "the files have no workflow 'Other', but 'Read', 'Fail'"),
    ((*READ[:4], "--input", "papers=documents"), "--input papers: must be an s3_prefix parameter, of documents"),
    ((*READ[:4], "--input", "documents=nowhere"), "documents: nowhere is no folder"),
    ((*READ[:4], "--input", "documents=empty"), "documents: the folder empty holds no file"),
    (READ[:2], "give --input documents=DIR"),
    ((*READ, "--param", "top=x"), "top is given twice"),
    ((*READ, "--out", "flow.yaml/left"), "flow.yaml is no folder"),
    # Before its connector is asked, which would take longer.
    ((*READ[:2], "--param", "top=x", "--param", "documents=s3://b/"), "--param top: must be a whole number"),
    (("--workflow", "Read", "--param", "top=x", *READ[4:]), "--param top: must be a whole number, not 'x'"),
    ((*READ[:2], *READ[4:]), "--param top: is required"),
]
ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from deploy.cli.main import run
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["run", "flow.yaml", *arguments])
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def test_a_mistake_is_told_in_words_of_the_options(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER],
        cwd=folder,
        env=variables(),
        input=json.dumps([arguments for arguments, _ in MISTAKES]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(MISTAKES), done.stderr
    for (_, message), (code, out, err) in zip(MISTAKES, outcomes, strict=True):
        assert message in err
        assert (code in {1, 2}, out, "read  running" in err) == (True, "", False)
