"""What people may do by their role: one table of every RPC, and what an approver of chosen workflows sees."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from backend.common.errors import ApiError
from backend.services.users.permissions import RoleGuard
from contract.metadata import PERSON
from contract.roles import RULES, SIGNING_IN
from contract.routes import METHODS
from tests.services.users.conftest import People, reason
from workflow_api.v1 import (
    deployment_pb2,
    deployment_pb2_grpc,
    errors_pb2,
    outputs_pb2,
    outputs_pb2_grpc,
    reviews_pb2,
    reviews_pb2_grpc,
    run_lists_pb2,
    run_lists_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    users_pb2,
    users_pb2_grpc,
    workflows_pb2,
    workflows_pb2_grpc,
)
from workflow_api_testing import TestBackend

ROLES = {
    "a": users_pb2.ROLE_ADMINISTRATOR,
    "o": users_pb2.ROLE_OPERATOR,
    "p": users_pb2.ROLE_APPROVER,
    "v": users_pb2.ROLE_VIEWER,
    "c": users_pb2.ROLE_APPROVER,
}
"""Administrator, operator, approver, viewer, and approver of chosen workflows."""

MATRIX = {
    "Audit": {"ListAuditRecords": "a", "ExportAuditRecords": "a"},
    "Caller": {"GetMe": ""},
    "Definitions": dict.fromkeys(
        ("ListDefinitionVersions", "GetManifest", "CompareVersions", "ListDefinitionUses", "FindResources", "ListSets"),
        "aov",
    )
    | {"FindWorkflows": "aopvc", "GetAgentCode": "aov", "DeleteDefinition": "a", "RestoreWorkflowVersion": "a"},
    "DeploymentHealth": {
        "GetDeploymentHealth": "aov",
        "GetRetention": "aov",
        "GetSecretUse": "a",
        "ListWorkflowSizes": "a",
    },
    "Deployment": {"GetHealth": "aopvc", "GetDeployment": "aov", "UpdateDeployment": "a"},
    "Edge": dict.fromkeys(
        ("Handshake", "GetKeyMirror", "WatchKeyMirror", "WatchRunChanges", "RecordUsage", "ReadMany"), ""
    ),
    "Environments": {
        "ListEnvironmentBuilds": "aov",
        "GetEnvironmentBuild": "aov",
        "GetEnvironmentBuildLog": "a",
        "BuildEnvironment": "a",
    },
    "Keys": {
        "CreateKey": "a",
        "GetKey": "a",
        "ListKeys": "a",
        "FindKeys": "a",
        "UpdateKey": "a",
        "RotateKey": "a",
        "IssueExternalId": "a",
        "EndKeyOverlap": "a",
        "RevokeKey": "a",
        "DeleteKey": "a",
    },
    "Logs": {"ListRunLogs": "ao", "GetRunLog": "ao", "StreamRunLogs": "ao"},
    "Outputs": {
        "ListOutputs": "aopvc",
        "GetOutputsZip": "aopvc",
        "GetOutputContent": "aopvc",
        "GetPiiRedaction": "aopvc",
    },
    "Passkeys": dict.fromkeys(
        (
            "BeginPasskeySignIn",
            "FinishPasskeySignIn",
            "GetPasskeys",
            "BeginPasskeyRegistration",
            "FinishPasskeyRegistration",
            "BeginPasskeyConfirmation",
            "RemovePasskey",
            "ReplaceRecoveryCodes",
        ),
        "aopvc",
    ),
    "Previews": {
        "GetRunInputs": "aopvc",
        "RevealRunInputs": "ao",
        "GetStepPreview": "aopvc",
        "GetOutputPreview": "aopvc",
        "GetSummaryPreview": "aopvc",
    },
    "Reviews": {
        "GetReview": "apc",
        "GetReviewFile": "apc",
        "GetReviewRows": "apc",
        "AssignApproval": "apc",
        "SnoozeApproval": "apc",
        "ListDecisions": "aopvc",
        "ListAllDecisions": "apc",
        "CountPendingApprovals": "apc",
    },
    "RunLists": {
        "ListFoundRuns": "aopvc",
        "ListChildRuns": "aopvc",
        "GetRunDays": "aopv",
        "GetNewestFailures": "aopvc",
        "GetWorkflowFigures": "aopvc",
    },
    "Runs": {
        "StartRun": "ao",
        "ListRuns": "aopvc",
        "GetRun": "aopvc",
        "ListRunApprovals": "aopvc",
        "ResumeRun": "ao",
        "CancelRun": "ao",
        "EraseRunData": "a",
        "ListRunEvents": "aopvc",
        "ListRunSteps": "aopvc",
        "FindChangedRuns": "",
        "WatchRun": "aopvc",
        "WatchRunEvents": "aopvc",
        "ListPendingApprovals": "apc",
        "DecideApproval": "apc",
        "RunUpkeep": "a",
    },
    "Sessions": {
        "SignIn": "aopvc",
        "GetSignInOptions": "aopvc",
        "BeginProviderSignIn": "aopvc",
        "FinishProviderSignIn": "aopvc",
        "GetSession": "aopvc",
        "SignOut": "aopvc",
        "ChangePassword": "aopvc",
        "SetPreferences": "aopvc",
        "SaveView": "aopvc",
        "RenameView": "aopvc",
        "RemoveView": "aopvc",
    },
    "Schedules": {
        "ListSchedules": "aov",
        **dict.fromkeys(
            ("PauseSchedule", "ResumeSchedule", "TriggerSchedule", "PlanStart", "CancelPlannedStart"), "ao"
        ),
    },
    "Uploads": dict.fromkeys(
        ("BeginUpload", "GetUpload", "AppendToUpload", "FinishUploadedFile", "RemoveUploadedFile"), "ao"
    ),
    "ModelUsage": {"GetRunModelUsage": "aopvc", "ListModelUsageDays": "a"},
    "Usage": {"ListUsageRecords": "a", "ListUsageHours": "a", "CountCallsByKey": "a"},
    "Users": {
        "CreateUser": "a",
        "ListUsers": "a",
        "EnableUser": "a",
        "DisableUser": "a",
        "SetUserRole": "a",
        "RemoveUserPasskeys": "a",
        "ResetUserPassword": "a",
    },
    "Webhooks": {
        "CreateWebhook": "a",
        "GetWebhook": "a",
        "ListWebhooks": "a",
        "UpdateWebhook": "a",
        "RotateWebhookSecret": "a",
        "PauseWebhook": "a",
        "ResumeWebhook": "a",
        "DeleteWebhook": "a",
        "ListWebhookDeliveries": "a",
        "RedeliverWebhookMessage": "a",
    },
    "Workflows": {
        "ListWorkflows": "aopvc",
        "GetWorkflow": "aopvc",
        "ListParameters": "aopvc",
        "ApplyManifests": "a",
        "UpdateWorkflowStatus": "a",
        "GetWorkflowDefinition": "aopvc",
        "GetWorkflowForKey": "a",
        "ListResources": "aov",
        "GetResource": "aov",
        "TestConnector": "a",
        "BrowseInputs": "ao",
        "ListKnowledgeGraphs": "aov",
        "QueryKnowledgeGraph": "a",
        "GetKnowledgeGraphPublications": "a",
    },
}


class Team:
    """A backend with two workflows that wait for people, and people in every role."""

    def __init__(self, backend: TestBackend) -> None:
        self.backend = backend
        self.workflows = [backend.add_workflow(name, approvals=["Release?"]) for name in ("Digest", "Report")]
        self.runs, self.approvals = zip(*map(self.parked, self.workflows), strict=True)
        users = backend.stub(users_pb2_grpc.UsersServiceStub)
        for name, role in ROLES.items():
            request = users_pb2.CreateUserRequest(name=name, role=role)
            if name == "c":
                request.decides_for.workflow_ids.append(self.workflows[0])
            users.CreateUser(request)

    def parked(self, workflow_id: str) -> tuple[str, str]:
        runs = self.backend.stub(runs_pb2_grpc.RunsServiceStub)
        request = runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key=f"once-{workflow_id}")
        run_id = runs.StartRun(request).run.summary.run_id
        (approval_id,) = self.backend.park(run_id)
        return run_id, approval_id

    def of(self, person: str, stub: Callable[[grpc.Channel], Any]) -> Any:
        """A stub whose calls are a console's for this person."""
        return self.backend.stub(stub, actor=f"user:{person}", metadata={PERSON: person})


