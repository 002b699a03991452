import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common.errors import ApiError
from contract.times import to_timestamp
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import (
    audit_pb2,
    definitions_pb2,
    deployment_health_pb2,
    deployment_pb2,
    errors_pb2,
    keys_pb2,
    reviews_pb2,
    runs_pb2,
    usage_pb2,
    users_pb2,
    workflows_pb2,
)

WORKFLOW = workflows_pb2.Workflow(
    workflow_id="wf_1",
    name="[bold]Digest",
    status=workflows_pb2.WORKFLOW_STATUS_ACTIVE,
    version=3,
    readiness=workflows_pb2.Readiness(ready=True),
)


def test_set_reads_names_and_values(backend: FakeBackend) -> None:
    backend.answers["UpdateDeployment"] = deployment_pb2.Deployment(
        deployment_id="plant", retention=Duration(seconds=30 * 86_400)
    )

    changed = command(
        *("deployment", "set", "governed=true", "api_enabled=false", "licence=hold", "licence_reason=unpaid = late"),
        *("retention_days=30", "--grpc", backend.address, "--json"),
    )

    assert changed.json["retention_days"] == 30
    assert backend.request("UpdateDeployment") == deployment_pb2.UpdateDeploymentRequest(
        governed=True,
        api_enabled=False,
        licence_state="hold",
        licence_reason="unpaid = late",
        retention=Duration(seconds=30 * 86_400),
    )


def test_sizes_of_all_workflows_are_listed(backend: FakeBackend) -> None:
    sizes = [
        deployment_health_pb2.WorkflowSize(workflow_name="Digest", runs=10_000, has_more_runs=True, object_bytes=5_000),
        deployment_health_pb2.WorkflowSize(workflow_id="wf_2", workflow_name="Rare", database_bytes=700),
    ]
    backend.answers["ListWorkflowSizes"] = deployment_health_pb2.ListWorkflowSizesResponse(items=sizes)
    shown = command("deployment", "size", "--grpc", backend.address)
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        ["Digest", "10,000+", "5,000", "0"],
        ["Rare", "0", "0", "700"],
    ]
    listed = command("deployment", "size", "--grpc", backend.address, "--json").json["items"]
    assert listed[1] == {
        "workflow_id": "wf_2",
        "workflow_name": "Rare",
        "runs": 0,
        "has_more_runs": False,
        "sampled_runs": 0,
        "object_bytes": 0,
        "database_bytes": 700,
    }


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


@pytest.mark.parametrize(
    ("rpc", "field", "arguments", "told"),
    [
        ("CreateUser", "name", ("users", "add", "A B", "--role", "approver"), "NAME: must be short"),
        ("DecideApproval", "comment", ("approvals", "approve", "apr_1", "--comment", "x"), "--comment: must be short"),
        ("UpdateDeployment", "retention", ("deployment", "set", "retention_days=1"), "retention_days: must be short"),
        ("GetResource", "version", ("agents", "show", "a", "--version", "0"), "--version: must be short"),
        ("UpdateWorkflowStatus", "workflow", ("workflows", "activate", "x"), "WORKFLOW: must be short"),
    ],
)
def test_a_refusal_names_what_was_given_and_with_json_the_field(
    backend: FakeBackend, rpc: str, field: str, arguments: tuple[str, ...], told: str
) -> None:
    backend.answers[rpc] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=[(field, "must be short")])

    assert command(*arguments, "--grpc", backend.address).err == f"{told}\n"
    as_json = command(*arguments, "--grpc", backend.address, "--json")
    assert as_json.error["details"] == [{"name": field, "reason": "must be short"}]


@pytest.mark.parametrize(
    ("rpc", "empty", "asked", "arguments"),
    [
        ("ListUsageRecords", usage_pb2.ListUsageRecordsResponse(), "GetKey", ("keys", "usage", "ak_1")),
        ("ListAuditRecords", audit_pb2.ListAuditRecordsResponse(), "GetKey", ("audit", "--target", "ak_1")),
        ("ListAuditRecords", audit_pb2.ListAuditRecordsResponse(), "GetRun", ("audit", "--target", "run_1")),
        ("ListRuns", runs_pb2.ListRunsResponse(), "GetWorkflowDefinition", ("runs", "list", "--workflow", "wf_1")),
    ],
)
def test_a_filter_by_what_does_not_exist_fails_instead_of_listing_nothing(
    backend: FakeBackend, rpc: str, empty: Message, asked: str, arguments: tuple[str, ...]
) -> None:
    backend.answers |= {rpc: empty, asked: ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "There is none.")}

    refused = command(*arguments, "--grpc", backend.address)

    assert (refused.code, refused.out, refused.err) == (1, "", "There is none.\n")


