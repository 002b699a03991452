"""A service whose inputs and outputs are objects of a server that enforces users, roles and policies."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Caller
from tests.support.poll import until
from tests.support.s3_server import S3Server
from tests.support.service import Service
from workflow_api.v1 import workflows_pb2

pytestmark = pytest.mark.long

READ = ("s3:ListBucket", "s3:GetObject")
OBJECTS = {f"in/{n:03}/document é.txt": f"text {n}".encode() for n in range(200)}
READER = """
def run(context):
    folder = context.inputs / "documents"
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.txt")}
    (context.outputs / "all.txt").write_text("\\n".join(sorted(texts.values())))
    return {"files": len(texts), "sample": texts["007/document é.txt"]}
"""


@pytest.fixture
def stored(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that keeps its objects in a bucket."""
    s3_server.fill("kept", {})
    s3_server.fill("docs", OBJECTS)
    key_id, secret = s3_server.user("worker", "s3:*", "sts:AssumeRole")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    given = {"STORE": "s3", "BUCKET": "kept", "PREFIX": "dep/", "ENDPOINT_URL": s3_server.url, "SSE": "AES256"}
    for name, value in given.items():
        monkeypatch.setenv(f"WORKFLOW_API_OBJECTS_{name}", value)
    service = Service(tmp_path)
    service.start()
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def caller(stored: Service) -> Caller:
    return stored.new_caller()


def reader_of(service: Service, server: S3Server, role: str | None) -> str:
    """A ready workflow that reads the documents in this role."""
    connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "prefixes": ["in/"]}
    documents = [
        connector | {"endpoint_url": server.url, "role_arn": role},
        {"kind": "Environment", "name": "standard"},
        {"kind": "Agent", "name": "reader", "type": "python", "code": READER},
        {
            "kind": "Workflow",
            "name": "Reads",
            "status": "active",
            "parameters": [{"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True}],
            "steps": [{"step": "read", "agent": "reader", "environment": "standard"}],
            "result": {"step": "read"},
        },
    ]
    return service.admin.apply("\n---\n".join(map(json.dumps, documents)))["Reads"]


def connection_passes(service: Service) -> bool:
    return service.admin.workflows.TestConnector(workflows_pb2.TestConnectorRequest(name="inbox")).passed


def keys_of(server: S3Server, bucket: str) -> list[str]:
    return [one["Key"] for one in server.s3.list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_200_objects_are_copied_in_and_the_outputs_are_stored_until_erased(
    stored: Service, caller: Caller, s3_server: S3Server
) -> None:
    workflow = reader_of(stored, s3_server, s3_server.role("reader", "worker", *READ))
    s3_server.enforce()
    assert connection_passes(stored)
    run = caller.finished(workflow, parameters={"documents": "s3://docs/in/"})
    assert run["status"] == "completed", run
    assert run["result"] == {"files": 200, "sample": "text 7"}
    (entry,) = run["inputs_manifest"]
    assert (entry["parameter"], entry["uri"]) == ("documents", "s3://docs/in/")
    assert (entry["objects"], entry["bytes"]) == (200, sum(map(len, OBJECTS.values())))
    assert {item["key"]: item["size_bytes"] for item in entry["items"]} == {key: len(OBJECTS[key]) for key in OBJECTS}

    run_id = run["run_id"]
    output = caller.outputs(run_id)["read/all.txt"]
    content = f"/runs/{run_id}/outputs/{output['output_id']}/content"
    whole = "\n".join(sorted(body.decode() for body in OBJECTS.values())).encode()
    assert caller.get(content).body == whole
    part = caller.get(content, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole[10:20])
    bundle = zipfile.ZipFile(io.BytesIO(caller.get(f"/runs/{run_id}/outputs.zip").body))
    assert bundle.read("read/all.txt") == whole

    s3_server.enforce(enforced=False)
    assert f"dep/runs/{run_id}/{output['output_id']}" in keys_of(s3_server, "kept")
    assert caller.delete(f"/runs/{run_id}/data").status == 202
    until(lambda: not [key for key in keys_of(s3_server, "kept") if run_id in key], "the removal")


def test_a_role_that_is_denied_fails_the_run_as_input_materialisation_failed(
    stored: Service, caller: Caller, s3_server: S3Server
) -> None:
    workflow = reader_of(stored, s3_server, None)
    assert connection_passes(stored)
    denied = s3_server.role("denied", "worker")
    assert reader_of(stored, s3_server, denied) == workflow
    s3_server.enforce()
    run = caller.finished(workflow, parameters={"documents": "s3://docs/in/"})
    assert run["status"] == "failed"
    assert run["error"]["code"] == "input_materialisation_failed"
    assert f"the role {denied} was denied" in run["error"]["message"]
    assert run["counts"]["steps_completed"] == 0
    assert run["inputs_manifest"] in (None, [])
    s3_server.enforce(enforced=False)


def test_an_empty_prefix_and_an_exceeded_cap_fail_the_run_with_a_message_that_says_which(
    stored: Service, caller: Caller, s3_server: S3Server
) -> None:
    workflow = reader_of(stored, s3_server, None)
    assert connection_passes(stored)
    empty = caller.finished(workflow, parameters={"documents": "s3://docs/in/nothing/"})
    s3_server.fill("docs", {f"in/more/{n}": b"" for n in range(501)})
    many = caller.finished(workflow, parameters={"documents": "s3://docs/in/more/"})
    assert [run["error"]["code"] for run in (empty, many)] == ["input_materialisation_failed"] * 2
    assert "there are no objects" in empty["error"]["message"]
    assert "there are more than 500 objects (max_objects)" in many["error"]["message"]
