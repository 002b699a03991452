"""Variables of manifests over gRPC: inserted, stored with the version, and shown."""

import textwrap
from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.workflows.conftest import Workflows
from workflow_api.v1 import workflows_pb2

TEXT = """
    kind: Environment
    name: "${vars.STAGE}-env"
    timeout_seconds: ${vars.SECONDS}
    ---
    kind: Agent
    name: counter
    type: python
    code: |
      def run(context):
          return "${vars.STAGE}"
    ---
    kind: Workflow
    name: Orders
    status: active
    description: Orders of ${vars.STAGE}
    steps: [{step: a, agent: counter, environment: "${vars.STAGE}-env"}]
"""


def applied(workflows: Workflows, text: str = TEXT, **variables: str) -> Any:
    file = workflows_pb2.ManifestFile(name="f.yaml", content=textwrap.dedent(text))
    request = workflows_pb2.ApplyManifestsRequest(files=[file], variables=variables)
    return workflows.call("ApplyManifests", request)


def shown(workflows: Workflows, version: int | None = None) -> Any:
    return workflows.call(
        "GetWorkflowDefinition", workflows_pb2.GetWorkflowDefinitionRequest(workflow="Orders", version=version)
    )


def environment(workflows: Workflows, name: str, version: int | None = None) -> Any:
    kind = workflows_pb2.RESOURCE_KIND_ENVIRONMENT
    return workflows.call("GetResource", workflows_pb2.GetResourceRequest(kind=kind, resource=name, version=version))


def test_values_are_inserted_and_stored_with_the_versions_that_use_them(workflows: Workflows) -> None:
    answer = applied(workflows, STAGE="test", SECONDS="30", UNUSED="x")
    assert list(answer.used_variables) == ["SECONDS", "STAGE"]
    found = shown(workflows)
    assert dict(found.variables) == {"STAGE": "test"}
    assert "Orders of test" in found.definition
    assert dict(environment(workflows, "test-env").variables) == {"STAGE": "test", "SECONDS": "30"}
    assert '"timeout_seconds":30' in environment(workflows, "test-env").definition


def test_each_version_keeps_its_values(workflows: Workflows) -> None:
    applied(workflows, STAGE="test", SECONDS="30")
    applied(workflows, STAGE="production", SECONDS="30")
    assert [dict(shown(workflows, version).variables) for version in (1, 2)] == [
        {"STAGE": "test"},
        {"STAGE": "production"},
    ]


def test_a_version_that_shares_a_definition_shares_its_values(workflows: Workflows) -> None:
    applied(workflows, STAGE="test", SECONDS="30")
    applied(workflows, STAGE="test", SECONDS="60")
    assert [(item.version, dict(item.variables)) for item in (shown(workflows, 1), shown(workflows, 2))] == [
        (1, {"STAGE": "test"}),
        (2, {"STAGE": "test"}),
    ]
    assert [environment(workflows, "test-env", version).variables["SECONDS"] for version in (1, 2)] == ["30", "60"]


def test_equal_values_make_no_version(workflows: Workflows) -> None:
    applied(workflows, STAGE="test", SECONDS="30")
    assert {item.outcome for item in applied(workflows, STAGE="test", SECONDS="30").items} == {"unchanged"}


def test_an_unknown_variable_is_refused_and_changes_nothing(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        applied(workflows, STAGE="test")
    assert refused.value.problems == {
        "f.yaml:4: timeout_seconds": "uses the variable SECONDS, which is not given (given are: STAGE), at column 18"
    }
    assert workflows.list(include_inactive=True).items == []


def test_text_variables_are_text_in_every_field(workflows: Workflows) -> None:
    text = "kind: Workflow\nname: Orders\nsteps: []\nparameters: [{name: p, type: json, default: '${vars.P}'}]\n"
    file = workflows_pb2.ManifestFile(name="f.yaml", content=text)
    for quoted, written in ((["P"], '"default":"5"'), ([], '"default":5')):
        request = workflows_pb2.ApplyManifestsRequest(files=[file], variables={"P": "5"}, text_variables=quoted)
        workflows.call("ApplyManifests", request)
        found = workflows.call(
            "GetWorkflowDefinition",
            workflows_pb2.GetWorkflowDefinitionRequest(workflow="Orders", version=2 if not quoted else 1),
        )
        assert written in found.definition


@pytest.mark.parametrize(
    "variables",
    [{"1a": "x"}, {"a-b": "x"}, {"a" * 65: "x"}, {"a": "x" * 4_097}, {f"a{n}": "" for n in range(257)}],
)
def test_variables_beyond_their_bounds_are_refused(workflows: Workflows, variables: dict[str, str]) -> None:
    with pytest.raises(RefusedError) as refused:
        applied(workflows, "kind: Workflow\nname: w\nsteps: []\n", **variables)
    assert refused.value.reason == "invalid_request"
    assert [name for name in refused.value.problems if not name.startswith("variables")] == []


def test_a_secret_and_a_variable_of_one_name_keep_a_workflow_from_running(workflows: Workflows) -> None:
    text = """
        {kind: Environment, name: e, variables: {RATES: x}}
        ---
        {kind: Agent, name: a, type: python, secrets: [RATES], code: "def run(context): return 1"}
        ---
        {kind: Workflow, name: Orders, status: active, steps: [{step: a, agent: a, environment: e}]}
    """
    applied(workflows, text)
    reasons = list(shown(workflows).workflow.readiness.reasons)
    assert (
        "Environment 'e' has the variable 'RATES', which agent 'a' names as a secret: give it another name, or take "
        "it away." in reasons
    )
