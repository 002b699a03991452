import json
from pathlib import Path

import pytest

from backend.errors import ApiError
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import deployment_pb2, errors_pb2, runs_pb2, workflows_pb2

WORKFLOW = workflows_pb2.Workflow(
    workflow_id="wf_1",
    name="[bold]Digest",
    status=workflows_pb2.WORKFLOW_STATUS_ACTIVE,
    version=3,
    readiness=workflows_pb2.Readiness(ready=True),
)


def test_set_reads_names_and_values(backend: FakeBackend) -> None:
    backend.answers["UpdateDeployment"] = deployment_pb2.Deployment(deployment_id="plant", retention_days=30)

    changed = command(
        *("deployment", "set", "governed=true", "api_enabled=false", "licence=hold", "licence_reason=unpaid = late"),
        *("retention_days=30", "--grpc", backend.address, "--json"),
    )

    assert changed.json["retention_days"] == 30
    assert backend.request("UpdateDeployment") == deployment_pb2.UpdateDeploymentRequest(
        governed=True, api_enabled=False, licence_state="hold", licence_reason="unpaid = late", retention_days=30
    )


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("governed=yes", "governed must be true or false, not 'yes'"),
        ("licence=banana", "licence must be active or hold, not 'banana'"),
        ("retention_days=1_0", "retention_days must be a whole number"),
        ("release=2", "NAME one of governed, api_enabled, licence,"),
        ("governed", "'governed' is not NAME=VALUE"),
    ],
)
def test_set_refuses_what_it_cannot_read(assignment: str, message: str) -> None:
    refused = command("deployment", "set", assignment, "--grpc", "127.0.0.1:1")

    assert refused.code == 2
    assert message in refused.err


def test_set_refuses_a_name_given_twice() -> None:
    assert "governed is given twice" in command("deployment", "set", "governed=true", "governed=false").err


def test_list_gathers_every_page_of_workflows(backend: FakeBackend) -> None:
    backend.answers["ListWorkflows"] = [
        workflows_pb2.ListWorkflowsResponse(items=[WORKFLOW], next_page_token="more"),
        workflows_pb2.ListWorkflowsResponse(items=[WORKFLOW]),
    ]

    listed = command("workflows", "list", "--grpc", backend.address, "--json")

    assert [item["status"] for item in listed.json["items"]] == ["active", "active"]
    first, second = (request for _, request in backend.requests)
    assert first == workflows_pb2.ListWorkflowsRequest(page_size=100, include_inactive=True)
    assert second == workflows_pb2.ListWorkflowsRequest(page_size=100, include_inactive=True, page_token="more")


def test_names_are_printed_without_markup(backend: FakeBackend) -> None:
    backend.answers["ListWorkflows"] = workflows_pb2.ListWorkflowsResponse(items=[WORKFLOW])
    assert "[bold]Digest" in command("workflows", "list", "--grpc", backend.address).out


def test_show_prints_the_definition(backend: FakeBackend) -> None:
    resources = [
        workflows_pb2.VersionResource(kind="Agent", name="counter", id="agt_1", version=7),
        workflows_pb2.VersionResource(kind="Environment", name="large"),
    ]
    definition = workflows_pb2.WorkflowDefinition(
        workflow=WORKFLOW, version=2, definition='{"name": "Digest"}', resources=resources
    )
    backend.answers["GetWorkflowDefinition"] = [definition, definition]

    shown = command("workflows", "show", "Digest", "--version", "2", "--grpc", backend.address)
    as_json = command("workflows", "show", "Digest", "--version", "2", "--grpc", backend.address, "--json")

    assert shown.out.endswith("name: Digest\n")
    assert "Agent counter: version 7" in shown.out
    assert "Environment large: none" in shown.out
    assert [each["version"] for each in as_json.json["resources"]] == [7, None]
    assert as_json.json["definition"] == {"name": "Digest"}
    assert backend.requests[0][1] == workflows_pb2.GetWorkflowDefinitionRequest(workflow="Digest", version=2)


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        ("activate", workflows_pb2.WORKFLOW_STATUS_ACTIVE),
        ("deactivate", workflows_pb2.WORKFLOW_STATUS_INACTIVE),
    ],
)
def test_a_workflow_is_activated_and_deactivated(
    backend: FakeBackend, verb: str, status: workflows_pb2.WorkflowStatus.ValueType
) -> None:
    backend.answers["UpdateWorkflowStatus"] = WORKFLOW

    assert command("workflows", verb, "wf_1", "--grpc", backend.address).code == 0
    expected = workflows_pb2.UpdateWorkflowStatusRequest(workflow="wf_1", status=status)
    assert backend.request("UpdateWorkflowStatus") == expected


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_a_connector_that_fails_exits_with_1(backend: FakeBackend, *, passed: bool, code: int) -> None:
    backend.answers["TestConnector"] = workflows_pb2.ConnectorTest(name="inbox", passed=passed, message="denied")

    tested = command("connectors", "test", "inbox", "--grpc", backend.address, "--json")

    assert tested.code == code
    assert tested.json["passed"] is passed


