"""Agents in Python that a model calls as tools; the provider is a server of the tests' own."""

import json
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.services.workflows.deletion import delete_definition
from backend.settings import ModelProvider
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.services.runtime.test_resume import resume, why
from tests.support.openai_server import OpenAIServer, Reply, ToolCall
from tests.support.s3_server import S3Server
from workflow_api.v1 import workflows_pb2

SECRETS = Secrets(
    {"ours": "env:OURS", "rates-api": "env:RATES"}, {"OURS": "sk-planted-9b2e61", "RATES": "planted-7d1c44e0"}
)
SCHEMA = {
    "type": "object",
    "description": "Returns the rate of a currency.",
    "required": ["currency"],
    "properties": {"currency": {"type": "string", "maxLength": 3}},
    "additionalProperties": False,
}
RATES = """
    def run(context):
        print("asked for", context.input["currency"])
        (context.outputs / "rate.txt").write_text(context.input["currency"])
        return {"rate": 1.5, "of": context.input["currency"], "key": context.idempotency_key.split("/")[2]}
"""


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
    """A world whose deployment has a key and an address for `openai`."""
    runtime = idle_world.new_runtime(
        tmp_path / "data", secrets=SECRETS, models={"openai": ModelProvider("ours", server.base_url)}
    )
    runtime.start()
    yield idle_world
    runtime.stop()


def tool(world: RuntimeWorld, code: str = RATES, name: str = "rates", **fields: Any) -> None:
    declared = {"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code)}
    world.apply(json.dumps(declared | fields))


def model(world: RuntimeWorld, *tools: Any, **fields: Any) -> None:
    declared = {"kind": "Agent", "name": "asker", "type": "llm", "model": "openai:gpt-5", "instructions": "Be brief."}
    world.apply(json.dumps(declared | {"tools": list(tools) or [{"agent": "rates"}]} | fields))


def calls(*arguments: Any, name: str = "rates") -> list[Reply]:
    return [*(Reply(calls=(ToolCall(name, given),)) for given in arguments), Reply("done")]


def told(server: OpenAIServer) -> list[Any]:
    """The results of tools that the model got."""
    given = [one for one in server.requests[-1].body["input"] if one.get("type") == "function_call_output"]
    return [json.loads(one["output"]) for one in given]


def events(world: RuntimeWorld, run_id: str, kind: str = "step.tool_call") -> list[Any]:
    return [json.loads(event.data) for event in world.events(run_id).events if event.type == kind]


def delete(world: RuntimeWorld, name: str) -> None:
    delete_definition(world.services.database, "Agent", name, now=world.clock(), actor="tester")


def asked(world: RuntimeWorld, **fields: Any) -> str:
    return world.run("Asks", [agent_step("ask", "asker")], **fields)


def test_a_model_calls_a_python_agent_with_checked_arguments(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EUR"}))
    tool(asking, input_schema=SCHEMA)
    model(asking)
    run_id = asked(asking)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    (result,) = told(server)
    assert result == {"result": {"rate": 1.5, "of": "EUR", "key": "rates"}}
    (declared,) = server.requests[0].body["tools"]
    assert (declared["name"], declared["description"]) == ("rates", "Returns the rate of a currency.")
    assert declared["parameters"]["required"] == ["currency"]
    (event,) = events(asking, run_id)
    assert event.pop("duration_ms") >= 0
    assert event == {
        "tool": "rates",
        "input_bytes": len('{"currency":"EUR"}'),
        "output_bytes": len(json.dumps(result, separators=(",", ":"))),
        "ok": True,
        "attempt": 1,
        "item_index": None,
    }
    paths = [each["path"] for each in events(asking, run_id, "output.promoted")]
    assert sorted(paths) == ["ask/answer.md", "ask/rates/1/rate.txt"]


def test_annotations_of_the_function_are_the_schema_and_the_arguments_its_parameters(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    server.will(*calls({"currency": "EURO"}, {"currency": "EUR", "amount": "5"}, {"currency": "EUR"}))
    code = """
        from typing import Literal
        def run(context, currency: Literal["EUR", "CHF"], amount: int = 2):
            "Returns twice the amount."
            return [currency, 2 * amount, context.input]
    """
    tool(asking, code)
    model(asking)
    row = asking.until_ended(asked(asking))
    assert row.status == "completed", row.error_message
    (declared,) = server.requests[0].body["tools"]
    assert declared["description"] == "Returns twice the amount."
    assert declared["parameters"]["properties"]["amount"] == {"type": "integer", "default": 2}
    assert [sorted(one) for one in told(server)] == [["error"], ["error"], ["result"]]
    assert told(server)[2] == {"result": ["EUR", 4, {"currency": "EUR"}]}


def test_an_annotation_that_is_not_understood_is_refused_when_the_agent_is_applied(asking: RuntimeWorld) -> None:
    code = "def run(context, order: Order): return 1"
    with pytest.raises(RefusedError) as refused:
        tool(asking, code)
    assert "code" in str(refused.value.problems)
    assert "must annotate the parameter order of run with str, int" in str(refused.value.problems)
    tool(asking, code, input_schema=SCHEMA)


def test_how_a_call_fails_is_told_to_the_model(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({"currency": "EURO"}, {"currency": "XXX"}, {"currency": "EUR"}))
    code = """
        def run(context):
            (context.outputs / "left.txt").write_text("left")
            if context.input["currency"] == "XXX":
                raise LookupError("no such currency")
            return context.input
    """
    tool(asking, code, input_schema=SCHEMA)
    model(asking)
    run_id = asked(asking)
    assert asking.until_ended(run_id).status == "completed"
    assert told(server) == [
        {
            "error": {
                "type": "InvalidInput",
                "message": 'The input does not fit its schema at $.currency: "EURO" is longer than 3 characters',
            }
        },
        {"error": {"type": "LookupError", "message": "LookupError: no such currency"}},
        {"result": {"currency": "EUR"}},
    ]
    assert [event["ok"] for event in events(asking, run_id)] == [False, False, True]
    paths = [each["path"] for each in events(asking, run_id, "output.promoted")]
    assert sorted(paths) == ["ask/answer.md", "ask/rates/2/left.txt"], "a failed call leaves no files"


def test_arguments_with_a_number_that_is_not_finite_are_told_to_the_model(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    server.will(*calls({"rate": float("nan")}, {"rate": float("inf")}, {"currency": "EUR"}))
    tool(asking)
    model(asking)
    run_id = asked(asking)
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    message = "The JSON of the arguments holds a number that is not finite."
    refused = {"error": {"type": "InvalidInput", "message": message}}
    assert told(server)[:2] == [refused, refused]
    assert [event["ok"] for event in events(asking, run_id)] == [False, False, True]


@pytest.mark.parametrize("arguments", [["EUR"], "EUR", None], ids=["list", "text", "null"])
def test_a_model_corrects_arguments_that_are_no_object(
    asking: RuntimeWorld, server: OpenAIServer, arguments: Any
) -> None:
    server.will(*calls(arguments, {"currency": "EUR"}))
    tool(asking)
    model(asking)
    row = asking.until_ended(asked(asking))
    assert row.status == "completed", row.error_message


def test_a_tool_does_not_outlast_the_time_of_the_step(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}))
    tool(asking, "def run(context):\n    import time\n    time.sleep(60)\n")
    model(asking)
    run_id = asking.run("Asks", [agent_step("ask", "asker", timeout_seconds=2)])
    asking.until_ended(run_id)
    (failed,) = events(asking, run_id, "step.failed")
    assert failed["type"] == "TimeLimit"
    assert [event["ok"] for event in events(asking, run_id)] == [False]


def test_a_long_result_is_cut_where_the_model_is_told(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}))
    tool(asking, "def run(context):\n    return 'é' * 50_000\n")
    model(asking)
    assert asking.until_ended(asked(asking)).status == "completed"
    (result,) = told(server)
    assert set(result) == {"result_cut", "note"}
    assert 65_530 < len(result["result_cut"].encode()) <= 65_536
    assert result["note"] == "The result has 100,002 bytes of JSON; everything after byte 65,536 is cut."


