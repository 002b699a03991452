"""Inputs and connection tests against a server that enforces users, roles and policies."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.support.s3_server import S3Server
from workflow_api.v1 import workflows_pb2

READ = ("s3:ListBucket", "s3:GetObject")
LISTER = """
def run(context):
    folder = context.inputs / "documents"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
"""


class Inbox:
    """A connector to a bucket on the server, and a workflow that reads from it."""

    def __init__(self, world: RuntimeWorld, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.server = server
        server.fill("docs", {f"in/{n:03}.txt": str(n).encode() for n in range(20)})
        key_id, secret = server.user("worker", "sts:AssumeRole")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        world.apply(json.dumps({"kind": "Agent", "name": "lister", "type": "python", "code": LISTER}))
        parameter = {"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True}
        steps = [agent_step("list", "lister")]
        world.workflows |= world.apply(manifest("Lists", steps, parameters=[parameter], result={"step": "list"}))

    def connect(self, **fields: str | None) -> None:
        connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs"}
        self.world.apply(json.dumps(connector | {"endpoint_url": self.server.url} | fields))

    def test(self) -> workflows_pb2.ConnectorTest:
        outcome: workflows_pb2.ConnectorTest = self.world.workflow_calls(
            "TestConnector", workflows_pb2.TestConnectorRequest(name="inbox")
        )
        return outcome

    def reasons(self) -> list[str]:
        request = workflows_pb2.GetWorkflowRequest(workflow_id=self.world.workflows["Lists"])
        return list(self.world.workflow_calls("GetWorkflow", request).readiness.reasons)

    def failure(self, run_id: str) -> str:
        row = self.world.until_ended(run_id)
        assert (row.status, row.error_code) == ("failed", "input_materialisation_failed")
        assert "step.started" not in self.world.event_types(run_id)
        return str(row.error_message)

    def start(self) -> str:
        return self.world.started("Lists", parameters={"documents": "s3://docs/in/"})


@pytest.fixture
def inbox(world: RuntimeWorld, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    inbox = Inbox(world, s3_server, monkeypatch)
    yield inbox
    s3_server.enforce(enforced=False)


def test_the_message_of_a_failed_input_is_swept(inbox: Inbox) -> None:
    place = "s3://docs/jane.roe@example.com/"
    inbox.connect()
    assert inbox.test().passed
    run_id = inbox.world.started("Lists", parameters={"documents": place}, pii_policy_override={"mode": "redact"})
    assert "Parameter 'documents': [URL] could not be copied in" in inbox.failure(run_id)
    assert "jane.roe" not in str(inbox.world.all_events(run_id))


def test_objects_come_in_by_the_connectors_role(inbox: Inbox) -> None:
    inbox.connect(role_arn=inbox.server.role("reader", "worker", *READ))
    inbox.server.enforce()
    assert inbox.test().passed
    row = inbox.world.until_ended(inbox.start())
    assert json.loads(row.result) == {f"{n:03}.txt": str(n) for n in range(20)}
    (entry,) = json.loads(row.inputs_manifest)
    assert (entry["objects"], entry["bytes"], entry["uri"]) == (20, 30, "s3://docs/in/")
    assert entry["items"][1] == {"key": "in/001.txt", "size_bytes": 1, "etag": "c4ca4238a0b923820dcc509a6f75849b"}


@pytest.mark.parametrize(
    ("trusted", "actions", "why"),
    [
        ("nobody", READ, r"{role} could not be assumed: the service's own credentials were denied AssumeRole \(Acc"),
        ("worker", (), r"{role} was denied ListObjectsV2 \(AccessDenied\)$"),
        ("worker", ("s3:ListBucket",), r"{role} was denied GetObject \(AccessDenied\)$"),
    ],
)
def test_a_role_that_the_server_denies_fails_the_run_before_any_step(
    inbox: Inbox, trusted: str, actions: tuple[str, ...], why: str
) -> None:
    role = inbox.server.role("reader", trusted, *actions)
    inbox.connect(role_arn=None)
    assert inbox.test().passed
    inbox.connect(role_arn=role)
    inbox.server.enforce()
    message = inbox.failure(inbox.start())
    assert message.startswith("Parameter 'documents': s3://docs/in/ could not be copied in: the ")
    assert re.search("the role " + why.replace("{role}", role), message)
    assert "user/worker" not in message


def test_a_connection_test_is_denied_by_the_server_and_recorded(inbox: Inbox) -> None:
    inbox.connect(role_arn=inbox.server.role("reader", "worker"))
    inbox.server.enforce()
    outcome = inbox.test()
    assert not outcome.passed
    assert "role/reader was denied" in outcome.message
    assert inbox.reasons() == ["Connector 'inbox' needs attention: its last connection test failed."]


def test_a_passed_test_of_any_version_is_enough_until_the_newest_test_fails(inbox: Inbox) -> None:
    inbox.connect(role_arn=inbox.server.role("reader", "worker", *READ))
    inbox.server.enforce()
    assert inbox.reasons() == ["Connector 'inbox' has no recorded passing connection test."]
    assert inbox.test().passed
    assert inbox.reasons() == []
    inbox.server.enforce(enforced=False)
    inbox.connect(role_arn=inbox.server.role("closed", "worker"))
    inbox.server.enforce()
    assert inbox.reasons() == []
    assert (inbox.test().version, inbox.test().passed) == (2, False)
    assert inbox.reasons() == ["Connector 'inbox' needs attention: its last connection test failed."]
    assert inbox.world.count("connector_tests", "passed = 1") == 1
