"""Pictures and PDF that runs give their models: uploads, files of earlier steps, fan-outs and PII policies."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.services.logs.servicer import Logs, LogsServicer
from backend.settings import ModelProvider
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.services.runtime.uploading import Person
from tests.support.attachable import pdf, png
from tests.support.openai_server import OpenAIServer
from workflow_api.v1 import logs_pb2

DRAWER = f"""
def run(context):
    (context.outputs / "scan.png").write_bytes({png()!r})
    (context.shared / "pages.pdf").write_bytes({pdf(2)!r})
"""
LINKER = f"""
import os
def run(context):
    (context.outputs / "real.png").write_bytes({png()!r})
    os.symlink("real.png", context.outputs / "link.png")
"""


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def asking(idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Path) -> RuntimeWorld:
    runtime = idle_world.local_runtime = idle_world.new_runtime(
        tmp_path / "data",
        secrets=Secrets({"ours": "env:OURS"}, {"OURS": "sk-planted-9b2e61"}),
        models={"openai": ModelProvider("ours", server.base_url)},
    )
    runtime.start()
    for name, code in (("drawer", DRAWER), ("linker", LINKER)):
        idle_world.apply(json.dumps({"kind": "Agent", "name": name, "type": "python", "code": code}))
    return idle_world


def agent(world: RuntimeWorld, *patterns: str, **fields: Any) -> None:
    declared = {"kind": "Agent", "name": "asker", "type": "llm", "model": "openai:gpt-5", "instructions": "Be brief."}
    world.apply(json.dumps(declared | {"attach": list(patterns)} | fields))


def sent(server: OpenAIServer) -> list[list[str]]:
    """The types of the parts of each request's user message."""
    return [[part["type"] for part in request.body["input"][-1]["content"]] for request in server.requests]


def upload(world: RuntimeWorld, folder: Path, data: bytes, retry: dict[str, Any] | None = None, **fields: Any) -> str:
    """A run of the workflow `Reads` with an uploaded file."""
    person = Person(world, folder)
    world.workflows |= world.apply(manifest("Reads", [agent_step("ask", "asker", retry=retry)], **fields))
    upload_id = person.begin()
    person.send(upload_id, 1, "scan.png", data)
    return str(person.start("Reads", upload_id).run.summary.run_id)


def test_an_upload_is_sent_and_metered(asking: RuntimeWorld, server: OpenAIServer, tmp_path: Path) -> None:
    agent(asking, "inputs/uploads/*.png", keep_transcript=True)
    run_id = upload(asking, tmp_path, png())
    assert asking.until_ended(run_id).status == "completed"
    assert sent(server) == [["input_text", "input_image"]]
    assert asking.get(run_id, None).usage.input_tokens == 120
    logs = Caller(
        LogsServicer(Logs(asking.services, asking.objects)), logs_pb2.DESCRIPTOR.services_by_name["LogsService"]
    )
    text = logs("GetRunLog", logs_pb2.GetRunLogRequest(run_id=run_id, step="ask", transcript=True)).text
    assert f"[inputs/uploads/scan.png, image/png, {len(png())} bytes, sha256 " in text


def test_files_of_earlier_steps_are_sent_shared_ones_too(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, "files/draw/*")
    run_id = asking.run("Draws", [agent_step("draw", "drawer"), agent_step("ask", "asker", "draw")])
    assert asking.until_ended(run_id).status == "completed"
    assert sent(server) == [["input_text", "input_file", "input_image"]]
    assert "files/draw/pages.pdf" in server.requests[0].body["input"][-1]["content"][0]["text"]


def test_items_of_a_fan_out_attach_the_files_of_another_fan_out(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, "files/draw/*/scan.png")
    steps = [agent_step("draw", "drawer", for_each="[1, 2, 3]"), agent_step("ask", "asker", "draw", for_each="[1, 2]")]
    run_id = asking.run("Draws each", steps)
    assert asking.until_ended(run_id).status == "completed"
    assert sent(server) == [["input_text", *["input_image"] * 3]] * 2


def test_a_link_that_a_step_leaves_is_not_sent(asking: RuntimeWorld, server: OpenAIServer) -> None:
    agent(asking, "files/draw/link.png")
    row = asking.until_ended(asking.run("Links", [agent_step("draw", "linker"), agent_step("ask", "asker", "draw")]))
    assert "no file matches 'files/draw/link.png' of attach" in row.error_message
    assert server.requests == []


def test_a_file_that_cannot_be_sent_fails_the_step_once_and_costs_nothing(
    asking: RuntimeWorld, server: OpenAIServer, tmp_path: Path
) -> None:
    agent(asking, "inputs/uploads/*")
    run_id = upload(asking, tmp_path, png(50_000, 50_000), {"attempts": 3, "backoff_seconds": 0})
    row = asking.until_ended(run_id)
    assert "'inputs/uploads/scan.png' of attach has 50,000 x 50,000 pixels" in row.error_message
    assert asking.count("events", "type = 'step.started'") == 1
    assert server.requests == []


@pytest.mark.parametrize("stages", [["inputs"], ["inputs", "steps", "outputs"]])
def test_a_redacting_policy_of_inputs_keeps_uploads_from_the_model(
    asking: RuntimeWorld, server: OpenAIServer, tmp_path: Path, stages: list[str]
) -> None:
    agent(asking, "inputs/uploads/*.png")
    row = asking.until_ended(upload(asking, tmp_path, png(), pii_policy={"mode": "redact", "stages": stages}))
    assert row.status == "failed"
    assert (
        "of attach is not sent to the model: the run's PII policy has mode redact with stage inputs"
        in row.error_message
    )
    assert server.requests == []


def test_a_redacting_policy_of_steps_keeps_their_files_from_the_model(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    agent(asking, "files/draw/scan.png")
    policy = {"mode": "redact", "stages": ["steps"]}
    steps = [agent_step("draw", "drawer"), agent_step("ask", "asker", "draw")]
    row = asking.until_ended(asking.run("Draws", steps, workflow={"pii_policy": policy}))
    assert "mode redact with stage steps" in row.error_message
    assert server.requests == []


@pytest.mark.parametrize(
    "policy", [{"mode": "detect", "stages": ["inputs", "steps"]}, {"mode": "redact", "stages": ["outputs"]}]
)
def test_a_policy_that_leaves_what_steps_see_as_it_is_lets_files_be_sent(
    asking: RuntimeWorld, server: OpenAIServer, tmp_path: Path, policy: dict[str, Any]
) -> None:
    agent(asking, "inputs/uploads/*.png")
    run_id = upload(asking, tmp_path, png(), pii_policy=policy)
    assert asking.until_ended(run_id).status == "completed"
    assert sent(server) == [["input_text", "input_image"]]


def test_a_workflow_is_not_ready_whose_step_does_not_need_the_step_of_a_pattern(asking: RuntimeWorld) -> None:
    agent(asking, "files/draw/*.png", "files/*/x.png")
    with pytest.raises(RefusedError) as refused:
        asking.run("Draws", [agent_step("draw", "drawer"), agent_step("ask", "asker")])
    (reason,) = refused.value.reasons
    assert reason == (
        "Step 'ask' does not need 'draw', whose files its agent 'asker' attaches ('files/draw/*.png'): "
        "name that step in its needs."
    )