def test_an_attempt_makes_at_most_max_tool_calls(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(Reply(calls=(ToolCall("rates", {}),)))
    tool(asking, "def run(context):\n    return 1\n")
    model(asking, max_tool_calls=2)
    run_id = asked(asking)
    row = asking.until_ended(run_id)
    assert row.status == "failed"
    assert [each["type"] for each in events(asking, run_id, "step.failed")] == ["ModelCallLimit"]
    assert len(events(asking, run_id)) == 2


def test_a_tool_gets_its_secrets_and_the_model_does_not(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}))
    tool(asking, "def run(context):\n    return 'with ' + context.secret('rates-api')\n", secrets=["rates-api"])
    model(asking)
    assert asking.until_ended(asked(asking)).status == "completed"
    assert told(server) == [{"result": "with [secret]"}]
    assert "planted-7d1c44e0" not in json.dumps([request.body for request in server.requests])


def test_what_a_tool_gives_the_model_is_swept_by_the_policy(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}, {"fail": True}))
    code = """
        def run(context):
            if context.input:
                raise ValueError("ask jane.roe@example.org")
            return {"from": "jane.roe@example.org"}
    """
    tool(asking, code)
    model(asking)
    run_id = asked(asking, workflow={"pii_policy": {"mode": "redact"}})
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    assert len(told(server)) == 2
    assert "jane.roe" not in json.dumps([request.body for request in server.requests])


