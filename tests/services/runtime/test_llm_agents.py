"""Agents that call models inside whole runs; the provider is a server of the tests' own."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from backend.common.secrets import Secrets, how_to_set
from backend.settings import ModelProvider
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.poll import until

KEY = "sk-planted-9b2e61"
SECRETS = Secrets({"ours": "env:OURS"}, {"OURS": KEY})


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    server = OpenAIServer()
    yield server
    server.close()


@pytest.fixture
def asking(idle_world: RuntimeWorld, server: OpenAIServer, tmp_path: Any) -> Iterator[RuntimeWorld]:
    """A world whose deployment has a key and an address for `openai`."""
    runtime = idle_world.new_runtime(
        tmp_path / "data", secrets=SECRETS, models={"openai": ModelProvider("ours", server.base_url)}
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def agent(world: RuntimeWorld, name: str = "asker", **fields: Any) -> None:
    declared = {"kind": "Agent", "name": name, "type": "llm", "model": "openai:gpt-5", "instructions": "Be brief."}
    world.apply(json.dumps(declared | fields))


def test_an_answer_is_result_and_output_and_its_usage_an_event(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(calls=(ToolCall("final_result", {"words": 2, "summary_markdown": "# Two"}),)))
    agent(asking, output_schema={"type": "object", "required": ["words"], "properties": {"words": {"type": "integer"}}})
    run_id = asking.run(
        "Asks", [agent_step("ask", "asker")], workflow={"result": {"step": "ask"}}, input_text="one two"
    )
    row = asking.until_ended(run_id)
    assert (row.status, json.loads(row.result)["words"], row.summary_markdown) == ("completed", 2, "# Two")
    assert asking.event_types(run_id).count("output.promoted") == 2
    (usage,) = [json.loads(event.data) for event in asking.events(run_id).events if event.type == "step.progress"]
    assert usage == {
        "message": "model usage",
        "model": "openai:gpt-5",
        "requests": 1,
        "tool_calls": 0,
        "input_tokens": 120,
        "output_tokens": 45,
    }
    assert "<input_text>\none two\n</input_text>" in json.dumps(server.requests[0].body).replace("\\n", "\n")


def test_models_and_python_pass_values_and_files_on_to_each_other(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(calls=(ToolCall("read_file", {"path": "write/notes/a.txt"}),)), Reply("It says one two."))
    agent(asking, tools=["files"])
    run_id = asking.run(
        "Between",
        [
            agent_step("write", "writer"),
            gate("look", "write"),
            agent_step("ask", "asker", "write", "look"),
            agent_step("read", "reader", "ask"),
        ],
        workflow={"result": {"step": "read"}},
        input_text="one two",
    )
    asking.until_status(run_id, "waiting_for_approval")
    asking.decide(asking.approvals(run_id)["look"], True)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    assert json.loads(row.result)["files"] == {"ask/answer.md": "It says one two."}
    assert "one two" in json.dumps(server.requests[-1].body["input"][-1])


def test_a_refused_call_is_tried_again_when_the_provider_says(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(status=429, message="slow", headers={"Retry-After": "1"}), Reply("done"))
    agent(asking)
    retry = {"attempts": 2, "backoff_seconds": 0}
    run_id = asking.run("Patient", [agent_step("ask", "asker", retry=retry)])
    assert asking.until_ended(run_id).status == "completed"
    failed = [json.loads(event.data) for event in asking.events(run_id).events if event.type == "step.failed"]
    assert [(one["type"], one["attempt"]) for one in failed] == [("ModelRateLimited", 1)]
    assert failed[0]["retry_at"] > "2026-09-21", "at least the second that the provider asked for"


def test_a_permanent_failure_is_not_tried_again(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(status=401, message="no"))
    agent(asking)
    run_id = asking.run("Hopeless", [agent_step("ask", "asker", retry={"attempts": 5, "backoff_seconds": 0})])
    assert asking.until_ended(run_id).status == "failed"
    assert asking.steps(run_id)["ask"].attempt == len(server.requests) == 1


def test_a_secret_that_this_deployment_does_not_know_fails_the_step(asking: RuntimeWorld) -> None:
    agent(asking, api_key="theirs")
    run_id = asking.run("Unknown", [agent_step("ask", "asker")])
    row = asking.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert (
        row.error_message == f"Step 'ask' failed: this deployment has no secret named 'theirs': {how_to_set('theirs')}"
    )


def test_the_log_of_a_model_grows_while_it_thinks(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(calls=(ToolCall("read_file", {"path": "write/notes/a.txt"}),)), Reply("late", delay=20))
    agent(asking, tools=["files"])
    steps = [agent_step("write", "writer"), agent_step("ask", "asker", "write")]
    run_id = asking.run("Thinks twice", steps, input_text="one")
    until(lambda: asking.count("step_log_parts", "text LIKE '%calls read_file%'") == 1, "the line of the first answer")
    assert asking.board(run_id)["ask"] == "running"
    asking.cancel(run_id)
    assert asking.until_ended(run_id).status == "cancelled"


def test_a_run_is_cancelled_while_the_model_thinks(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply("late", delay=20))
    agent(asking)
    run_id = asking.run("Thinks", [agent_step("ask", "asker")])
    until(lambda: server.requests, "the request")
    asking.cancel(run_id)
    assert asking.until_ended(run_id).status == "cancelled"


@pytest.mark.parametrize("stream", [False, True])
def test_the_models_key_is_only_in_the_request(
    asking: RuntimeWorld, server: OpenAIServer, stream: bool, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    """Whatever the provider quotes back: no row, object, file or log line of the deployment holds it."""
    agent(asking, tools=["files"], stream=stream)
    quoting = f"You sent {KEY}."
    steps = [agent_step("ask", "asker", retry={"attempts": 2, "backoff_seconds": 0})]
    with caplog.at_level(logging.DEBUG):
        for number, replies in enumerate(
            (
                [Reply("done")],
                [Reply(calls=(ToolCall("read_file", {"path": "x"}),)), Reply(status=500, message=quoting)],
                [Reply(status=429, message=quoting), Reply(status=401, message=quoting)],
                [Reply(status=400, body=quoting.encode())],
                [Reply(body=f'{{"{quoting}'.encode())],
                [Reply(body=json.dumps({"choices": quoting, "output": quoting}).encode())],
                [Reply("x" * 100, cut=True)],
            )
        ):
            server.will(*replies)
            run_id = asking.run(f"Scan {number} {stream}", steps)
            row = asking.until_ended(run_id)
            assert row.status == ("failed" if number else "completed")
            assert KEY not in str(row)
            assert KEY not in str(asking.all_events(run_id)) + str(asking.steps(run_id))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert any("logs" in path.parts for path in tmp_path.rglob("*")), "the scan saw the steps' logs"
