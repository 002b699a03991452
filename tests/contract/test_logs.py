"""Secrets planted in typical calls and runs appear in no log, at the most verbose level."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.conftest import NewDatabase
from tests.support.client import Caller
from tests.support.log_lines import lines_of
from tests.support.openai_server import OpenAIServer, Reply
from tests.support.planted import leaks_in
from tests.support.poll import until
from tests.support.s3_server import S3Server
from tests.support.service import Service
from tests.support.wire import exchange, request
from workflow_api.v1 import runs_pb2, workflows_pb2

MODEL_KEY = "sk-planted-model-key-51X"
GRAPH_KEY = "planted-graph-token-77Q"
INPUT = "planted input of Hanna Planted, hanna.planted@example.org, DE89370400440532013000"
OUTPUT = "planted output of the step"
PARAMETER = "planted-parameter-value"
LABEL, REFERENCE = "planted-label-value", "planted-client-reference"
RAISED, PRINTED = "planted text of an exception", "planted line on standard error"
ANSWER = "planted answer of the model"
REASON, COMMENT = "planted reason of somebody", "planted comment of an approver"
OBJECT_KEY, CONTENT = "in/planted-object-of-hanna.txt", "planted content of an object"
BODY = "planted text in a broken body"
STRANGERS = f"ak_{token_hex(6)}.{token_hex(20)}"
STRANGERS_ID = f"ake_{token_hex(16)}"
CODE = "planted in the code of an agent"
FILE_NAME = "planted-file-of-hanna.txt"

EVERYTHING = (
    MODEL_KEY,
    GRAPH_KEY,
    INPUT,
    "hanna.planted@example.org",
    "DE89370400440532013000",
    OUTPUT,
    PARAMETER,
    LABEL,
    REFERENCE,
    RAISED,
    PRINTED,
    ANSWER,
    REASON,
    COMMENT,
    OBJECT_KEY,
    CONTENT,
    BODY,
    STRANGERS.partition(".")[2],
    STRANGERS_ID,
    CODE,
)

AGENTS = {
    "writer": f"""
import sys
# {CODE}
def run(context):
    print({PRINTED!r}, file=sys.stderr)
    (context.outputs / {FILE_NAME!r}).write_text({OUTPUT!r} + (context.input_text or ""))
    context.progress({OUTPUT!r}, text=context.input_text)
    return {{"text": context.input_text, "planted": {OUTPUT!r}}}
""",
    "breaker": f"def run(context):\n    raise ValueError({RAISED!r} + context.input_text)\n",
    "liar": f"def run(context):\n    return object({RAISED!r})\n",
    "reader": """
def run(context):
    return {"read": [path.read_text() for path in sorted((context.inputs / "documents").rglob("*.txt"))]}
