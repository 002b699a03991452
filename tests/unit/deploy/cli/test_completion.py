import os
import subprocess
from pathlib import Path

import pytest

from deploy.cli.completion import SCRIPTS, completions, split_line
from deploy.cli.main import COMMANDS, command_line
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import runs_pb2, workflows_pb2


def complete(line: str) -> list[str]:
    return [candidate.value for candidate in completions(line, lambda name: command_line([name]))]


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("workflow-api ", (["workflow-api"], "")),
        ("workflow-api ru", (["workflow-api"], "ru")),
        ("workflow-api runs start Text\\ di", (["workflow-api", "runs", "start"], "Text di")),
        ("workflow-api runs start 'Text di", (["workflow-api", "runs", "start"], "Text di")),
        ('workflow-api runs start "Text ', (["workflow-api", "runs", "start"], "Text ")),
    ],
)
def test_a_line_is_split_as_a_shell_does_up_to_the_cursor(line: str, split: tuple[list[str], str]) -> None:
    assert split_line(line) == split


def test_commands_options_and_listed_values_are_completed_without_a_backend() -> None:
    assert complete("workflow-api ") == [module.name for module in COMMANDS]
    assert complete("workflow-api runs ca") == ["cancel"]
    assert complete("workflow-api runs start --w") == ["--wait"]
    assert complete("workflow-api users add ana --role ") == ["administrator", "operator", "approver", "viewer"]
    assert complete("workflow-api completion f") == ["fish"]
    assert complete("workflow-api apply ") == []
    assert complete("workflow-api nothing x") == []


def test_ids_and_names_are_those_that_the_backend_knows(backend: FakeBackend) -> None:
    workflow = workflows_pb2.Workflow(workflow_id="wf_1", name="Text digest")
    backend.answers["ListWorkflows"] = workflows_pb2.ListWorkflowsResponse(items=[workflow])
    run = runs_pb2.RunSummary(run_id="run_1", workflow_name="Text digest", status=runs_pb2.RUN_STATUS_RUNNING)
    backend.answers["ListRuns"] = runs_pb2.ListRunsResponse(items=[run])
    resource = workflows_pb2.Resource(name="counter", type="python")
    backend.answers["ListResources"] = workflows_pb2.ListResourcesResponse(items=[resource])
    at = f"--grpc {backend.address}"
    assert complete(f"workflow-api runs start {at} te") == ["Text digest"]
    assert complete(f"workflow-api runs start {at} wf_") == ["wf_1"]
    assert complete(f"workflow-api runs list {at} --workflow ") == ["Text digest"]
    assert complete(f"workflow-api runs list {at} --workflow wf_") == ["wf_1"]
    assert complete(f"workflow-api runs events run_1 {at} --segment ") == []
    assert complete(f"workflow-api runs show {at} ") == ["run_1"]
    assert complete(f"workflow-api agents show {at} c") == ["counter"]
    assert complete(f"workflow-api agents show {at} counter ") == []


def test_a_backend_that_does_not_answer_leaves_nothing_to_choose() -> None:
    assert complete("workflow-api runs show --grpc 127.0.0.1:1 ") == []


def test_a_shell_completes_by_the_script(tmp_path: Path) -> None:
    (tmp_path / "workflow-api").write_text('#!/bin/sh\nprintf "%s\\thelp\\n" "$_WORKFLOW_API_COMPLETE" "a b"\n')
    (tmp_path / "workflow-api").chmod(0o755)
    lines = [
        SCRIPTS["bash"],
        'COMP_LINE="workflow-api x y"; COMP_POINT=14; COMP_WORDS=(workflow-api x); COMP_CWORD=1; _workflow_api',
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["workflow-api\\ x", "a\\ b"]


def test_another_shell_is_refused() -> None:
    refused = command("completion", "csh")
    assert (refused.code, "must be one of bash, zsh, fish, not 'csh'" in refused.err) == (2, True)
