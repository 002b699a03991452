"""Roles of people and the RPCs that each may call: one table for the backend, which enforces it, and the console.

RPCs that are not in the table are closed to everybody who signs in to a console.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, ROLE_OPERATOR, ROLE_VIEWER, Role, User


class WorkflowLimit(Enum):
    """Limits of an RPC for an approver of chosen workflows."""

    NOTHING_TO_LIMIT = auto()
    """The RPC shows nothing of any workflow."""

    RUN = auto()
    """The request's `run_id` must be of a chosen workflow."""

    APPROVAL = auto()
    """The request's `approval_id` must be of a run of a chosen workflow."""

    WORKFLOW = auto()
    """The request's `workflow_id`, or `workflow`, must be a chosen one."""

    LIST = auto()
    """The service lists and counts chosen workflows alone."""

    REFUSED = auto()
    """The RPC shows more than chosen workflows, and is refused."""


class AccessRule(NamedTuple):
    """The roles that may call an RPC, and its limit for approvers of chosen workflows."""

    roles: frozenset[Role.ValueType]
    workflow_limit: WorkflowLimit = WorkflowLimit.REFUSED


ROLE_NAMES: Final[Mapping[Role.ValueType, str]] = {
    ROLE_ADMINISTRATOR: "administrator",
    ROLE_OPERATOR: "operator",
    ROLE_APPROVER: "approver",
    ROLE_VIEWER: "viewer",
}
"""Every role by its name."""

EVERYBODY: Final = frozenset(ROLE_NAMES)
ADMINISTRATORS: Final = frozenset({ROLE_ADMINISTRATOR})

DECIDING_ROLES: Final = (ROLE_NAMES[ROLE_ADMINISTRATOR], ROLE_NAMES[ROLE_APPROVER])
"""Names of the roles that may decide approvals."""

_OPERATING: Final = ADMINISTRATORS | {ROLE_OPERATOR}
_DECIDING: Final = ADMINISTRATORS | {ROLE_APPROVER}
_VIEWING: Final = ADMINISTRATORS | {ROLE_OPERATOR, ROLE_VIEWER}

_ADMINISTERED: Final = AccessRule(ADMINISTRATORS)
_OPERATED: Final = AccessRule(_OPERATING)
_VIEWED: Final = AccessRule(_VIEWING)
_OF_RUN: Final = AccessRule(EVERYBODY, WorkflowLimit.RUN)
_LISTED: Final = AccessRule(EVERYBODY, WorkflowLimit.LIST)
_OF_WORKFLOW: Final = AccessRule(EVERYBODY, WorkflowLimit.WORKFLOW)
_OWN: Final = AccessRule(EVERYBODY, WorkflowLimit.NOTHING_TO_LIMIT)
_DECIDED: Final = AccessRule(_DECIDING, WorkflowLimit.APPROVAL)
_INBOX: Final = AccessRule(_DECIDING, WorkflowLimit.LIST)

_SIGNING_IN: Final = {
    "Sessions": (
        "SignIn",
        "GetSignInOptions",
        "BeginProviderSignIn",
        "FinishProviderSignIn",
        "GetSession",
        "SignOut",
        "ChangePassword",
        "SetPreferences",
        "SaveView",
        "RenameView",
        "RemoveView",
    ),
    "Passkeys": (
        "BeginPasskeySignIn",
        "FinishPasskeySignIn",
        "GetPasskeys",
        "BeginPasskeyRegistration",
        "FinishPasskeyRegistration",
        "BeginPasskeyConfirmation",
        "RemovePasskey",
        "ReplaceRecoveryCodes",
    ),
}