def test_an_audit_is_searched_by_every_filter(backend: FakeBackend) -> None:
    backend.answers["ListAuditRecords"] = audit_pb2.ListAuditRecordsResponse()
    filters = ("--actor", "user:ann", "--action", "key.rotated", "--search", "leaked")
    assert command("audit", *filters, "--grpc", backend.address).code == 0
    assert backend.request("ListAuditRecords") == audit_pb2.ListAuditRecordsRequest(
        actor="user:ann", action="key.rotated", search="leaked"
    )


def test_an_export_of_the_audit_is_written_as_it_arrives(backend: FakeBackend) -> None:
    record = audit_pb2.AuditRecord(at=to_timestamp(1), actor="ann", action="key.rotated", target="ak_1", details="{}")
    part = audit_pb2.ExportAuditRecordsResponse(items=[record])
    line = "1970-01-01T00:00:00.001Z,ann,key.rotated,ak_1,{}"
    backend.answers["ExportAuditRecords"] = [part, part]
    written = command("audit", "--export", "csv", "--actor", "ann", "--grpc", backend.address).out
    assert written.splitlines() == ["at,actor,action,target,details", line, line]
    assert backend.request("ExportAuditRecords") == audit_pb2.ExportAuditRecordsRequest(actor="ann")
    assert command("audit", "--export", "xml", "--grpc", backend.address).code == 2


def test_an_audit_of_what_is_no_id_is_refused_with_what_is_allowed(backend: FakeBackend) -> None:
    backend.answers |= {
        "ListAuditRecords": audit_pb2.ListAuditRecordsResponse(),
        "GetDeployment": [deployment_pb2.Deployment(deployment_id="plant") for _ in range(2)],
        "ListUsers": [users_pb2.ListUsersResponse(items=[users_pb2.User(name="ann")]) for _ in range(2)],
    }

    refused = command("audit", "--target", "Digest", "--grpc", backend.address)

    assert refused.code == 1
    assert "There is no change of Digest: --target takes the id of a key" in refused.err
    backend.answers["ListAuditRecords"] = audit_pb2.ListAuditRecordsResponse()
    assert command("audit", "--target", "ann", "--grpc", backend.address).code == 0


def test_a_call_beyond_one_message_of_grpc_is_told_as_such(backend: FakeBackend, tmp_path: Path) -> None:
    manifest = tmp_path / "large.yaml"
    manifest.write_text("#" * 5 * 2**20)

    refused = command("apply", str(manifest), "--grpc", backend.address, "--json")

    assert refused.error["code"] == "invalid_request"
    assert "is larger than one message may be" in refused.error["message"]


def test_set_refuses_a_name_given_twice() -> None:
    assert "governed was given twice" in command("deployment", "set", "governed=true", "governed=false").err


@pytest.mark.parametrize(
    ("group", "answer", "request_message"),
    [
        ("approvals", runs_pb2.ListPendingApprovalsResponse, runs_pb2.ListPendingApprovalsRequest(by_deadline=True)),
        ("graphs", workflows_pb2.ListKnowledgeGraphsResponse, workflows_pb2.ListKnowledgeGraphsRequest()),
        ("keys", keys_pb2.ListKeysResponse, keys_pb2.ListKeysRequest()),
        ("users", users_pb2.ListUsersResponse, users_pb2.ListUsersRequest()),
        (
            "workflows",
            workflows_pb2.ListWorkflowsResponse,
            workflows_pb2.ListWorkflowsRequest(include_inactive=True),
        ),
    ],
    ids=["approvals", "graphs", "keys", "users", "workflows"],
)
def test_list_gathers_every_page(backend: FakeBackend, group: str, answer: Any, request_message: Any) -> None:
    name = answer.DESCRIPTOR.name.removesuffix("Response")
    backend.answers[name] = [answer(items=[{}, {}], next_page_token="more"), answer(items=[{}])]

    listed = command(group, "list", "--grpc", backend.address, "--json")

    assert len(listed.json["items"]) == 3
    assert listed.json.keys() == {"items"}
    first, second = (request for _, request in backend.requests)
    request_message.page_size = 100
    assert first == request_message
    request_message.page_token = "more"
    assert second == request_message


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


