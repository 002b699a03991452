"""Tools of MCP servers that a model calls; server and provider speak the real protocols."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.settings import ModelProvider
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld
from tests.services.runtime.test_agent_tools import asked, calls, events, model, told
from tests.support.mcp_server import TestMcpServer
from tests.support.openai_server import OpenAIServer
from tests.unit.backend.runtime.agents.test_mcp_client import ScriptedServer

TOKEN = "planted-5e0c91ab"
SECRETS = Secrets({"ours": "env:OURS", "tools-key": "env:TOOLS"}, {"OURS": "sk-planted-9b2e61", "TOOLS": TOKEN})


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture(params=[False, True], ids=["stream", "json"])
def tools(request: pytest.FixtureRequest) -> Iterator[TestMcpServer]:
    tools = TestMcpServer(json_response=request.param)
    yield tools
    tools.close()


@pytest.fixture
def services(services: Services) -> Services:
    return replace(services, secrets=SECRETS, mcp_hosts=frozenset({"127.0.0.1"}))


@pytest.fixture
def private() -> tuple[str, ...]:
    return ("127.0.0.0/8",)


@pytest.fixture
def asking(
    idle_world: RuntimeWorld, server: OpenAIServer, private: tuple[str, ...], tmp_path: Any
) -> Iterator[RuntimeWorld]:
    """A world whose deployment allows MCP servers on this machine."""
    runtime = idle_world.new_runtime(
        tmp_path / "data",
        secrets=SECRETS,
        models={"openai": ModelProvider("ours", server.base_url)},
        mcp_hosts=("127.0.0.1",),
        mcp_private_networks=private,
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def test_a_model_calls_tools_of_a_server(asking: RuntimeWorld, server: OpenAIServer, tools: TestMcpServer) -> None:
    server.will(
        *calls({"one": 2, "other": 3}, {"one": "two"}, name="add")[:2],
        *calls({}, name="echo_token")[:1],
        *calls({}, name="broken")[:1],
        *calls({}, name="endless"),
    )
    only = ["add", "echo_token", "broken", "endless", "absent"]
    model(asking, {"mcp": tools.url, "secret": "tools-key", "only": only})
    run_id = asked(asking)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    declared = {one["name"]: one for one in server.requests[0].body["tools"]}
    assert set(declared) == set(only)
    assert declared["add"]["description"] == "Adds two numbers."
    assert set(declared["add"]["parameters"]["properties"]) == {"one", "other"}
    added, misfit, echoed, broken, endless = told(server)
    assert added == {"result": {"sum": 5}}
    assert misfit["error"]["type"] == "InvalidInput"
    assert "you sent Bearer [secret]" in json.dumps(echoed)
    assert broken["error"]["type"] == "ToolError"
    assert "no luck" in broken["error"]["message"]
    assert endless["error"]["type"] == "ToolServerError"
    assert endless["error"]["message"] == "the server sent more than 1,048,576 bytes in one answer"
    assert [(event["tool"], event["ok"]) for event in events(asking, run_id)] == [
        ("add", True),
        ("add", False),
        ("echo_token", True),
        ("broken", False),
        ("endless", False),
    ]
    assert {headers.get("authorization") for _, headers in tools.requests} == {f"Bearer {TOKEN}"}
    assert tools.requests[-1][0] == "DELETE", "the session is ended"
    assert TOKEN not in json.dumps([request.body for request in server.requests])


def test_a_server_that_cannot_be_reached_is_told_to_the_model(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}, name="add"))
    model(asking, {"mcp": "http://127.0.0.1:9/mcp", "only": ["add"]})
    assert asking.until_ended(asked(asking)).status == "completed"
    (result,) = told(server)
    assert result == {
        "error": {
            "type": "ToolServerError",
            "message": "the server could not be reached at an address that is allowed",
        }
    }


@pytest.mark.parametrize("private", [()])
def test_a_server_in_a_private_network_gets_no_request(
    asking: RuntimeWorld, server: OpenAIServer, tools: TestMcpServer
) -> None:
    server.will(*calls({"one": 1, "other": 1}, name="add"))
    model(asking, {"mcp": tools.url, "secret": "tools-key", "only": ["add"]})
    assert asking.until_ended(asked(asking)).status == "completed"
    assert told(server)[0]["error"]["type"] == "ToolServerError"
    assert tools.requests == []


def test_a_host_that_the_deployment_does_not_allow_keeps_the_workflow_from_starting(asking: RuntimeWorld) -> None:
    model(asking, {"mcp": "https://tools.example.org/mcp", "secret": "unknown", "only": ["add"]})
    with pytest.raises(RefusedError) as refused:
        asked(asking)
    first, second = refused.value.reasons
    assert "https://tools.example.org/mcp, whose host this deployment does not allow" in first
    assert "Agent 'asker' needs the secret 'unknown'" in second


def test_a_server_cannot_hand_its_secret_to_the_model_in_a_schema(asking: RuntimeWorld, server: OpenAIServer) -> None:
    schema = {"type": "object", "description": f"Bearer {TOKEN}", "properties": {"one": {"const": TOKEN}}}
    listed = {"tools": [{"name": "add", "description": TOKEN, "inputSchema": schema}]}
    tools = ScriptedServer()
    try:
        tools.body = b'{"id":ID,"result":' + json.dumps(listed).encode() + b"}"
        server.will(*calls({}, name="add"))
        model(asking, {"mcp": tools.url, "secret": "tools-key", "only": ["add"]})
        assert asking.until_ended(asked(asking)).status == "completed"
    finally:
        tools.close()
    sent = json.dumps([request.body for request in server.requests])
    assert "Bearer [secret]" in sent
    assert TOKEN not in sent