RULES: Final[Mapping[str, AccessRule]] = {
    f"/workflow_api.v1.{service}Service/{name}": rule
    for service, rules in {
        "Audit": {"ListAuditRecords": _ADMINISTERED, "ExportAuditRecords": _ADMINISTERED},
        "Definitions": dict.fromkeys(
            (
                "ListDefinitionVersions",
                "GetManifest",
                "CompareVersions",
                "ListDefinitionUses",
                "FindResources",
                "ListSets",
            ),
            _VIEWED,
        )
        | {
            "FindWorkflows": _LISTED,
            "GetAgentCode": _VIEWED,
            "DeleteDefinition": _ADMINISTERED,
            "RestoreWorkflowVersion": _ADMINISTERED,
        },
        "DeploymentHealth": {
            "GetDeploymentHealth": _VIEWED,
            "GetRetention": _VIEWED,
            "ListWorkflowSizes": _ADMINISTERED,
            "GetSecretUse": _ADMINISTERED,
        },
        "Deployment": {
            "GetHealth": _OWN,
            "GetDeployment": _VIEWED,
            "UpdateDeployment": _ADMINISTERED,
        },
        "Environments": {
            "ListEnvironmentBuilds": _VIEWED,
            "GetEnvironmentBuild": _VIEWED,
            "GetEnvironmentBuildLog": _ADMINISTERED,
            "BuildEnvironment": _ADMINISTERED,
        },
        "Keys": dict.fromkeys(
            (
                "CreateKey",
                "GetKey",
                "ListKeys",
                "FindKeys",
                "UpdateKey",
                "RotateKey",
                "IssueExternalId",
                "EndKeyOverlap",
                "RevokeKey",
                "DeleteKey",
            ),
            _ADMINISTERED,
        ),
        "Logs": dict.fromkeys(("ListRunLogs", "GetRunLog", "StreamRunLogs"), _OPERATED),
        "ModelUsage": {"GetRunModelUsage": _OF_RUN, "ListModelUsageDays": _ADMINISTERED},
        "Outputs": dict.fromkeys(("ListOutputs", "GetOutputsZip", "GetOutputContent", "GetPiiRedaction"), _OF_RUN),
        "Previews": dict.fromkeys(("GetRunInputs", "GetStepPreview", "GetOutputPreview", "GetSummaryPreview"), _OF_RUN)
        | {"RevealRunInputs": _OPERATED},
        "Reviews": {
            **dict.fromkeys(
                ("GetReview", "GetReviewFile", "GetReviewRows", "AssignApproval", "SnoozeApproval"), _DECIDED
            ),
            "ListDecisions": _OF_RUN,
            "ListAllDecisions": _INBOX,
            "CountPendingApprovals": _INBOX,
        },
        "RunLists": {
            "ListFoundRuns": _LISTED,
            "ListChildRuns": _OF_RUN,
            "GetRunDays": AccessRule(EVERYBODY),
            "GetNewestFailures": _LISTED,
            "GetWorkflowFigures": _OF_WORKFLOW,
        },
        "Runs": {
            "StartRun": _OPERATED,
            "ListRuns": _LISTED,
            **dict.fromkeys(
                ("GetRun", "ListRunApprovals", "ListRunEvents", "ListRunSteps", "WatchRun", "WatchRunEvents"), _OF_RUN
            ),
            "ResumeRun": _OPERATED,
            "CancelRun": _OPERATED,
            "EraseRunData": _ADMINISTERED,
            "ListPendingApprovals": _INBOX,
            "DecideApproval": _DECIDED,
            "RunUpkeep": _ADMINISTERED,
        },
        "Schedules": {
            "ListSchedules": _VIEWED,
            **dict.fromkeys(
                ("PauseSchedule", "ResumeSchedule", "TriggerSchedule", "PlanStart", "CancelPlannedStart"), _OPERATED
            ),
        },
        **{service: dict.fromkeys(names, _OWN) for service, names in _SIGNING_IN.items()},
        "Uploads": dict.fromkeys(
            ("BeginUpload", "GetUpload", "AppendToUpload", "FinishUploadedFile", "RemoveUploadedFile"), _OPERATED
        ),
        "Usage": dict.fromkeys(("ListUsageRecords", "ListUsageHours", "CountCallsByKey"), _ADMINISTERED),
        "Users": dict.fromkeys(
            (
                "CreateUser",
                "ListUsers",
                "EnableUser",
                "DisableUser",
                "SetUserRole",
                "RemoveUserPasskeys",
                "ResetUserPassword",
            ),
            _ADMINISTERED,
        ),
        "Webhooks": dict.fromkeys(
            (
                "CreateWebhook",
                "GetWebhook",
                "ListWebhooks",
                "UpdateWebhook",
                "RotateWebhookSecret",
                "PauseWebhook",
                "ResumeWebhook",
                "DeleteWebhook",
                "ListWebhookDeliveries",
                "RedeliverWebhookMessage",
            ),
            _ADMINISTERED,
        ),
        "Workflows": {
            "ListWorkflows": _LISTED,
            **dict.fromkeys(("GetWorkflow", "ListParameters", "GetWorkflowDefinition"), _OF_WORKFLOW),
            **dict.fromkeys(("ListResources", "GetResource", "ListKnowledgeGraphs"), _VIEWED),
            "BrowseInputs": _OPERATED,
            **dict.fromkeys(
                (
                    "ApplyManifests",
                    "UpdateWorkflowStatus",
                    "GetWorkflowForKey",
                    "TestConnector",
                    "QueryKnowledgeGraph",
                    "GetKnowledgeGraphPublications",
                ),
                _ADMINISTERED,
            ),
        },
    }.items()
    for name, rule in rules.items()
}
"""Rules by the full name of the RPC."""

SIGNING_IN: Final = frozenset(
    f"/workflow_api.v1.{service}Service/{name}" for service, names in _SIGNING_IN.items() for name in names
)
"""RPCs that a console calls before anybody has signed in, with a password or a session as proof."""


def roles_of(rpc: str) -> frozenset[Role.ValueType]:
    """Returns the roles that may call an RPC, named as `RunsService/StartRun`."""
    return RULES[f"/workflow_api.v1.{rpc}"].roles


def may(user: User, rpc: str) -> bool:
    """Returns whether a person may call an RPC for some workflow; the RPC is named as `RunsService/StartRun`."""
    rule = RULES[f"/workflow_api.v1.{rpc}"]
    return user.role in rule.roles and not (
        user.HasField("decides_for") and rule.workflow_limit is WorkflowLimit.REFUSED
    )
