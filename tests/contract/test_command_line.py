"""The administrator's commands, against a started service."""

import json
import os
import pwd
import signal
import subprocess
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from deploy.cli.main import run
from tests.conftest import NewDatabase
from tests.contract.conftest import NewCaller
from tests.support.admin import SCOPES, Credentials
from tests.support.client import Caller
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.part import COMMAND
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1 import audit_pb2

pytestmark = pytest.mark.long

BUGGY = """
kind: Environment
name: standard
---
kind: Agent
name: loads
type: python
code: |
  def run(context):
      print("loaded \\x1b[31m2\\x1b[0m rows")
      return [{"amount": 1}, {"amount": 2}]
---
kind: Agent
name: adds
type: python
code: |
  def run(context):
      return sum(row["amuont"] for row in context.needs["load"])
---
kind: Workflow
name: Buggy
status: active
steps:
  - {step: load, agent: loads, environment: standard}
  - {step: add, agent: adds, environment: standard, needs: [load]}
"""
ASKING = """
kind: Agent
name: asker
type: llm
model: openai:gpt-5
base_url: ADDRESS
instructions: Be brief.
tools: [files]
keep_transcript: true
---
kind: Agent
name: asking-counter
type: python
code: "def run(context): return 1"
---
kind: Workflow
name: Asks a model
status: active
steps:
  - {step: count, agent: asking-counter}
  - {step: ask, agent: asker, needs: [count]}
"""
REVIEWED = """
kind: Environment
name: standard
---
kind: Agent
name: tabulates
type: python
code: |
  def run(context):
      (context.outputs / "t.csv").write_text("mail,n\\njane.roe@example.com,1\\n")
      return {"rows": 1}
---
kind: Workflow
name: Reviewed
status: active
pii_policy: {mode: redact}
steps:
  - {step: count, agent: tabulates, environment: standard}
  - {step: review, approval: {title: Check the table}, needs: [count]}
"""

MISTAKEN = """kind: Workflow
name: Mistaken
description: 'not closed
status: draft
steps:
- step: one
  agent echo
- step: two
  agent: echo
max_concurrency: 2
pii_policy: {mode: off
retention_days: 3
---
kind: Environment
name: cli-sound-but-small
network: none
memory_mb: 1
"""


EXPORTED = """
kind: Environment
name: small
memory_mb: 2000
---
kind: Connector
name: store
type: s3
bucket: papers
endpoint_url: https://s3.example.org
---
kind: Agent
name: a b
type: python
code: |
  def run(context):
      return "${vars}"
---
kind: Agent
name: A/b
type: python
code: "def run(context): return 2"
---
kind: Agent
name: foldered
type: python
source: lib
entrypoint: main:run
---
kind: Workflow
name: Off duty
status: active
parameters: [{name: count, type: integer, default: 3}]
schedules: [{name: nightly, cron: "0 2 * * *", paused: true}]
steps:
  - {step: one, agent: a b, environment: small}
  - {step: two, agent: foldered, environment: small, needs: [one], when: "parameters.count > 2"}
  - {step: three, agent: A/b, environment: small, needs: [two]}
result: {step: three}
"""