@pytest.mark.parametrize("version", ["0", "-1"])
def test_no_version_below_1_is_activated_and_nothing_is_asked(backend: FakeBackend, version: str) -> None:
    refused = command("workflows", "activate", "wf_1", "--version", version, "--grpc", backend.address)

    assert refused.code == 2
    assert f"--version: must be from 1 to the newest version; it is {version}" in " ".join(refused.err.split())
    assert backend.requests == []


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_a_connector_that_fails_exits_with_1(backend: FakeBackend, *, passed: bool, code: int) -> None:
    backend.answers["TestConnector"] = workflows_pb2.ConnectorTest(name="inbox", passed=passed, message="denied")

    tested = command("connectors", "test", "inbox", "--grpc", backend.address, "--json")

    assert tested.code == code
    assert tested.json["passed"] is passed


def test_the_test_of_a_connector_shows_exact_times_with_utc(backend: FakeBackend) -> None:
    backend.answers["TestConnector"] = workflows_pb2.ConnectorTest(
        name="inbox", passed=True, tested_at=Timestamp(seconds=1_790_000_000)
    )

    tested = command("connectors", "test", "inbox", "--utc", "--grpc", backend.address)

    assert "2026-09-21T14:13:20.000+00:00" in tested.out


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


def test_apply_sends_the_code_that_agents_name(backend: FakeBackend, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "main.py").write_text("def run(context): return 1\n")
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Agent\nname: a\ntype: python\nsource: ./agents\nentrypoint: main:run\n")
    backend.answers["ApplyManifests"] = workflows_pb2.ApplyManifestsResponse()

    assert command("apply", str(file), "--grpc", backend.address).code == 0

    (sent,) = backend.request("ApplyManifests").files
    assert [(each.path, each.content) for each in sent.attached_files] == [
        ("agents/main.py", b"def run(context): return 1\n")
    ]