""",
}


@dataclass(frozen=True)
class Scene:
    service: Service
    provider: OpenAIServer
    worker: tuple[str, str]
    planted: tuple[str, ...]


@pytest.fixture
def scene(
    s3_server: S3Server, new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    s3_server.fill("kept", {})
    s3_server.fill("docs", {OBJECT_KEY: CONTENT.encode()})
    worker = s3_server.user("worker", "s3:*")
    reader = s3_server.user("reader", "s3:ListBucket", "s3:GetObject")
    s3_server.enforce()
    (tmp_path / "reader").write_text(json.dumps({"access_key_id": reader[0], "secret_access_key": reader[1]}))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", worker[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", worker[1])
    monkeypatch.setenv("PLANTED_MODEL_KEY", MODEL_KEY)
    config = tmp_path / "settings.toml"
    provider = OpenAIServer()
    config.write_text(
        f'log_level = "debug"\n[secrets]\nmodel = "env:PLANTED_MODEL_KEY"\nreader = "file:{tmp_path}/reader"\n'
        f'[models.openai-chat]\napi_key = "model"\nbase_url = "{provider.base_url}"\n'
        f'[objects]\nstore = "s3"\nbucket = "kept"\nendpoint_url = "{s3_server.url}"\n'
    )
    service = Service(tmp_path, "--config", str(config), database=new_database())
    service.start()
    try:
        yield Scene(service, provider, worker, (*EVERYTHING, *worker, *reader))
    finally:
        service.stop()
        provider.close()


def manifests(url: str) -> str:
    python = [{"kind": "Agent", "name": name, "type": "python", "code": code} for name, code in AGENTS.items()]
    given: list[dict[str, Any]] = [
        {"kind": "Environment", "name": "standard"},
        {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": url, "secret": "reader"},
        *python,
        {
            "kind": "Agent",
            "name": "model",
            "type": "llm",
            "model": "openai-chat:gpt",
            "instructions": CODE,
            "keep_transcript": True,
        },
    ]
    policy = {"mode": "redact", "categories": "all", "stages": ["inputs", "steps", "outputs"]}
    kinds: dict[str, dict[str, Any]] = {
        "Writes": {"steps": [step("write", "writer")], "result": {"step": "write"}},
        "Sweeps": {"steps": [step("write", "writer")], "result": {"step": "write"}, "pii_policy": policy},
        "Breaks": {"steps": [step("break", "breaker")]},
        "Lies": {"steps": [step("lie", "liar")], "result": {"step": "lie", "schema": {"type": "object"}}},
        "Asks": {"steps": [step("ask", "model")], "result": {"step": "ask"}},
        "Parks": {"steps": [{"step": "gate", "approval": {"title": COMMENT}}, step("write", "writer", "gate")]},
        "Reads": {
            "parameters": [{"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True}],
            "steps": [step("read", "reader")],
        },
    }
    text = {"name": "text", "type": "string"}
    for name, workflow in kinds.items():
        given.append({"kind": "Workflow", "name": name, "status": "active", "parameters": [text], **workflow})
    return "\n---\n".join(map(json.dumps, given))


def step(name: str, agent: str, *needs: str) -> dict[str, Any]:
    return {"step": name, "agent": agent, "environment": "standard", "needs": list(needs)}


def test_typical_calls_and_runs_leave_nothing_sensitive_in_the_log(scene: Scene, s3_server: S3Server) -> None:
    service, admin = scene.service, scene.service.admin
    flows = admin.apply(manifests(s3_server.url))
    assert admin.workflows.TestConnector(workflows_pb2.TestConnectorRequest(name="inbox")).passed
    caller = service.new_caller(name="planted key")
    given = {
        "input_text": INPUT,
        "parameters": {"text": PARAMETER},
        "labels": {"team": LABEL},
        "client_reference": REFERENCE,
    }

    for name in ("Writes", "Sweeps", "Breaks", "Lies"):
        run = caller.finished(flows[name], **given)
        assert run["status"] == ("completed" if name in {"Writes", "Sweeps"} else "failed"), run
        until(lambda: caller.get(f"/runs/{run['run_id']}/outputs").status == 200, "the outputs")  # noqa: B023 - at once
        for output in caller.outputs(run["run_id"]).values():
            assert caller.get(output["download"]["path"].removeprefix("/api/v1")).status == 200
        caller.events(run["run_id"])
        assert caller.delete(f"/runs/{run['run_id']}/data", {"reason": REASON}).status == 202
    kept = s3_server.client("s3", scene.worker)
    until(lambda: not kept.list_objects_v2(Bucket="kept").get("Contents"), "the objects to be gone")

    scene.provider.will(Reply(ANSWER), Reply(status=401, message=ANSWER), Reply(status=500, message=ANSWER, body=b"{"))
    for status in ("completed", "failed", "failed"):
        assert caller.finished(flows["Asks"], **given)["status"] == status

    s3 = given | {"parameters": {"documents": "s3://docs/in/"}}
    assert caller.finished(flows["Reads"], **s3)["status"] == "completed"
    s3_server.forbid("reader")
    assert caller.finished(flows["Reads"], **s3)["status"] == "failed"

    parked = caller.parked(flows["Parks"], **given)
    (approval,) = caller.get(f"/runs/{parked['run_id']}/approvals").json()["items"]
    admin.decide(approval["approval_id"], approve=False, comment=COMMENT)
    caller.wait(parked["run_id"])
    cancelled = caller.parked(flows["Parks"], **given)
    assert caller.post(f"/runs/{cancelled['run_id']}/cancel", {"reason": REASON}).status == 202

    failing_calls(caller, flows["Writes"], given)
    left = caller.finished(flows["Writes"], **given)["run_id"]
    # A small result is read from the run's row.
    output = next(each for path, each in caller.outputs(left).items() if path != "result.json")
    s3_server.forbid("worker")
    assert caller.get(output["download"]["path"].removeprefix("/api/v1")).status == 502
    assert caller.delete(f"/runs/{left}/data", {"reason": REASON}).status == 202
    until(lambda: f"The removal of objects of run {left} failed" in service.log(), "the failed removal")
    admin.runs.RunUpkeep(runs_pb2.RunUpkeepRequest())
    service.kill()
    s3_server.enforce(enforced=False)
    service.start()
    caller = Caller(service.address, caller.key_id, caller.key, caller.external_id)
    until(lambda: caller.get("/me").status == 200, "the service to be back")
    service.stop()

    log = service.log()
    assert list(leaks_in(log, (*scene.planted, caller.key.partition(".")[2], caller.external_id, FILE_NAME))) == []
    assert {"request", "call", "run", "step"} <= {line["event"] for line in lines_of(log)}


def failing_calls(caller: Caller, workflow_id: str, given: dict[str, Any]) -> None:
    """What callers get wrong, each with something of theirs in it."""
    unknown_credentials = {"Authorization": f"Bearer {STRANGERS}", "X-Service-Key-External-Id": STRANGERS_ID}
    start = f"/workflows/{workflow_id}/runs"
    idempotent = {"Idempotency-Key": "planted-idempotency-key"}
    broken = json.dumps({"input_text": BODY}).encode()[:-3]
    statuses = [
        caller.get("/me", headers=unknown_credentials).status,
        caller.get("/me", headers={"X-Service-Key-External-Id": STRANGERS_ID}).status,
        caller.call("POST", start, headers=idempotent, body=broken).status,
        caller.call("POST", start, headers=idempotent, body=b'"' + BODY.encode() + b'"').status,
        caller.start(workflow_id, **{**given, "parameters": {"text": 5, PARAMETER: PARAMETER}}).status,
        caller.start(workflow_id, **{**given, "labels": {LABEL: "\x00"}}).status,
        caller.get(f"/{caller.key}").status,
        caller.get("/runs", status=INPUT).status,
        caller.get("/runs", cursor=STRANGERS).status,
        caller.get(f"/runs/{STRANGERS}").status,
    ]
    assert statuses == [401, 401, 400, 400, 400, 400, 404, 400, 400, 404]
    bearer, external_id = caller.credential_headers
    malformed = (
        request("GET", "/me", bearer, external_id).replace(b"Authorization: ", b"Authorization "),
        request("GET", "/me", bearer, (external_id[0], external_id[1] + "\x01")),
        request("GET", "/me", ("Authorization", f"{bearer[1]}\x00"), external_id),
        request("GET", f"/me?key={caller.key} HTTP/1.1 {caller.key}", bearer, external_id),
        b"GET /" + caller.key.encode() + b"\r\n\r\n",
        request("POST", start, bearer, external_id, ("Content-Length", BODY), body=BODY.encode()),
        request("POST", start, bearer, external_id, ("Transfer-Encoding", "chunked"), body=BODY.encode() + b"\r\n"),
    )
    for data in malformed:
        assert exchange(caller.address, data).status in {400, 401, 404}
