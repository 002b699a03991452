"""The overview of resources, the page of secrets and that of retention."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from console.visit import ADMINISTRATORS
from contract.refusals import Refusal
from tests.unit.console.seen import MemoryServices, answered, html, roles_of
from workflow_api.v1 import deployment_health_pb2 as pb
from workflow_api.v1.definitions_pb2 import DefinitionSet, ListSetsResponse, SetMember
from workflow_api.v1.environments_pb2 import (
    ENVIRONMENT_BUILD_STATE_FAILED,
    EnvironmentBuild,
    ListEnvironmentBuildsResponse,
)
from workflow_api.v1.workflows_pb2 import (
    KnowledgeGraph,
    ListKnowledgeGraphsResponse,
    ListResourcesResponse,
    Resource,
)

SECRETS = pb.SecretUse(
    secrets=[
        pb.NamedSecret(
            name="inbox-key",
            state=pb.SECRET_STATE_MISSING,
            problem="name where it is kept",
            used_by=[
                pb.SecretUser(kind="connector", name="inbox", id="con_1"),
                pb.SecretUser(kind="agent", name="a<b"),
            ],
        ),
        pb.NamedSecret(name="openai", state=pb.SECRET_STATE_SET, kept_in="environment"),
    ]
)


def test_the_overview_counts_each_kind_and_says_what_needs_attention() -> None:
    services = MemoryServices(
        {
            "EnvironmentsService/ListEnvironmentBuilds": ListEnvironmentBuildsResponse(
                items=[EnvironmentBuild(state=ENVIRONMENT_BUILD_STATE_FAILED)]
            ),
            "WorkflowsService/ListResources": ListResourcesResponse(items=[Resource(status="failed")] * 2),
            "WorkflowsService/ListKnowledgeGraphs": ListKnowledgeGraphsResponse(items=[KnowledgeGraph(pending=3)]),
            "DeploymentHealthService/GetSecretUse": SECRETS,
            "DefinitionsService/ListSets": ListSetsResponse(items=[DefinitionSet(name="billing")]),
        }
    )
    page = html(answered(services, "GET", "/resources"))
    for text in ("1 could not be built", "2 failed the last test", "3 publications pending", "1 missing or unreadable"):
        assert text in page


def test_secrets_are_shown_by_name_with_their_state_and_what_names_them() -> None:
    page = html(
        answered(MemoryServices({"DeploymentHealthService/GetSecretUse": SECRETS}), "GET", "/resources/secrets")
    )
    for text in ("missing", "name where it is kept", "environment", 'href="/resources/connectors/con_1"', "a&lt;b"):
        assert text in page


def test_sets_are_shown_with_the_definitions_that_they_own() -> None:
    members = [SetMember(kind="Workflow", id="wf_1", name="a<b"), SetMember(kind="Agent", id="agt_1", name="reader")]
    owned = ListSetsResponse(items=[DefinitionSet(name="billing", members=members)])
    page = html(answered(MemoryServices({"DefinitionsService/ListSets": owned}), "GET", "/resources/sets"))
    for text in (
        "billing",
        'workflow <a href="/workflows/wf_1">a&lt;b</a>',
        'agent <a href="/agents/agt_1">reader</a>',
    ):
        assert text in page


def test_what_is_kept_for_how_long_is_shown_with_the_next_removal() -> None:
    found = pb.Retention(
        schedules=[
            pb.RetentionSchedule(name="runs_erased", kept=Duration(seconds=90 * 86_400), by_record=True),
            pb.RetentionSchedule(name="step_log_parts", kept=Duration(seconds=600)),
            pb.RetentionSchedule(name="of-a-later-release", kept=Duration(seconds=86_400)),
        ],
        next_round_at=Timestamp(seconds=1_790_000_000),
    )
    sizes = pb.ListWorkflowSizesResponse(
        items=[
            pb.WorkflowSize(workflow_id="wf_1", workflow_name="<Digest>", runs=25, object_bytes=3_000_000),
            pb.WorkflowSize(workflow_id="wf_2", workflow_name="Busy", runs=10_000, has_more_runs=True),
        ],
        next_page_token="next",
    )
    services = MemoryServices(
        {"DeploymentHealthService/GetRetention": found, "DeploymentHealthService/ListWorkflowSizes": sizes}
    )
    page = html(answered(services, "GET", "/deployment/retention"))
    for text in ("90 days", "10 min 0 s", "1 day", "of-a-later-release", "2026-09-21", "no finished run has data"):
        assert text in page
    for text in ('<a href="/workflows/wf_1">&lt;Digest&gt;</a>', "3 MB", "over 10,000", "?cursor=next#sizes"):
        assert text in page


@pytest.mark.parametrize("code", ["runtime_error", "runtime_unreachable"])
def test_retention_is_shown_without_sizes_where_the_backend_does_not_tell_them(code: str) -> None:
    found = pb.Retention(schedules=[pb.RetentionSchedule(name="runs_erased", kept=Duration(seconds=90 * 86_400))])
    services = MemoryServices(
        {"DeploymentHealthService/GetRetention": found, "DeploymentHealthService/ListWorkflowSizes": Refusal(code)}
    )
    page = html(answered(services, "GET", "/deployment/retention"))
    assert "90 days" in page
    assert "The sizes are not known" in page
    assert "There is no workflow yet" not in page


def test_only_administrators_see_resources() -> None:
    for path in ("/resources", "/resources/secrets", "/resources/sets", "/deployment/retention"):
        assert roles_of("GET", path) == ADMINISTRATORS