def test_a_large_result_that_the_sweep_makes_small_is_told_as_json(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}))
    tool(asking, "def run(context):\n    return ['jane.roe.of.the.long.house@example.org'] * 2_200\n")
    model(asking)
    row = asking.until_ended(asked(asking, workflow={"pii_policy": {"mode": "redact"}}))
    assert row.status == "completed", row.error_message
    assert told(server) == [{"result": ["[EMAIL_ADDRESS]"] * 2_200}]


def test_objects_that_a_model_reads_are_swept_by_the_policy(
    asking: RuntimeWorld, server: OpenAIServer, s3_server: S3Server
) -> None:
    key = "in/jane.roe@example.org/a.txt"
    s3_server.fill("docs", {key: b"ask jane.roe@example.org", "in/plain.txt": b"ask us"})
    connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": s3_server.url}
    asking.apply(json.dumps(connector))
    tested = asking.workflow_calls("TestConnector", workflows_pb2.TestConnectorRequest(name="inbox"))
    assert tested.passed, tested.message
    model(asking, "connectors")
    server.will(
        Reply(calls=(ToolCall("list_connector_objects", {"connector": "inbox", "prefix": "in/"}),)),
        Reply(calls=(ToolCall("read_connector_object", {"connector": "inbox", "key": "in/plain.txt"}),)),
        Reply("done"),
    )
    steps = [agent_step("ask", "asker", connectors=["inbox"])]
    assert asking.until_ended(asking.run("Plain", steps)).status == "completed"
    assert [each["key"] for each in told(server)[0]["objects"]] == [key, "in/plain.txt"]
    server.requests.clear()
    server.will(
        Reply(calls=(ToolCall("list_connector_objects", {"connector": "inbox", "prefix": "in/"}),)),
        Reply(calls=(ToolCall("read_connector_object", {"connector": "inbox", "key": key}),)),
        Reply("done"),
    )
    run_id = asking.run("Swept", steps, workflow={"pii_policy": {"mode": "redact"}})
    row = asking.until_ended(run_id)
    assert row.status == "completed", row.error_message
    listed, read = told(server)
    assert listed["objects"][0]["key"] == "in/[EMAIL_ADDRESS]/a.txt"
    assert read == {"text": "ask [EMAIL_ADDRESS]", "size_bytes": 24, "next_offset": None}


def test_an_answer_with_a_number_that_is_not_finite_is_returned_to_the_model(
    asking: RuntimeWorld, server: OpenAIServer
) -> None:
    server.will(
        Reply(calls=(ToolCall("final_result", {"rate": float("inf")}),)),
        Reply(calls=(ToolCall("final_result", {"rate": 1.5}),)),
    )
    asking.apply(
        json.dumps(
            {
                "kind": "Agent",
                "name": "asker",
                "type": "llm",
                "model": "openai:gpt-5",
                "instructions": "Be brief.",
                "output_schema": {"type": "object", "properties": {"rate": {"type": "number"}}},
            }
        )
    )
    row = asking.until_ended(asked(asking))
    assert row.status == "completed", row.error_message
    assert "a number that is not finite" in json.dumps(server.requests[-1].body)


def test_a_tool_is_pinned_by_the_version_and_not_deleted(asking: RuntimeWorld, server: OpenAIServer) -> None:
    tool(asking, "def run(context):\n    return 1\n")
    model(asking)
    server.will(*calls({}))
    first = asked(asking)
    assert asking.until_ended(first).status == "completed"
    assert asking.count("workflow_version_resources", "kind = 'agent' AND name = 'rates'") == 1
    tool(asking, "def run(context):\n    return 2\n")
    assert asking.count("workflow_version_resources", "kind = 'agent' AND name = 'rates'") == 2, "a new version"
    with pytest.raises(ApiError, match="used by workflow 'Asks'"):
        delete(asking, "rates")
    model(asking, "files")
    newest = "version = (SELECT max(newest_version) FROM workflows) AND kind = 'agent' AND name = 'rates'"
    assert asking.count("workflow_version_resources", newest) == 0, "the newest version has no such tool"
    delete(asking, "rates")
    model(asking)
    with pytest.raises(RefusedError) as refused:
        asking.started("Asks")
    reason = "Agent 'asker' has no tool 'rates': there was no agent of that name when this version was saved."
    assert refused.value.reasons == (reason,)
    tool(asking)
    assert asking.count("workflow_version_resources", newest) == 1


def test_a_changed_tool_has_a_resumed_run_ask_again(asking: RuntimeWorld, server: OpenAIServer) -> None:
    server.will(*calls({}))
    tool(asking, "def run(context):\n    return 1\n")
    model(asking)
    ended = asking.run("Resumed", [agent_step("ask", "asker"), agent_step("last", "fail", "ask")])
    assert asking.until_ended(ended).status == "failed"
    assert list(resume(asking, ended).reused) == ["ask"]
    tool(asking, "def run(context):\n    return 2\n")
    answer = resume(asking, ended, again=True)
    assert why(answer)["ask"] == "An agent that its agent has as a tool has changed."