class CommandLine:
    """Runs commands against one service, with no terminal and nothing on standard input, and without their processes.

    That a process of its own reads, prints and ends as each of these does, the tests show that start some.
    """

    def __init__(self, service: Service) -> None:
        self.address = service.ready["grpc"]
        self.environment = {**os.environ, "WORKFLOW_API_GRPC": self.address}

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("WORKFLOW_API_GRPC", self.address)
            patch.setattr(sys, "stdin", stack.enter_context(Path(os.devnull).open(encoding="utf-8")))
            said, failed = (stack.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in range(2))
            with redirect_stdout(said), redirect_stderr(failed):
                returned = run(arguments)
            for file in (said, failed):
                file.seek(0)
            ended = subprocess.CompletedProcess(arguments, returned, said.read(), failed.read())
        assert ended.returncode == code, (ended.stdout, ended.stderr)
        return ended

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def error(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json", code=1).stderr)["error"]


@pytest.fixture
def command(service: Service) -> CommandLine:
    return CommandLine(service)


def caller_of(service: Service, key: dict[str, Any]) -> Caller:
    return service.caller(Credentials(key["key_id"], key["key"], key["external_id"]))


def test_a_key_lives_from_create_to_delete(service: Service, command: CommandLine) -> None:
    made = command.json("keys", "create", "--name", "cli", "--scopes", ",".join(SCOPES), "--rpm", "1000")
    key_id = made["key_id"]
    caller = caller_of(service, made)
    assert caller.get("/me").json()["rate_limit_rpm"] == 1000

    assert command.json("keys", "edit", key_id, "--rpm", "500", "--name", "renamed")["name"] == "renamed"
    until(lambda: caller.get("/me").json()["rate_limit_rpm"] == 500, "the new limit")

    rotated = command.json("keys", "rotate", key_id, "--overlap", "1h")
    assert rotated["key"].startswith(f"{key_id}.")
    assert "external_id" not in rotated
    caller_of(service, {**made, "key": rotated["key"]})
    assert caller.get("/me").status == 200

    issued = command.json("keys", "new-external-id", key_id)
    assert "key" not in issued
    caller_of(service, {**made, "external_id": issued["external_id"]})

    assert command.json("keys", "revoke", key_id)["state"] == "revoked"
    until(lambda: caller.get("/me").status == 401, "the revocation")
    assert command.json("keys", "delete", key_id) == {"key_id": key_id, "deleted": True}
    assert key_id not in {item["key_id"] for item in command.json("keys", "list")["items"]}


def test_a_key_carries_every_property(command: CommandLine, flows: dict[str, str]) -> None:
    made = command.json(
        *("keys", "create", "--name", "full", "--description", "all of it", "--scopes", "runs:read,outputs:read"),
        *("--workflows", flows["Echo"], "--cidr", "10.0.0.0/8", "--cidr", "2001:db8::/32", "--hours", "22-6"),
        *("--expires-days", "365", "--rpm", "7", "--daily-quota", "8", "--max-concurrent", "9"),
    )

    shown = command.json("keys", "show", made["key_id"])

    assert {name: made[name] for name in shown} == shown
    assert shown["description"] == "all of it"
    assert shown["scopes"] == ["runs:read", "outputs:read"]
    assert shown["workflow_access"] == {"mode": "explicit", "workflow_ids": [flows["Echo"]]}
    assert shown["source_allow_list"] == ["10.0.0.0/8", "2001:db8::/32"]
    assert shown["allowed_hours"] == {"start_hour": 22, "end_hour": 6}
    assert (shown["rate_limit_rpm"], shown["daily_run_quota"], shown["max_concurrent_runs"]) == (7, 8, 9)

    freed = command.json("keys", "edit", made["key_id"], "--cidr", "any", "--hours", "any", "--workflows", "all")
    assert freed["source_allow_list"] == []
    assert freed["allowed_hours"] is None
    assert freed["workflow_access"] == {"mode": "all_active", "workflow_ids": []}


def test_a_secret_is_shown_once_only(command: CommandLine) -> None:
    made = command.json("keys", "create", "--name", "once", "--scopes", "runs:read")
    secret = made["key"].partition(".")[2]

    later = command("keys", "show", made["key_id"], "--json").stdout + command("keys", "list", "--json").stdout

    assert secret not in later
    assert made["external_id"] not in later


def test_all_violated_bounds_of_a_key_are_reported_together(command: CommandLine) -> None:
    error = command.error(
        *("keys", "create", "--name", "n" * 101, "--scopes", "runs:read", "--rpm", "10001", "--daily-quota", "0")
    )
    assert error["code"] == "invalid_request"
    assert {problem["name"] for problem in error["details"]} == {"name", "rate_limit_rpm", "daily_run_quota"}


def test_runs_create_brings_workflows_read_with_it(command: CommandLine) -> None:
    made = command.json("keys", "create", "--name", "starter", "--scopes", "runs:create")
    assert made["scopes"] == ["workflows:read", "runs:create"]
    edited = command.json("keys", "edit", made["key_id"], "--scopes", "runs:create,runs:read")
    assert edited["scopes"] == ["workflows:read", "runs:create", "runs:read"]


@pytest.mark.parametrize("name", [" ", "two\nlines", "\x1b[31mred"])
def test_a_name_that_a_key_cannot_have_is_refused(command: CommandLine, name: str) -> None:
    (problem,) = command.error("keys", "create", "--name", name, "--scopes", "runs:read")["details"]
    assert problem == {
        "name": "name",
        "reason": "must be 1 to 100 characters, without control characters and not blank alone",
    }


def test_an_unknown_key_is_not_found(command: CommandLine) -> None:
    assert command.error("keys", "show", "ak_000000000000")["code"] == "not_found"


def test_usage_shows_refusals(command: CommandLine, new_caller: NewCaller) -> None:
    caller = new_caller(scopes=["runs:read"])
    assert caller.get("/workflows").status == 403

    def refusal() -> Any:
        items = command.json("keys", "usage", caller.key_id)["items"]
        return next((item for item in items if item["status"] == 403), None)

    record = until(refusal, "the usage record", every=0.2)
    assert (record["route"], record["reason"], record["method"]) == ("/workflows", "forbidden", "GET")


def test_usage_is_counted_by_the_hour(command: CommandLine, new_caller: NewCaller) -> None:
    caller = new_caller(scopes=["runs:read"])
    for _ in range(3):
        assert caller.get("/runs").status == 200

    def counted() -> bool:
        items = command.json("keys", "usage", caller.key_id, "--by-hour")["items"]
        return sum(int(item["calls"]) for item in items if item["route"] == "/runs") == 3

    until(counted, "the counts of the hour", every=0.2)


def test_upkeep_by_hand_prints_what_it_deleted(command: CommandLine) -> None:
    done = command.json("deployment", "upkeep")
    records = {
        "idempotency_records",
        "usage_records",
        "usage_batches",
        "usage_hours",
        "model_usage",
        "model_usage_days",
        "audit_records",
        "sessions",
        "sign_in_tries",
    }
    kept = {"step_log_parts", "agent_sources", "environment_locks", "webhook_deliveries", "deleted_definitions"} | {
        "notifications"
    }
    assert set(done) == {"runs_erased", *records, *kept, "more"}


def test_changes_are_audited_under_the_users_name(service: Service, command: CommandLine) -> None:
    key_id = command.json("keys", "create", "--name", "audited", "--scopes", "runs:read")["key_id"]

    audit = service.admin.audit.ListAuditRecords(audit_pb2.ListAuditRecordsRequest(target=key_id))

    assert [record.actor for record in audit.items] == [pwd.getpwuid(os.geteuid()).pw_name]


def test_apply_creates_then_changes_nothing_then_updates(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    manifest = "kind: Agent\nname: cli-agent\ntype: python\ncode: |\n  def run(context):\n      return {}\n"
    outcomes = []
    for content in (manifest, manifest, manifest.replace("{}", "1")):
        file.write_text(content)
        (item,) = command.json("apply", str(file))["items"]
        outcomes.append((item["outcome"], item["version"]))
    assert outcomes == [("created", 1), ("unchanged", 1), ("updated", 2)]


def test_apply_prints_every_problem_with_file_line_and_field(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(
        "kind: Environment\nname: cli-broken\nmemory_mb: 1\n---\nkind: Agent\nname: cli-broken\ntype: python\n"
    )

    ended = command("apply", str(file), code=1)

    lines = ended.stderr.splitlines()
    assert len(lines) == 2
    assert "broken.yaml" in lines[0]
    assert "3" in lines[0]
    assert "memory_mb" in lines[0]
    assert "code" in lines[1]


@pytest.mark.parametrize("verb", ["apply", "validate"])
def test_mistakes_of_yaml_apart_from_each_other_are_told_with_those_of_other_documents(
    command: CommandLine, tmp_path: Path, verb: str
) -> None:
    file = tmp_path / "mistaken.yaml"
    file.write_text(MISTAKEN)

    ended = command(verb, str(file), code=1)

    places = [line.removeprefix(f"{file}:").split(": ", 2)[:2] for line in ended.stderr.splitlines()]
    assert places == [["3", "document"], ["7", "document"], ["11", "document"], ["17", "memory_mb"]]
    assert ended.stderr.count("must be YAML: ") == 3
    assert "Error:" not in ended.stderr


def test_apply_reads_standard_input(service: Service, command: CommandLine) -> None:
    manifest = b"kind: Environment\nname: cli-piped\n"
    ended = subprocess.run(
        [COMMAND, "apply", "-", "--json"], env=command.environment, input=manifest, capture_output=True, check=True
    )
    assert json.loads(ended.stdout)["items"][0]["name"] == "cli-piped"


def test_a_workflow_is_set_inactive_and_active(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Workflow\nname: CLI switch\nstatus: active\nsteps: []\n")
    (item,) = command.json("apply", str(file))["items"]

    assert command.json("workflows", "deactivate", "CLI switch")["status"] == "inactive"
    assert command.json("workflows", "activate", item["id"])["status"] == "active"
    assert command.json("workflows", "show", "CLI switch")["definition"]["name"] == "CLI switch"
    listed = command.json("workflows", "list", "--q", "cli sw")["items"]
    assert [(flow["workflow_id"], flow["status"]) for flow in listed] == [(item["id"], "active")]


def test_a_workflow_goes_back_to_a_version_with_its_agents(command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    agent = "kind: Agent\nname: cli-back\ntype: python\ncode: 'def run(context): return 1'\n"
    flow = "---\nkind: Workflow\nname: CLI back\nstatus: active\nsteps: [{step: a, agent: cli-back}]\n"
    for number in (1, 2):
        file.write_text(agent.replace("return 1", f"return {number}") + flow)
        command("apply", str(file))

    planned = command("workflows", "activate", "CLI back", "--version", "1", "--dry-run").stdout
    assert "-  Agent cli-back: version 2" in planned
    assert "+code: 'def run(context): return 1'" in planned
    assert planned.endswith("Nothing was changed: this was a dry run.\n")
    assert command.json("workflows", "show", "CLI back")["version"] == 2
    done = command.json("workflows", "activate", "CLI back", "--version", "1")
    assert (done["workflow"]["version"], done["pinned"][0]["version"]) == (3, 1)
    assert command.json("workflows", "show", "CLI back")["resources"][0]["version"] == 1
    assert command.json("agents", "show", "cli-back")["version"] == 2
    assert command.error("workflows", "activate", "CLI back", "--version", "9")["code"] == "version_not_found"


def test_the_code_of_a_folder_is_downloaded_again(command: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "given" / "agents" / "lib"
    folder.mkdir(parents=True)
    (folder / "words.txt").write_text("one")
    (folder.parent / "main.py").write_text("def run(context):\n    return 1\n")
    file = tmp_path / "given" / "agent.yaml"
    file.write_text("kind: Agent\nname: cli-folder\ntype: python\nsource: agents\nentrypoint: main:run\n")
    command("apply", str(file))

    out = tmp_path / "out"
    written = command.json("agents", "show", "cli-folder", "--download", str(out))["files"]
    assert sorted(written) == [str(out / "lib" / "words.txt"), str(out / "main.py")]
    assert (out / "main.py").read_bytes() == (folder.parent / "main.py").read_bytes()
    assert "must be empty" in command.error("agents", "show", "cli-folder", "--download", str(out))["message"]


def test_exported_definitions_apply_again_without_a_new_version(tmp_path: Path, new_database: NewDatabase) -> None:
    given = tmp_path / "given"
    (given / "lib").mkdir(parents=True)
    (given / "lib" / "main.py").write_text("def run(context):\n    return 1\n")
    (given / "flow.yaml").write_text(EXPORTED)
    service = Service(tmp_path, database=new_database())
    service.start()
    try:
        command = CommandLine(service)
        command("apply", str(given / "flow.yaml"))
        command("workflows", "deactivate", "Off duty")

        out = tmp_path / "out"
        items = command.json("export", str(out))["items"]
        again = command.json("apply", *(item["file"] for item in items))["items"]
        told = command("export", str(tmp_path / "told")).stdout
        command("apply", "--set", "night-shift", str(out / "workflows" / "Off-duty.yaml"))
        with_set = command("export", str(tmp_path / "owned")).stdout.splitlines()
        refused = command.error("export", str(out))
    finally:
        service.stop()

    assert {(item["kind"], item["outcome"]) for item in again} == {
        (kind, "unchanged") for kind in ("Environment", "Agent", "Workflow", "Connector")
    }
    assert [item["version"] for item in again] == [item["version"] for item in items]
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files >= {
        "agents/A-b.yaml",
        "agents/a-b-2.yaml",
        "agents/foldered/agent.yaml",
        "agents/foldered/lib/main.py",
        "workflows/Off-duty.yaml",
    }
    assert "status: inactive\n" in (out / "workflows" / "Off-duty.yaml").read_text()
    assert f"{tmp_path / 'told' / 'agents'}/*.yaml" in told
    assert str(tmp_path / "told" / "agents" / "foldered" / "agent.yaml") in told
    owned = tmp_path / "owned" / "sets" / "night-shift" / "workflows"
    assert with_set[-1] == f"workflow-api apply --set night-shift {owned}/*.yaml"
    assert [path.name for path in owned.iterdir()] == ["Off-duty.yaml"]
    assert "must be empty" in refused["message"]


def test_an_export_of_no_definitions_writes_nothing(tmp_path: Path, new_database: NewDatabase) -> None:
    service = Service(tmp_path, database=new_database())
    service.start()
    try:
        printed = CommandLine(service)("export", str(tmp_path / "out")).stdout
    finally:
        service.stop()

    assert printed == "The deployment has no definitions; nothing is written.\n"
    assert not (tmp_path / "out").exists()


def test_a_definition_is_deleted_unless_it_is_used(service: Service, command: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    agent = "kind: Agent\nname: cli-gone\ntype: python\ncode: 'def run(context): return 1'\n"
    flow = "---\nkind: Workflow\nname: CLI gone\nstatus: active\nsteps: [{step: a, agent: cli-gone}]\n"
    file.write_text(agent + flow)
    command("apply", str(file))
    workflow_id = command.json("workflows", "show", "CLI gone")["workflow"]["workflow_id"]
    key = command.json("keys", "create", "--name", "deleter", "--scopes", "runs:create,runs:read")
    caller = caller_of(service, key)
    run_id = caller.started(workflow_id)
    until(lambda: caller.get(f"/runs/{run_id}").json()["status"] == "completed", "the end of the run")

    assert "workflow 'CLI gone'" in command.error("delete", "agent", "cli-gone")["message"]
    assert command("delete", "workflow", "CLI gone").stdout == f"The workflow CLI gone ({workflow_id}) is deleted.\n"
    deleted = command.json("delete", "agent", "cli-gone")
    assert (deleted["kind"], deleted["name"], deleted["deleted"]) == ("agent", "cli-gone", True)
    gone = caller.get(f"/workflows/{workflow_id}")
    assert (gone.status, gone.json()["error"]["code"]) == (404, "workflow_not_found")
    started = caller.start(workflow_id)
    assert (started.status, started.json()["error"]["code"]) == (404, "workflow_not_found")
    assert workflow_id not in {item["workflow_id"] for item in caller.get("/workflows").json()["items"]}
    run = caller.get(f"/runs/{run_id}")
    assert (run.status, run.json()["workflow_name"], run.json()["version"]) == (200, "CLI gone", 1)
    assert caller.get(f"/runs/{run_id}/steps").status == 200
    shown = command.json("workflows", "show", workflow_id, "--version", "1")
    assert shown["deleted_at"] is not None
    assert "There is no workflow named CLI gone." in command.error("delete", "workflow", "CLI gone")["message"]
    assert "must be one of: workflow, agent" in command("delete", "run", "x", code=2).stderr
    (again,) = [item for item in command.json("apply", str(file))["items"] if item["kind"] == "Workflow"]
    assert (again["version"], again["outcome"]) == (1, "created")
    assert again["id"] != workflow_id


def test_a_run_is_listed_shown_and_replayed(command: CommandLine, echo_run: dict[str, Any]) -> None:
    run_id = echo_run["run_id"]

    assert run_id in {item["run_id"] for item in command.json("runs", "list", "--status", "completed")["items"]}
    assert command.json("runs", "show", run_id) == echo_run
    sheet = command("runs", "show", run_id).stdout
    assert "completed" in sheet
    events = command.json("runs", "events", run_id)["events"]
    lines = command("runs", "events", run_id, "--follow", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [event["seq"] for event in events]


def test_an_approval_starts_a_segment_that_follow_sees(
    command: CommandLine, caller: Caller, flows: dict[str, str]
) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    following = subprocess.Popen(
        [COMMAND, "runs", "events", run_id, "--follow", "--json"],
        env=command.environment,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    pending = command.json("approvals", "list")["items"]
    (approval_id,) = [item["approval_id"] for item in pending if item["run_id"] == run_id]

    decided = command.json("approvals", "approve", approval_id, "--comment", "fine")

    assert decided["run_id"] == run_id
    out, _ = following.communicate(timeout=60)
    events = [json.loads(line) for line in out.splitlines()]
    assert following.returncode == 0
    assert len({event["segment_id"] for event in events}) == 2
    assert events[-1]["type"] in {"segment.ended", "run.completed"}
    again = command.error("approvals", "approve", approval_id)
    assert again["code"] in {"not_found", "invalid_request"}


def test_a_bug_is_found_in_the_log_of_the_step_that_failed(
    service: Service, command: CommandLine, caller: Caller
) -> None:
    (workflow_id,) = service.admin.apply(BUGGY).values()
    run_id = caller.started(workflow_id)
    followed = command("runs", "logs", run_id, "--follow").stdout
    assert followed.startswith("==> load, attempt 1 <==\nloaded \\x1b[31m2\\x1b[0m rows\n\n==> add, attempt 1 <==\n")
    log = command("runs", "logs", run_id, "--step", "add", "--attempt", "1").stdout
    assert log.startswith("Traceback (most recent call last):\n")
    assert log.endswith("KeyError: 'amuont'\n")
    lines = command("runs", "logs", run_id, "--step", "add", "--json").stdout.splitlines()
    assert "".join(json.loads(line)["text"] for line in lines) == log
    wrong = command.error("runs", "logs", run_id, "--step", "ad")
    assert wrong["details"] == [{"name": "step", "reason": "must be one of the steps that agents carry out: load, add"}]
    assert "--step: must be one of" in command("runs", "logs", run_id, "--step", "ad", code=1).stderr
    assert command.error("runs", "logs", "run_none")["code"] == "run_not_found"
    assert "name it with --step" in command("runs", "logs", run_id, "--attempt", "1", code=2).stderr


def test_the_messages_of_a_model_are_for_people_alone(service: Service, command: CommandLine, caller: Caller) -> None:
    provider = OpenAIServer()
    try:
        provider.will(Reply("Let me see.", calls=(ToolCall("list_files", {}),)), Reply("Two words."))
        (workflow_id,) = service.admin.apply(ASKING.replace("ADDRESS", provider.base_url)).values()
        run_id = caller.started(workflow_id)
        followed = command("runs", "logs", run_id, "--model", "--follow").stdout
    finally:
        provider.close()
    assert followed.startswith("==> ask, attempt 1 <==\n--- instructions\n  Be brief.\n")
    assert "--- answer\n  Let me see.\n--- call of list_files\n" in followed
    shown = command("runs", "logs", run_id, "--model", "--step", "ask", "--attempt", "1").stdout
    assert followed.endswith(shown)
    lines = command("runs", "logs", run_id, "--model", "--json").stdout.splitlines()
    assert "".join(json.loads(line)["text"] for line in lines) == shown
    assert "Let me see." not in command("runs", "logs", run_id).stdout
    assert command("runs", "logs", run_id, "--model", "--step", "count").stdout == "No messages of a model are kept.\n"
    assert caller.wait(run_id)["status"] == "completed"
    public = [caller.run(run_id), caller.events(run_id), caller.outputs(run_id)]
    assert "Let me see." not in json.dumps(public) + caller.get(f"/runs/{run_id}/steps").body.decode()
    assert caller.get(f"/runs/{run_id}/logs").status == caller.get(f"/runs/{run_id}/transcripts").status == 404


def test_an_approval_is_shown_with_what_it_is_about_and_who_decided_it(
    service: Service, command: CommandLine, caller: Caller
) -> None:
    (workflow_id,) = service.admin.apply(REVIEWED).values()
    run_id = caller.parked(workflow_id, input_text="to jane.roe@example.com", client_reference="order-7")["run_id"]
    (item,) = [each for each in command.json("approvals", "list")["items"] if each["run_id"] == run_id]
    assert (item["client_reference"], item["triggered_by"], item["waiting_ms"] >= 0) == ("order-7", "api_key", True)

    sheet = command("approvals", "show", item["approval_id"]).stdout

    assert "order-7" in sheet
    assert "mail             n\n[EMAIL_ADDRESS]  1\n" in sheet
    assert "to [EMAIL_ADDRESS]" in sheet
    assert "jane.roe" not in sheet
    shown = command.json("approvals", "show", item["approval_id"])
    assert shown["material"]["steps"][0]["value"] == {"text": '{"rows":1}', "cut": False}
    command("approvals", "approve", item["approval_id"])
    shown = command.json("approvals", "show", item["approval_id"])
    assert (shown["state"], shown["decided_by"]) == ("approved", pwd.getpwuid(os.geteuid()).pw_name)
    assert shown["material"] is None
    caller.wait(run_id)
    assert shown["decided_by"] not in json.dumps(caller.events(run_id)["events"])
    assert command.error("approvals", "show", "apr_none")["code"] == "not_found"


def test_people_are_added_listed_and_disabled(command: CommandLine) -> None:
    added = command.json("users", "add", "cli-ana", "--role", "approver")
    assert added["name"] == "cli-ana"
    assert added["role"] == "approver"
    assert len(added["password"]) == 29

    reset = command.json("users", "reset-password", "cli-ana")
    assert reset["password"] != added["password"]
    assert command.error("users", "add", "cli-ana", "--role", "administrator")["code"] == "invalid_request"
    assert command.json("users", "disable", "cli-ana")["disabled"] is True

    (listed,) = [user for user in command.json("users", "list")["items"] if user["name"] == "cli-ana"]
    assert listed == {**listed, "disabled": True, "signed_in_at": None, "password_is_temporary": True}
    assert "password" not in listed
    assert command.error("users", "reset-password", "cli-nobody")["code"] == "not_found"


def test_following_can_be_interrupted(command: CommandLine, parked_run: dict[str, Any]) -> None:
    following = subprocess.Popen(
        [COMMAND, "runs", "events", parked_run["run_id"], "--follow"],
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert following.stdout
    assert "segment.started" in following.stdout.readline()

    following.send_signal(signal.SIGINT)

    assert following.communicate(timeout=120)[1] == ""
    assert following.returncode == 130


def test_a_rejection_fails_the_run(command: CommandLine, caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    pending = command.json("approvals", "list")["items"]
    (approval_id,) = [item["approval_id"] for item in pending if item["run_id"] == run_id]

    command("approvals", "reject", approval_id)

    assert caller.wait(run_id)["error"]["code"] == "invariant_blocked"


def test_the_deployment_record_is_changed_and_shown(changing_service: Service) -> None:
    command = CommandLine(changing_service)
    before = command.json("deployment", "show")
    assert before["licence"]["state"] == "active"

    held = command.json("deployment", "set", "licence=hold", "licence_reason=unpaid", "retention_days=30")
    assert (held["licence"]["state"], held["licence"]["reason"], held["retention_days"]) == ("hold", "unpaid", 30)

    command("deployment", "set", "licence=active", "retention_days=90")
    refused = command.error("deployment", "set", "retention_days=0")
    assert refused["details"][0]["name"] == "retention_days"


def test_a_disabled_flag_reaches_the_edge(changing_service: Service) -> None:
    command = CommandLine(changing_service)
    try:
        command("deployment", "set", "api_enabled=false")
        until(lambda: changing_service.call("GET", "/health").json()["status"] == "disabled", "health disabled")
    finally:
        command("deployment", "set", "api_enabled=true")
    until(lambda: changing_service.call("GET", "/health").json()["status"] == "ok", "health ok")