@pytest.fixture
def team(people: People, backend: TestBackend) -> Team:
    return Team(backend)


def code_of(call: Callable[..., Any], *arguments: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refused:
        call(*arguments)
    code: grpc.StatusCode = refused.value.code()
    return code


def test_every_rpc_is_given_to_the_roles_of_the_table_and_to_no_other(team: Team) -> None:
    guard = RoleGuard(team.backend.composition.services.database)
    found: dict[str, dict[str, str]] = {}
    for rpc, method in METHODS.items():
        given = ""
        for person in ROLES:
            try:
                guard(person, rpc, GetMessageClass(method.input_type)())
            except ApiError as error:
                # Nothing is of a chosen workflow where the request names nothing.
                given += person if error.reason != errors_pb2.ERROR_REASON_FORBIDDEN else ""
            else:
                given += person
        service, name = rpc.removeprefix("/workflow_api.v1.").split("Service/")
        found.setdefault(service, {})[name] = given
    assert found == MATRIX


def test_the_table_names_rpcs_that_exist() -> None:
    assert set(RULES) <= set(METHODS)
    assert set(RULES) >= SIGNING_IN


def test_nobody_is_anybody_before_the_sign_in(team: Team) -> None:
    for person in ("", "stranger"):
        health = team.of(person, deployment_pb2_grpc.DeploymentServiceStub)
        assert code_of(health.GetDeployment, deployment_pb2.GetDeploymentRequest()) is grpc.StatusCode.PERMISSION_DENIED


def test_who_decides_nothing_is_refused_and_nothing_is_decided(team: Team) -> None:
    request = runs_pb2.DecideApprovalRequest(approval_id=team.approvals[0], approve=True)
    for person in ("o", "v"):
        runs = team.of(person, runs_pb2_grpc.RunsServiceStub)
        assert code_of(runs.DecideApproval, request) is grpc.StatusCode.PERMISSION_DENIED
    pending = team.of("p", runs_pb2_grpc.RunsServiceStub).ListPendingApprovals(runs_pb2.ListPendingApprovalsRequest())
    assert {item.approval.approval_id for item in pending.items} == set(team.approvals)


def test_an_approver_of_chosen_workflows_is_shown_these_alone(team: Team) -> None:
    own, other = team.workflows
    runs = team.of("c", runs_pb2_grpc.RunsServiceStub)
    reviews = team.of("c", reviews_pb2_grpc.ReviewsServiceStub)
    found = team.of("c", run_lists_pb2_grpc.RunListsServiceStub)
    workflows = team.of("c", workflows_pb2_grpc.WorkflowsServiceStub)

    assert [run.workflow_id for run in runs.ListRuns(runs_pb2.ListRunsRequest()).items] == [own]
    assert not runs.ListRuns(runs_pb2.ListRunsRequest(workflow_id=other)).items
    for search in ("", "run_", team.runs[1], team.runs[0]):
        listed = found.ListFoundRuns(run_lists_pb2.ListFoundRunsRequest(search=search)).items
        assert {each.run.run_id for each in listed} <= {team.runs[0]}
    assert [each.run.run_id for each in found.ListFoundRuns(run_lists_pb2.ListFoundRunsRequest()).items] == [
        team.runs[0]
    ]
    (pending,) = runs.ListPendingApprovals(runs_pb2.ListPendingApprovalsRequest()).items
    assert pending.approval.approval_id == team.approvals[0]
    counted = reviews.CountPendingApprovals(reviews_pb2.CountPendingApprovalsRequest())
    assert (counted.total, [gate.workflow_id for gate in counted.gates]) == (1, [own])
    assert reviews.CountPendingApprovals(reviews_pb2.CountPendingApprovalsRequest(total_only=True)).total == 1
    listed = workflows.ListWorkflows(workflows_pb2.ListWorkflowsRequest(include_inactive=True)).items
    assert [each.workflow_id for each in listed] == [own]


def test_an_approver_of_several_workflows_has_one_inbox_of_them(team: Team) -> None:
    third = team.backend.add_workflow("Third", approvals=["Release?"])
    _, last = team.parked(third)
    own, other, _ = (*team.workflows, third)
    request = users_pb2.CreateUserRequest(name="d", role=users_pb2.ROLE_APPROVER)
    request.decides_for.workflow_ids.extend([third, own])
    team.backend.stub(users_pb2_grpc.UsersServiceStub).CreateUser(request)
    runs = team.of("d", runs_pb2_grpc.RunsServiceStub)
    for by_deadline in (False, True):
        token, seen = "", []
        while page := runs.ListPendingApprovals(
            runs_pb2.ListPendingApprovalsRequest(page_size=1, page_token=token, by_deadline=by_deadline)
        ):
            seen += [each.approval.approval_id for each in page.items]
            token = page.next_page_token
            if not token:
                break
        assert seen == [team.approvals[0], last]
    for workflow_id, expected in ((own, [team.approvals[0]]), (third, [last]), (other, [])):
        listed = runs.ListPendingApprovals(runs_pb2.ListPendingApprovalsRequest(workflow_id=workflow_id)).items
        assert [each.approval.approval_id for each in listed] == expected
    reviews = team.of("d", reviews_pb2_grpc.ReviewsServiceStub)
    counted = reviews.CountPendingApprovals(reviews_pb2.CountPendingApprovalsRequest())
    assert (counted.total, [gate.workflow_id for gate in counted.gates]) == (2, [own, third])
    assert reviews.CountPendingApprovals(reviews_pb2.CountPendingApprovalsRequest(total_only=True)).total == 2


def test_what_is_of_another_workflow_does_not_exist_for_an_approver(team: Team) -> None:
    runs = team.of("c", runs_pb2_grpc.RunsServiceStub)
    outputs = team.of("c", outputs_pb2_grpc.OutputsServiceStub)
    reviews = team.of("c", reviews_pb2_grpc.ReviewsServiceStub)
    workflows = team.of("c", workflows_pb2_grpc.WorkflowsServiceStub)
    calls = (
        (runs.GetRun, runs_pb2.GetRunRequest(run_id=team.runs[1])),
        (runs.ListRunSteps, runs_pb2.ListRunStepsRequest(run_id=team.runs[1])),
        (lambda request: next(runs.WatchRun(request)), runs_pb2.WatchRunRequest(run_id=team.runs[1])),
        (outputs.ListOutputs, outputs_pb2.ListOutputsRequest(run_id=team.runs[1])),
        (reviews.GetReview, reviews_pb2.GetReviewRequest(approval_id=team.approvals[1])),
        (runs.DecideApproval, runs_pb2.DecideApprovalRequest(approval_id=team.approvals[1], approve=True)),
        (workflows.GetWorkflow, workflows_pb2.GetWorkflowRequest(workflow_id=team.workflows[1])),
        (
            workflows.GetWorkflowDefinition,
            workflows_pb2.GetWorkflowDefinitionRequest(workflow=team.workflows[1]),
        ),
    )
    for call, request in calls:
        assert code_of(call, request) is grpc.StatusCode.NOT_FOUND, request

    assert next(runs.WatchRun(runs_pb2.WatchRunRequest(run_id=team.runs[0]))).summary.run_id == team.runs[0]
    runs.DecideApproval(runs_pb2.DecideApprovalRequest(approval_id=team.approvals[0], approve=True))
    team.of("p", runs_pb2_grpc.RunsServiceStub).DecideApproval(
        runs_pb2.DecideApprovalRequest(approval_id=team.approvals[1], approve=True)
    )
    decisions = reviews.ListAllDecisions(reviews_pb2.ListAllDecisionsRequest()).items
    assert [each.run_id for each in decisions] == [team.runs[0]]


def test_a_changed_role_holds_for_the_next_call(team: Team) -> None:
    users = team.of("a", users_pb2_grpc.UsersServiceStub)
    runs = team.of("v", runs_pb2_grpc.RunsServiceStub)
    decision = runs_pb2.DecideApprovalRequest(approval_id=team.approvals[0], approve=True)
    assert code_of(runs.DecideApproval, decision) is grpc.StatusCode.PERMISSION_DENIED
    users.SetUserRole(users_pb2.SetUserRoleRequest(name="v", role=users_pb2.ROLE_APPROVER))
    runs.DecideApproval(decision)
    users.DisableUser(users_pb2.DisableUserRequest(name="v"))
    assert code_of(runs.ListRuns, runs_pb2.ListRunsRequest()) is grpc.StatusCode.PERMISSION_DENIED


def set_role(people: People, name: str, role: int, *workflow_ids: str) -> Any:
    request = users_pb2.SetUserRoleRequest(name=name, role=users_pb2.Role.ValueType(role))
    if workflow_ids:
        request.decides_for.workflow_ids.extend(workflow_ids)
    return people.call("SetUserRole", request, actor="root")


def test_the_last_enabled_administrator_stays_one(people: People) -> None:
    people.add("ana")
    people.add("bo")
    people.disable("bo")
    refused = reason(set_role, people, "ana", users_pb2.ROLE_VIEWER)
    assert set(refused.problems) == {"role"}
    assert people.users()["ana"].role == users_pb2.ROLE_ADMINISTRATOR
    people.add("bo")
    assert set_role(people, "ana", users_pb2.ROLE_VIEWER).role == users_pb2.ROLE_VIEWER


def test_a_role_is_changed_within_a_session_and_audited_once(people: People) -> None:
    people.add("bo")
    token = people.sign_in(people.add("ana")).token
    for _ in range(2):
        set_role(people, "ana", users_pb2.ROLE_OPERATOR)
    assert people.session(token).user.role == users_pb2.ROLE_OPERATOR
    changed = [entry for entry in people.audited() if entry[0] == "user.role_changed"]
    assert changed == [("user.role_changed", "ana", "root", {"from": "administrator", "role": "operator"})]


def test_workflows_are_chosen_for_approvers_and_exist(people: People, backend: TestBackend) -> None:
    people.add("bo")
    people.add("ana", users_pb2.ROLE_APPROVER)
    workflow_id = backend.add_workflow("Digest")
    refused = (
        (users_pb2.ROLE_OPERATOR, (workflow_id,), "decides_for"),
        (users_pb2.ROLE_APPROVER, ("wf_none",), "decides_for.workflow_ids"),
        (users_pb2.ROLE_APPROVER, (workflow_id, workflow_id), "decides_for.workflow_ids"),
        (users_pb2.ROLE_APPROVER, tuple(f"wf_{number}" for number in range(51)), "decides_for.workflow_ids"),
        (99, (), "role"),
    )
    for role, workflow_ids, field in refused:
        assert set(reason(set_role, people, "ana", role, *workflow_ids).problems) == {field}
    assert not people.users()["ana"].HasField("decides_for")
    set_role(people, "ana", users_pb2.ROLE_APPROVER, workflow_id)
    assert list(people.users()["ana"].decides_for.workflow_ids) == [workflow_id]
    set_role(people, "ana", users_pb2.ROLE_VIEWER)
    assert not people.users()["ana"].HasField("decides_for")