def test_an_internal_failure_names_the_request_id(backend: FakeBackend) -> None:
    backend.answers["TestConnector"] = ApiError(errors_pb2.ERROR_REASON_INTERNAL)

    failed = command("connectors", "test", "inbox", "--grpc", backend.address)
    assert failed.err.endswith(f"(request {backend.metadata['workflow-api-request-id']})\n")

    failed = command("connectors", "test", "inbox", "--grpc", backend.address, "--json")
    assert failed.error["request_id"] == backend.metadata["workflow-api-request-id"]


def test_apply_sends_files_under_their_names(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Agent\nname: Zähler\n")
    applied = workflows_pb2.AppliedResource(kind="Agent", name="Zähler", version=1, outcome="created")
    backend.answers["ApplyManifests"] = workflows_pb2.ApplyManifestsResponse(items=[applied])

    outcome = command("apply", str(file), "--grpc", backend.address)

    (sent,) = backend.request("ApplyManifests").files
    assert (sent.name, sent.content) == (str(file), "kind: Agent\nname: Zähler\n")
    assert outcome.out.splitlines()[1].split() == ["Agent", "Zähler", "1", "created", "-"]


def test_apply_names_new_workflow_versions_and_their_causes(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("kind: Agent\n")
    items = [
        workflows_pb2.AppliedResource(kind="Agent", name="counter", id="agt_1", version=2, outcome="updated"),
        workflows_pb2.AppliedResource(
            kind="Workflow",
            name="Digest",
            id="wf_1",
            version=5,
            outcome="updated",
            changed_resources=["Agent counter", "Environment large"],
        ),
    ]
    backend.answers["ApplyManifests"] = [workflows_pb2.ApplyManifestsResponse(items=items)] * 2

    agent, workflow = command("apply", str(file), "--grpc", backend.address).out.splitlines()[1:]
    assert agent.split() == ["Agent", "counter", "2", "updated", "agt_1"]
    assert " ".join(workflow.split()) == "Workflow Digest 5 updated (Agent counter, Environment large changed) wf_1"

    listed = command("apply", str(file), "--grpc", backend.address, "--json").json["items"]
    assert [item["changed_resources"] for item in listed] == [[], ["Agent counter", "Environment large"]]


def test_apply_prints_every_problem_of_a_manifest(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Agent\n")
    problems = [("flow.yaml:1: name", "must be given"), ("flow.yaml:1: code", "must be given")]
    backend.answers["ApplyManifests"] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)

    refused = command("apply", str(file), "--grpc", backend.address)

    assert refused.code == 1
    assert refused.err.splitlines() == ["flow.yaml:1: name: must be given", "flow.yaml:1: code: must be given"]


def test_apply_names_every_file_it_cannot_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: Z\xe4hler\n")

    refused = command("apply", str(tmp_path / "missing.yaml"), str(latin), "--json")

    assert refused.code == 1
    assert [problem["reason"] for problem in refused.error["details"]] == [
        "cannot be read: No such file or directory",
        "is not UTF-8 at byte 7",
    ]


def test_approvals_are_listed_with_their_run(backend: FakeBackend) -> None:
    approval = runs_pb2.Approval(approval_id="apr_1", step="review", title="Publish?")
    pending = runs_pb2.PendingApproval(approval=approval, run_id="run_1", workflow_name="Report")
    backend.answers["ListPendingApprovals"] = runs_pb2.ListPendingApprovalsResponse(items=[pending])

    (item,) = command("approvals", "list", "--grpc", backend.address, "--json").json["items"]

    assert (item["approval_id"], item["run_id"], item["workflow_name"]) == ("apr_1", "run_1", "Report")


@pytest.mark.parametrize(("verb", "approve"), [("approve", True), ("reject", False)])
def test_a_decision_is_sent_with_its_comment(backend: FakeBackend, verb: str, *, approve: bool) -> None:
    answer = runs_pb2.DecideApprovalResponse(approval_id="apr_1", run_id="run_1", status=runs_pb2.RUN_STATUS_RUNNING)
    backend.answers["DecideApproval"] = answer

    decided = command("approvals", verb, "apr_1", "--comment", "fine", "--grpc", backend.address)

    expected = runs_pb2.DecideApprovalRequest(approval_id="apr_1", approve=approve, comment="fine")
    assert backend.request("DecideApproval") == expected
    assert decided.out == f"apr_1 is {verb.removesuffix('e')}ed; run_1 is running.\n"


def test_reasons_of_a_refusal_are_lines(backend: FakeBackend) -> None:
    reasons = ["Step 'count' has no agent.", "Environment 'x' is not active."]
    backend.answers["UpdateWorkflowStatus"] = ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_READY, reasons=reasons)

    refused = command("workflows", "activate", "wf_1", "--grpc", backend.address)

    assert refused.err.splitlines()[1:] == reasons


def test_json_keeps_letters_of_every_script(backend: FakeBackend) -> None:
    backend.answers["GetDeployment"] = deployment_pb2.Deployment(deployment_id="東雲")

    shown = command("deployment", "show", "--grpc", backend.address, "--json")

    assert "東雲" in shown.out
    assert json.loads(shown.out)["deployment_id"] == "東雲"
