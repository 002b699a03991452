"""The code and the commands on docs/grpc.md work as they stand there."""

import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from workflow_api.v1 import audit_pb2, keys_pb2, outputs_pb2, runs_pb2
from workflow_api.v1.audit_pb2_grpc import AuditServiceStub
from workflow_api.v1.keys_pb2_grpc import KeysServiceStub
from workflow_api.v1.outputs_pb2_grpc import OutputsServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_testing import FakeBackend, TestBackend

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "grpc.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BY_HAND = [block.partition("```")[0].splitlines() for block in PAGE.partition("## By hand")[2].split("```bash\n")[1:]]
COMMANDS, KEY_COMMANDS = BY_HAND
BUF = Path(sys.executable).parent / "buf"
# A channel over TLS: `tests/contract` and `examples/grpc_client.py` open such ones.
NOT_RUN = "channel"


def defined(name: str) -> Any:
    """Returns what the block of the page defines that has this name at the beginning of a line."""
    [block] = [block for block in BLOCKS if re.search(rf"^(def )?{name}\b", block, re.MULTILINE)]
    scope: dict[str, Any] = {"grpc": grpc}
    exec(block, scope)  # noqa: S102 - the block is of this repository
    return scope[name]


def started(backend: TestBackend) -> str:
    start = runs_pb2.StartRunRequest(workflow_id=backend.add_workflow("Text digest"), idempotency_key="first")
    return backend.stub(RunsServiceStub).StartRun(start).run.summary.run_id


def test_every_block_of_the_page_is_tried_here() -> None:
    tried = {"OPTIONS", "reason_of", "follow", "go_on", NOT_RUN}
    names = {name for block in BLOCKS for name in re.findall(r"^(?:def )?(\w+)(?: = |\()", block, re.MULTILINE)}
    assert names - {"credentials"} == tried


def test_a_channel_with_the_options_of_the_page_reads_the_reason_of_a_refusal(backend: TestBackend) -> None:
    with grpc.insecure_channel(backend.address, options=defined("OPTIONS")) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            RunsServiceStub(channel).GetRun(runs_pb2.GetRunRequest(run_id="run_none"), timeout=60)
        assert defined("reason_of")(refused.value) == "RUN_NOT_FOUND"


def test_events_are_followed_to_the_end_of_the_run(backend: TestBackend) -> None:
    run_id = started(backend)
    events = defined("follow")(backend.stub(RunsServiceStub), run_id)
    backend.begin(run_id)
    assert next(events).type == "segment.started"
    backend.finish_run(run_id)
    assert [event.type for event in events][-2:] == ["run.completed", "segment.ended"]


def test_events_are_followed_over_the_end_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    def events(request: runs_pb2.WatchRunEventsRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        seq = request.after_seq + 1
        yield runs_pb2.WatchRunEventsResponse(segment_id="seg_1", event=runs_pb2.Event(seq=seq))
        if seq < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "The backend stops.")

    with FakeBackend() as fake, grpc.insecure_channel(fake.address) as channel:
        fake.handle("WatchRunEvents", events)
        assert [event.seq for event in defined("follow")(RunsServiceStub(channel), "run_1")] == [1, 2, 3]
        asked = [(request.segment, request.after_seq) for request in fake.requests("WatchRunEvents")]
        assert asked == [("", 0), ("seg_1", 1), ("seg_1", 2)]


@pytest.mark.parametrize("present", [b"", b"Hel", b"Hello."])
def test_a_download_goes_on_where_it_ended(backend: TestBackend, present: bytes) -> None:
    run_id = started(backend)
    backend.finish_run(run_id, outputs={"hello.txt": "Hello."})
    outputs = backend.stub(OutputsServiceStub)
    listed = outputs.ListOutputs(outputs_pb2.ListOutputsRequest(run_id=run_id)).items
    [hello] = [item for item in listed if item.name == "hello.txt"]
    file = io.BytesIO(present)
    defined("go_on")(outputs, run_id, hello, file)
    assert file.getvalue() == b"Hello."


def as_buf(command: str) -> list[str]:
    """Returns a command of the page as one of buf, which says the same in other words."""
    words = shlex.split(command)
    if words[0] == "buf":
        return words[1:]
    *options, address, rpc = words[2:]
    return ["curl", "--protocol", "grpc", *options, f"http://{address}/{rpc}"]


def called(backend: TestBackend, command: str) -> str:
    """Returns the answer to a command of the page, which calls this backend instead."""
    words = as_buf(command.replace("127.0.0.1:9090", "localhost"))
    done = subprocess.run(
        [BUF, *words, "--unix-socket", backend.address.removeprefix("unix:")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [each for each in COMMANDS if "/" in each])
def test_the_commands_of_the_page_call_the_services(backend: TestBackend, command: str) -> None:
    run_id = started(backend)
    answer = called(backend, command.replace("run_…", run_id))
    assert any(found in answer for found in (run_id, '"Text digest"', "RunsService/WatchRun\n"))


def test_the_commands_for_keys_create_one_and_revoke_it(backend: TestBackend) -> None:
    create, revoke = KEY_COMMANDS
    made = json.loads(called(backend, create))
    key_id = made["record"]["key"]["keyId"]
    assert made["keyValue"].startswith(f"{key_id}.")
    keys = backend.stub(KeysServiceStub)
    request = keys_pb2.GetKeyRequest(key_id=key_id)
    assert keys.GetKey(request).state == "active"
    called(backend, revoke.replace("ak_…", key_id))
    assert keys.GetKey(request).state == "revoked"
    audit = backend.stub(AuditServiceStub).ListAuditRecords(audit_pb2.ListAuditRecordsRequest())
    assert {record.actor for record in audit.items} == {"service:terraform", "internal"}