def test_code_that_cannot_be_packed_is_told_beside_every_other_problem(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Agent\nname: a\ntype: python\ncode_file: missing.py\nfoo: 1\n")

    refused = command("apply", str(file), "--grpc", backend.address)

    assert (refused.code, backend.requests) == (1, [])
    unreadable, unknown = refused.err.splitlines()
    assert unreadable == f"{file}:4: code_file: missing.py cannot be read: No such file or directory"
    assert unknown.startswith(f"{file}:5: foo: is not a known field")


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


def test_apply_for_a_set_sends_it_and_prints_owners_and_what_was_pruned(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("kind: Agent\n")

    def item(name: str, outcome: str, **sets: Any) -> workflows_pb2.AppliedResource:
        return workflows_pb2.AppliedResource(kind="Agent", name=name, id="agt", version=1, outcome=outcome, **sets)

    items = [
        item("kept", "unchanged", set_name="billing", previous_set="billing"),
        item("new", "created", set_name="billing"),
        item("taken", "updated", set_name="billing", previous_set="payroll"),
        item("gone", "deleted", previous_set="billing"),
    ]
    items[2].difference = "--- a\n+++ b\n-old\n+new\n"
    backend.answers["ApplyManifests"] = workflows_pb2.ApplyManifestsResponse(items=items)

    options = ("--set", "billing", "--prune", "--take-over", "--grpc", backend.address)
    lines = command("apply", str(file), *options).out.splitlines()

    sent = backend.request("ApplyManifests")
    assert (sent.set_name, sent.prune, sent.take_over) == ("billing", True, True)
    assert lines[0].split()[-1] == "SET"
    assert [line.split()[5:] for line in lines[1:5]] == [
        ["billing"],
        ["billing"],
        ["payroll", "→", "billing"],
        ["billing", "→", "-"],
    ]
    assert lines[5:] == ["", "--- a", "+++ b", "-old", "+new"]


def test_a_prune_without_a_set_is_misuse(backend: FakeBackend, tmp_path: Path) -> None:
    refused = command("apply", str(tmp_path / "missing.yaml"), "--prune", "--grpc", backend.address)
    assert (refused.code, backend.requests) == (2, [])
    assert "--set" in refused.err


def test_sets_are_listed_with_the_numbers_of_what_they_own(backend: FakeBackend) -> None:
    members = [
        definitions_pb2.SetMember(kind=kind, id=f"id_{number}", name=f"n{number}", version=1)
        for number, kind in enumerate(("Agent", "Agent", "KnowledgeGraph", "Workflow"))
    ]
    answer = definitions_pb2.ListSetsResponse(items=[definitions_pb2.DefinitionSet(name="billing", members=members)])
    backend.answers["ListSets"] = [answer] * 2
    head, row = command("sets", "list", "--grpc", backend.address).out.splitlines()
    assert head.split() == ["NAME", "WORKFLOWS", "AGENTS", "ENVIRONMENTS", "CONNECTORS", "GRAPHS"]
    assert row.split() == ["billing", "1", "2", "0", "0", "1"]
    (listed,) = command("sets", "list", "--grpc", backend.address, "--json").json["items"]
    assert listed["members"][0] == {"kind": "Agent", "id": "id_0", "name": "n0", "version": 1}


def test_a_dry_run_prints_versions_differences_and_what_is_not_ready(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("kind: Agent\n")
    items = [
        workflows_pb2.AppliedResource(
            kind="Agent",
            name="counter",
            id="agt_1",
            version=3,
            previous_version=2,
            outcome="updated",
            difference="--- Agent counter, version 2\n+++ Agent counter, version 3\n-a: 1\n+a: \x1b\n",
        ),
        workflows_pb2.AppliedResource(
            kind="Workflow", name="Digest", version=1, outcome="created", not_ready=["It is a draft."], warnings=["No."]
        ),
    ]
    backend.answers["ApplyManifests"] = [workflows_pb2.ApplyManifestsResponse(items=items)]

    planned = command("apply", "--dry-run", str(file), "--grpc", backend.address)

    assert backend.request("ApplyManifests").dry_run
    assert [" ".join(line.split()) for line in planned.out.splitlines()] == [
        "KIND NAME VERSION OUTCOME",
        "Agent counter 2 → 3 would be updated",
        "Workflow Digest 1 would be created",
        "",
        "--- Agent counter, version 2",
        "+++ Agent counter, version 3",
        "-a: 1",
        "+a: \\x1b",
        "",
        "Not ready:",
        "Workflow Digest: It is a draft.",
        "",
        "Warnings:",
        "Workflow Digest: No.",
        "",
        "Nothing was changed: this was a dry run.",
    ]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ({"outcome": "unchanged"}, 0),
        ({"outcome": "unchanged", "previous_set": "billing", "set_name": "billing"}, 0),
        ({"outcome": "unchanged", "set_name": "billing"}, 3),
        ({"outcome": "updated"}, 3),
        ({"outcome": "deleted"}, 3),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_diff_changes_nothing_and_says_by_its_exit_code_whether_apply_would(
    backend: FakeBackend, tmp_path: Path, item: dict[str, Any], code: int, as_json: bool
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("kind: Agent\n")
    planned = workflows_pb2.AppliedResource(kind="Agent", name="counter", id="agt_1", version=3, **item)
    backend.answers["ApplyManifests"] = workflows_pb2.ApplyManifestsResponse(items=[planned])
    shown = command("diff", str(file), "--set", "billing", "--grpc", backend.address, *["--json"] * as_json)
    assert shown.code == code, shown.err
    assert backend.request("ApplyManifests").dry_run
    assert backend.request("ApplyManifests").set_name == "billing"
    assert "counter" in shown.out


def test_apply_prints_every_problem_of_a_manifest(backend: FakeBackend, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("kind: Agent\n")
    problems = [("flow.yaml:1: name", "must be given"), ("flow.yaml:1: code", "must be given")]
    backend.answers["ApplyManifests"] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)

    refused = command("apply", str(file), "--grpc", backend.address)

    assert refused.code == 1
    assert refused.err.splitlines() == ["flow.yaml:1: name: must be given", "flow.yaml:1: code: must be given"]


def test_apply_names_every_file_it_cannot_read_beside_the_problems_of_the_others(tmp_path: Path) -> None:
    latin, agent = tmp_path / "latin.yaml", tmp_path / "agent.yaml"
    latin.write_bytes(b"kind: Agent\nname: Z\xe4hler\n")
    agent.write_text("kind: Agent\ntype: python\ncode: run = 1\nfoo: 1\n")

    refused = command("apply", str(tmp_path / "missing.yaml"), str(agent), str(latin), "--json")

    assert refused.code == 1
    assert [(problem["name"], problem["reason"]) for problem in refused.error["details"]][:3] == [
        (f"{tmp_path}/missing.yaml", "cannot be read: No such file or directory"),
        (f"{latin}:2: document", "must be UTF-8; the byte at offset 19 is not"),
        (f"{agent}:1: name", "is required"),
    ]
    assert [problem["name"] for problem in refused.error["details"]][3:] == [f"{agent}:4: foo"]


def test_approvals_are_listed_with_their_run(backend: FakeBackend) -> None:
    approval = runs_pb2.Approval(approval_id="apr_1", step="review", title="Publish?")
    pending = runs_pb2.PendingApproval(approval=approval, run_id="run_1", workflow_name="Report")
    backend.answers["ListPendingApprovals"] = runs_pb2.ListPendingApprovalsResponse(items=[pending])

    (item,) = command("approvals", "list", "--grpc", backend.address, "--json").json["items"]

    assert (item["approval_id"], item["run_id"], item["workflow_name"]) == ("apr_1", "run_1", "Report")


@pytest.mark.parametrize("from_file", [True, False])
def test_the_values_of_a_form_are_sent_and_a_refusal_names_each(
    backend: FakeBackend, tmp_path: Path, *, from_file: bool
) -> None:
    values = '{"amount": 0}'
    (tmp_path / "values.json").write_text(values)
    problems = [("form.amount", "must fit the schema: 0 is less than the minimum of 1")]
    backend.answers["DecideApproval"] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)
    given = f"@{tmp_path / 'values.json'}" if from_file else values

    refused = command("approvals", "approve", "apr_1", "--form", given, "--grpc", backend.address)

    assert refused.err == "form.amount: must fit the schema: 0 is less than the minimum of 1\n"
    expected = runs_pb2.DecideApprovalRequest(approval_id="apr_1", approve=True, form=values)
    assert backend.request("DecideApproval") == expected


def test_an_approval_is_shown_with_its_end_and_who_may_decide_it(backend: FakeBackend) -> None:
    pending = runs_pb2.PendingApproval(
        approval=runs_pb2.Approval(approval_id="apr_1", step="review", title="Close?"),
        run_id="run_1",
        waiting=Duration(seconds=5),
        deadline_at=to_timestamp(1_790_000_000_000),
        on_deadline=runs_pb2.DEADLINE_ACTION_FAIL,
        approvers=runs_pb2.Approvers(roles=["approver"], people=["kim"]),
        form_schema='{"type":"object"}',
    )
    state = reviews_pb2.APPROVAL_STATE_PENDING
    backend.answers["GetReview"] = reviews_pb2.Review(pending=pending, state=state)

    shown = command("approvals", "show", "apr_1", "--utc", "--grpc", backend.address).out

    fields = dict(line.split(maxsplit=1) for line in shown.splitlines() if line.strip())
    assert fields["deadline_at"].startswith("2026-09-21")
    assert (fields["on_deadline"], fields["approvers"]) == ("fail", "role approver, kim")
    assert fields["form"] == '{"type":"object"}'


@pytest.mark.parametrize(("verb", "approve"), [("approve", True), ("reject", False)])
def test_a_decision_is_sent_with_its_comment(backend: FakeBackend, verb: str, *, approve: bool) -> None:
    waiting = runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL
    answer = runs_pb2.DecideApprovalResponse(approval_id="apr_1", run_id="run_1", status=waiting)
    backend.answers["DecideApproval"] = answer
    after = runs_pb2.RUN_STATUS_RUNNING if approve else runs_pb2.RUN_STATUS_FAILED
    backend.answers["WatchRun"] = [
        runs_pb2.Run(summary=runs_pb2.RunSummary(status=status))
        for status in (runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL, after)
    ]

    decided = command("approvals", verb, "apr_1", "--comment", "fine", "--grpc", backend.address)

    expected = runs_pb2.DecideApprovalRequest(approval_id="apr_1", approve=approve, comment="fine")
    assert backend.request("DecideApproval") == expected
    ended = "running" if approve else "failed"
    assert decided.out == f"apr_1 is {verb.removesuffix('e')}ed; run_1 is {ended}.\n"


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
