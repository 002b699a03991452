"""Calls of tools that a person must approve: the run parks, and goes on with the conversation as it was."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.common.clock import DAY_MS
from backend.services.dependencies import Services
from backend.services.runs import deadlines
from backend.settings import ModelProvider
from backend.storage.database import run_of
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.services.runtime.test_agent_tools import SECRETS, calls, events, model, told, tool
from tests.services.runtime.test_transcripts import MAIL, Reader
from tests.support.attachable import png
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until
from workflow_api.v1 import runs_pb2

CONFIRMED = {"agent": "rates", "confirm": True}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def services(services: Services) -> Services:
    return replace(services, secrets=SECRETS)


@pytest.fixture
def asking(idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Any) -> Iterator[RuntimeWorld]:
    runtime = idle_world.new_runtime(
        tmp_path / "data", secrets=SECRETS, models={"openai": ModelProvider("ours", server.base_url)}
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def waiting(world: RuntimeWorld, run_id: str) -> list[runs_pb2.PendingApproval]:
    """The approvals of a run that has parked."""
    world.until_status(run_id, "waiting_for_approval")
    request = runs_pb2.ListPendingApprovalsRequest(run_id=run_id)
    return list(world.runs("ListPendingApprovals", request).items)


def asked(world: RuntimeWorld, **fields: Any) -> str:
    return world.run("Asks", [agent_step("ask", "asker")], **fields)


def test_an_approved_call_is_made_with_the_shown_arguments_and_the_step_goes_on(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    server.will(*calls({"currency": "EUR"}))
    tool(asking)
    model(asking, CONFIRMED)
    run_id = asked(asking)
    (approval,) = waiting(asking, run_id)
    assert (approval.tool_call.tool, json.loads(approval.tool_call.arguments)) == ("rates", {"currency": "EUR"})
    assert approval.approval.title == "Call rates?"
    assert approval.HasField("deadline_at")
    assert asking.board(run_id) == {"ask": "waiting_for_approval"}
    assert len(server.requests) == 1
    asking.decide(approval.approval.approval_id, True)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    assert len(server.requests) == 2, "the earlier call is not paid for again"
    assert [one["result"]["of"] for one in told(server)] == ["EUR"]
    (first, second) = asking.all_events(run_id)
    assert [each.type for each in first][-2:] == ["approval.requested", "segment.ended"]
    assert [each.type for each in second][:3] == ["segment.started", "approval.decided", "step.started"]
    assert (row.steps_completed, row.approvals_pending) == (1, 0)
    (call,) = events(asking, run_id)
    assert call["ok"]
    paths = [each["path"] for each in events(asking, run_id, "output.promoted")]
    assert sorted(paths) == ["ask/answer.md", "ask/rates/1/rate.txt"]


def test_each_call_is_asked_once_and_a_rejected_one_is_told_to_the_model(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    both = (ToolCall("rates", {"currency": "EUR"}), ToolCall("rates", {"currency": "CHF"}))
    server.will(Reply(calls=both), Reply("done"))
    tool(asking)
    model(asking, CONFIRMED)
    run_id = asked(asking)
    by_currency = {json.loads(one.tool_call.arguments)["currency"]: one for one in waiting(asking, run_id)}
    asking.decide(by_currency["EUR"].approval.approval_id, False, comment="not in euros")
    until(lambda: len(asking.all_events(run_id)) == 2, "the segment of the first decision")
    assert [one.tool_call for one in waiting(asking, run_id)] == [by_currency["CHF"].tool_call]
    assert len(server.requests) == 1, "the step waits for every decision"
    asking.decide(by_currency["CHF"].approval.approval_id, True)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    rejected, made = told(server)
    message = "A person rejected this call, so it was not made. Their comment: not in euros"
    assert rejected == {"error": {"type": "Refused", "message": message}}
    assert made["result"]["of"] == "CHF"
    assert len(server.requests) == 2
    assert asking.count("steps", "paused IS NOT NULL") == 0, "the conversation is not kept longer than it is needed"


def test_nobody_decides_before_the_deadline_and_the_model_is_told(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EUR"}))
    tool(asking)
    model(asking, CONFIRMED)
    run_id = asked(asking)
    (approval,) = waiting(asking, run_id)
    approval_id, at = approval.approval.approval_id, asking.clock() + 8 * DAY_MS
    database = asking.services.database
    assert database.write(lambda tx: deadlines.expire(tx, approval_id, at), lock_key=run_of(run_id))
    assert asking.until_ended(run_id).status == "completed"
    (expired,) = told(server)
    assert expired["error"]["message"] == "Nobody approved this call in time, so it was not made."


def test_arguments_that_do_not_fit_or_are_too_large_to_be_shown_ask_nobody(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    server.will(*calls({"currency": "EURO"}, {"note": "x" * 9_000}))
    tool(asking, input_schema={"type": "object", "properties": {"currency": {"type": "string", "maxLength": 3}}})
    model(asking, CONFIRMED)
    run_id = asked(asking)
    assert asking.until_ended(run_id).status == "completed"
    small, large = told(server)
    assert small["error"]["type"] == large["error"]["type"] == "InvalidInput"
    assert "8,192" in large["error"]["message"]
    assert asking.count("approvals") == 0


def test_limits_files_and_usage_go_on_across_the_pause(asking: RuntimeWorld, server: OpenAIServer) -> None:
    plain = ToolCall("free", {"currency": "USD"})
    server.will(
        Reply(calls=(plain, ToolCall("rates", {"currency": "EUR"}))),
        Reply(calls=(plain,)),
        Reply(calls=(plain,)),
        Reply("done"),
    )
    tool(asking)
    tool(asking, name="free")
    model(asking, {"agent": "free"}, CONFIRMED, max_tool_calls=3)
    run_id = asked(asking)
    (approval,) = waiting(asking, run_id)
    assert asking.row(run_id).model_calls == 1
    asking.decide(approval.approval.approval_id, True)
    row = asking.until_ended(run_id)
    assert row.status == "failed"
    assert "more often than one step may" in row.error_message
    assert row.model_calls == 3

    tool(
        asking,
        """
        def run(context):
            return sorted(str(path.relative_to(context.files)) for path in context.files.rglob("*.*"))
        """,
        name="paths",
    )
    server.will(Reply(calls=(plain, ToolCall("rates", {"currency": "EUR"}))), Reply(calls=(plain,)), Reply("done"))
    run_id = asking.run(
        "Files",
        [agent_step("ask", "asker"), agent_step("after", "paths", "ask")],
        workflow={"result": {"step": "after"}},
    )
    (approval,) = waiting(asking, run_id)
    asking.decide(approval.approval.approval_id, True)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    left = ["ask/answer.md", "ask/free/1/rate.txt", "ask/free/2/rate.txt", "ask/rates/1/rate.txt"]
    paths = [each["path"] for each in events(asking, run_id, "output.promoted") if each["path"].startswith("ask/")]
    assert sorted(paths) == json.loads(row.result) == left


def test_a_retry_begins_anew_and_pauses_are_no_attempts_of_it(asking: RuntimeWorld, server: OpenAIServer) -> None:
    call = Reply(calls=(ToolCall("rates", {"currency": "EUR"}),))
    server.will(call, Reply(status=500, message="down"), call, Reply("done"))
    tool(asking)
    model(asking, CONFIRMED)
    step = agent_step("ask", "asker", retry={"attempts": 2, "backoff_seconds": 0})
    run_id = asking.run("Retried", [step])
    for _ in range(2):
        (approval,) = waiting(asking, run_id)
        asking.decide(approval.approval.approval_id, True)
        until(lambda: asking.row(run_id).approvals_pending == 0, "the decision")
        until(lambda: asking.status(run_id) != "waiting_for_approval", "the next segment")
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    assert len(told(server)) == 1
    assert len(server.requests) == 4


@pytest.mark.long
def test_a_parked_call_survives_a_kill_and_a_restart(tmp_path: Path, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EUR"}))
    script = Path(__file__).with_name("killed_call.py")
    command = [sys.executable, str(script), str(tmp_path)]
    first = subprocess.Popen([*command, "first", server.base_url], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    try:
        assert first.stdout.readline() == "ready\n"
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    second = [*command, "second", server.base_url]
    done = subprocess.run(second, capture_output=True, text=True, timeout=90, check=True)
    assert done.stdout.split() == ['{"currency":"EUR"}', "completed", "1"]
    assert len(server.requests) == 2


def test_shown_arguments_are_swept_and_the_call_gets_the_real_ones(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": MAIL}))
    tool(asking)
    model(asking, CONFIRMED, keep_transcript=True)
    run_id = asked(asking, workflow={"pii_policy": {"mode": "redact", "stages": ["outputs"]}})
    (approval,) = waiting(asking, run_id)
    assert json.loads(approval.tool_call.arguments) == {"currency": "[EMAIL_ADDRESS]"}
    assert asking.count("approvals", f"tool_call LIKE '%{MAIL}%'") == 0
    asking.decide(approval.approval.approval_id, True)
    assert asking.until_ended(run_id).status == "completed"
    assert told(server)[0]["result"]["of"] == MAIL
    first, second = (Reader(asking).get(run_id, attempt=number).text for number in (1, 2))
    assert "--- call of rates" in first
    assert "--- result of rates" not in first
    assert second.startswith("--- instructions\n  Be brief.\n--- result of rates")
    assert "--- call of rates" not in second


def test_a_cancelled_or_erased_run_keeps_no_conversation(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EUR"}))
    tool(asking)
    model(asking, CONFIRMED)
    run_id = asked(asking)
    waiting(asking, run_id)
    assert asking.count("steps", "paused LIKE '%EUR%'") == 1
    asking.cancel(run_id)
    assert asking.until_ended(run_id).status == "cancelled"
    assert asking.count("steps", "paused IS NOT NULL") == 0
    asking.erase(run_id)
    assert asking.count("approvals") == 0


def test_a_run_that_is_cancelled_between_decision_and_call_keeps_no_conversation(
    idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Path
) -> None:
    server.will(*calls({"currency": "EUR"}))
    models = {"openai": ModelProvider("ours", server.base_url)}
    first = idle_world.new_runtime(tmp_path / "data", secrets=SECRETS, models=models)
    first.start()
    tool(idle_world)
    model(idle_world, CONFIRMED)
    last = {"always": [{"step": "tidy", "agent": "echo", "environment": "standard"}]}
    run_id = asked(idle_world, workflow=last)
    (approval,) = waiting(idle_world, run_id)
    first.stop()
    idle_world.decide(approval.approval.approval_id, True)
    idle_world.cancel(run_id)
    second = idle_world.new_runtime(tmp_path / "data", secrets=SECRETS, models=models)
    second.start()
    assert idle_world.until_ended(run_id).status == "cancelled"
    assert idle_world.board(run_id) == {"ask": "cancelled", "tidy": "completed"}
    assert idle_world.count("steps", "paused IS NOT NULL") == 0
    second.stop()


def test_a_conversation_goes_on_with_the_files_that_were_attached(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EUR"}))
    draw = f"""
        def run(context):
            (context.outputs / "scan.png").write_bytes({png()!r})
    """
    tool(asking)
    tool(asking, draw, name="drawer")
    model(asking, CONFIRMED, attach=["files/draw/*"])
    run_id = asking.run("Drawn", [agent_step("draw", "drawer"), agent_step("ask", "asker", "draw")])
    (approval,) = waiting(asking, run_id)
    asking.decide(approval.approval.approval_id, True)
    assert asking.until_ended(run_id).status == "completed"
    assert [part["type"] for part in server.requests[1].body["input"][0]["content"]] == ["input_text", "input_image"]


def test_a_call_that_cannot_be_shown_fails_the_step(asking: RuntimeWorld, server: OpenAIServer) -> None:
    plain = ToolCall("free", {"currency": "USD"})
    server.will(Reply(calls=(plain, ToolCall("rates", {"currency": "EUR"}))), Reply("done"))
    tool(asking)
    tool(asking, name="free")
    model(asking, {"agent": "free"}, CONFIRMED)
    asking.redactor.close()
    run_id = asked(asking, workflow={"pii_policy": {"mode": "redact", "stages": ["outputs"]}})
    row = asking.until_ended(run_id)
    assert row.status == "failed"
    assert "could not be swept for personal data" in row.error_message
    assert asking.count("approvals") == 0


def test_a_run_that_waits_leaves_no_file_of_its_step_on_the_workers_disk(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    plain = ToolCall("free", {"currency": "USD"})
    server.will(Reply(calls=(plain, ToolCall("rates", {"currency": "EUR"}))), Reply("done"))
    tool(asking)
    tool(asking, name="free")
    model(asking, {"agent": "free"}, CONFIRMED)
    run_id = asked(asking)
    waiting(asking, run_id)
    assert [path.name for path in (asking.work / run_id).rglob("*.txt")] == []


def test_a_step_that_cannot_wait_is_not_ready_with_such_a_tool(asking: RuntimeWorld) -> None:
    tool(asking)
    model(asking, CONFIRMED)
    steps = [agent_step("list", "echo"), agent_step("ask", "asker", "list", for_each="needs.list", max_items=3)]
    with pytest.raises(RefusedError) as refused:
        asking.run("Each", steps)
    assert "Step 'ask' has for_each, where no person can be asked" in refused.value.reasons[0]
    last = {"always": [{"step": "ask", "agent": "asker", "environment": "standard"}]}
    with pytest.raises(RefusedError) as refused:
        asking.run("Last", [agent_step("list", "echo")], workflow=last)
    assert "Step 'ask' is of on_failure or always" in refused.value.reasons[0]
