"""Calls of tools that a person must approve: the run parks, and goes on with the conversation as it was."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.settings import ModelProvider
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.services.runtime.test_agent_tools import SECRETS, calls, events, model, told, tool
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
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
