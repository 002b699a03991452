"""Named secrets of Python agents: read for each attempt, audited by name, kept nowhere (contract 25.22 to 25.24)."""

import json
import logging
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.storage.tables.metadata import METADATA
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.planted import plant

FIRST, SECOND = "tok-first-4f1D7cQxZ09aLm", "tok-later-8e2K5vWyB31cRt"
OTHER = "another-secret-of-the-deployment"
AGENTS = {
    # What it sees of a secret, so that the test knows which value it got.
    "caller": """
        import hashlib
        def run(context):
            seen = hashlib.sha256(context.secret("rates-api").encode()).hexdigest()
            context.progress("seen", digest=seen)
            if context.parameters.get("fails"):
                raise ConnectionError("401")
            return seen
    """,
    "careless": """
        import time
        def run(context):
            key = context.secret("rates-api")
            print("sending", key, flush=True)
            context.progress("sending", headers={"Authorization": f"Bearer {key}"})
            (context.outputs / "request.txt").write_text(f"GET / with {key}")
            if context.attempt == 1:
                raise ValueError(f"refused {key}")
            return {"sent": key, "summary_markdown": f"# {key}"}
    """,
    "reader": """
        def run(context):
            texts = {path.name: path.read_text() for path in context.files.rglob("*.txt")}
            return {"needs": context.needs, "files": texts}
    """,
}
_NAMED = {"caller": ["rates-api"], "careless": ["rates-api", "other"]}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(FIRST)
    plant(FIRST, SECOND, OTHER)
    return file


@pytest.fixture
def services(services: Services, key_file: Path) -> Services:
    sources = {"rates-api": f"file:{key_file}", "other": "env:OTHER"}
    return replace(services, secrets=Secrets(sources, {"OTHER": OTHER}))


@pytest.fixture(autouse=True)
def _agents(idle_world: RuntimeWorld) -> None:
    for name, code in AGENTS.items():
        apply_agent(idle_world, name, code, _NAMED.get(name, []))


def apply_agent(world: RuntimeWorld, name: str, code: str, secrets: list[str]) -> None:
    declared = {"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code), "secrets": secrets}
    world.apply(json.dumps(declared))


def used(world: RuntimeWorld, run_id: str) -> list[dict[str, Any]]:
    rows = world.dump(f"audit_records WHERE target = '{run_id}'")
    assert {(row.action, row.actor) for row in rows} <= {("secret.used", "system")}
    found: list[dict[str, Any]] = [json.loads(row.details) for row in sorted(rows, key=lambda row: row.at)]
    return found


def digests(world: RuntimeWorld, run_id: str) -> list[str]:
    events = [event for segment in world.all_events(run_id) for event in segment]
    return [json.loads(event.data)["digest"] for event in events if event.type == "step.progress"]


def test_a_new_value_is_that_of_the_next_attempt(world: RuntimeWorld, key_file: Path) -> None:
    steps = [agent_step("a", "caller"), gate("look", "a"), agent_step("b", "caller", "look"), agent_step("c", "caller")]
    run_id = world.run("Rotated", steps)
    world.until_status(run_id, "waiting_for_approval")
    key_file.write_text(SECOND + "\n")
    world.decide(world.approvals(run_id)["look"], True)
    assert world.until_ended(run_id).status == "completed"
    first, also, second = digests(world, run_id)
    assert first == also != second


def test_which_attempt_got_which_secrets_is_audited_and_no_event_tells(world: RuntimeWorld) -> None:
    retry = {"attempts": 2, "backoff_seconds": 0}
    run_id = world.run("Audited", [agent_step("send", "careless", retry=retry), agent_step("read", "echo")])
    assert world.until_ended(run_id).status == "completed"
    names = ["rates-api", "other"]
    assert used(world, run_id) == [
        {"agent": "careless", "attempt": attempt, "secrets": names, "step": "send"} for attempt in (1, 2)
    ]
    assert "rates-api" not in str(world.all_events(run_id)) + str(world.get(run_id)) + str(world.steps(run_id))


@pytest.mark.parametrize("policy", [None, {"mode": "redact", "stages": ["steps", "outputs"]}])
def test_no_row_object_file_or_line_of_a_log_holds_the_value(
    world: RuntimeWorld, caplog: pytest.LogCaptureFixture, tmp_path: Path, key_file: Path, policy: dict[str, Any] | None
) -> None:
    steps = [
        agent_step("send", "careless", retry={"attempts": 2, "backoff_seconds": 0}),
        agent_step("read", "reader", "send"),
    ]
    workflow: dict[str, Any] = {"result": {"step": "read"}} | ({"pii_policy": policy} if policy else {})
    with caplog.at_level(logging.DEBUG):
        run_id = world.run("Careless", steps, workflow=workflow)
        row = world.until_ended(run_id)
    assert row.status == "completed", row.error_message
    result = json.loads(row.result)
    assert result["needs"]["send"]["sent"] == "[secret]"
    assert result["files"] == {"request.txt": "GET / with [secret]"}
    assert FIRST not in caplog.text
    for table in METADATA.tables:
        assert FIRST not in str(world.dump(table)), table
    for path in tmp_path.rglob("*"):
        assert path == key_file or not path.is_file() or FIRST.encode() not in path.read_bytes(), path
    logs = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "logs" in path.parts]
    assert any(b"sending [secret]" in log for log in logs)


def test_a_workflow_whose_agent_names_a_missing_secret_is_applied_and_not_ready(world: RuntimeWorld) -> None:
    apply_agent(world, "lacking", AGENTS["caller"], ["rates-api", "theirs"])
    with pytest.raises(RefusedError) as refused:
        world.run("Lacking", [agent_step("a", "lacking")])
    assert refused.value.reason == "workflow_not_ready"
    (reason,) = refused.value.reasons
    assert reason.startswith("Agent 'lacking' needs the secret 'theirs', which is missing: name where")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the secret 'rates-api' cannot be read: No such file or directory"),
        ("", "the secret 'rates-api' is not set: what [secrets] of the settings names for it is empty"),
        ("short 7", "the secret 'rates-api' has fewer than 8 characters"),
        ("x" * 8_193, "the secret 'rates-api' has more than 8,192 bytes"),
    ],
)
def test_a_step_does_not_begin_without_its_secrets(
    world: RuntimeWorld, key_file: Path, value: str | None, message: str
) -> None:
    key_file.unlink()
    if value is not None:
        key_file.write_text(value)
    run_id = world.run("Without", [agent_step("a", "caller", retry={"attempts": 3, "backoff_seconds": 0})])
    row = world.until_ended(run_id)
    assert row.status == "failed"
    assert row.error_message.startswith(f"Step 'a' failed: {message}")
    (failed,) = [json.loads(event.data) for event in world.events(run_id).events if event.type == "step.failed"]
    assert failed["type"] == "SecretUnavailable"
    assert (digests(world, run_id), used(world, run_id)) == ([], [])
