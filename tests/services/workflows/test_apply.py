"""ApplyManifests: all or nothing, and new versions only of what changed (contract 24.3, 24.4)."""

import json
from typing import Any

import pytest

from backend.common.secrets import how_to_set
from backend.services.audit import sql as audit
from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.workflows.conftest import READY, RESOURCES, Workflows
from workflow_api.v1 import workflows_pb2


def outcomes(items: list[workflows_pb2.AppliedResource]) -> list[tuple[str, int, str]]:
    return [(item.name, item.version, item.outcome) for item in items]


def trail(workflows: Workflows) -> list[Any]:
    return workflows.services.database.read(
        lambda tx: audit.trail(tx, audit.Filters(), since=0, before=audit.AuditPosition(2**62, ""), limit=100)[0]
    )


def test_documents_are_created_then_left_alone_when_nothing_changed(workflows: Workflows) -> None:
    first = workflows.apply(RESOURCES, READY)
    again = workflows.apply(RESOURCES, READY)
    assert [item.outcome for item in first] == ["created"] * 5
    assert [item.outcome for item in again] == ["unchanged"] * 5
    assert [(item.id, item.version) for item in again] == [(item.id, 1) for item in first]


def test_every_change_makes_the_next_version_and_it_is_the_active_one(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY)
    for version in (2, 3):
        changed = workflows.apply(READY.replace("Counts.", f"Counts {version}."))
        assert outcomes(changed) == [("Ready", version, "updated")]
        assert workflows.get(made.id).version == version
        assert workflows.get(made.id).description == f"Counts {version}."


def test_resources_have_versions_too(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    assert outcomes(workflows.apply(RESOURCES.replace("bucket: docs", "bucket: other")))[2] == ("inbox", 2, "updated")


def test_a_status_alone_makes_no_version(workflows: Workflows) -> None:
    workflows.apply(READY)
    assert outcomes(workflows.apply(READY.replace("active", "inactive"))) == [("Ready", 1, "updated")]


def test_a_document_without_status_makes_a_draft_and_later_leaves_the_status(workflows: Workflows) -> None:
    silent = READY.replace("status: active", "")
    (made,) = workflows.apply(silent)
    assert workflows.get(made.id).status == workflows_pb2.WORKFLOW_STATUS_DRAFT
    workflows.set_status(made.id, workflows_pb2.WORKFLOW_STATUS_ACTIVE)
    workflows.apply(silent.replace("Counts.", "More."))
    assert workflows.get(made.id).status == workflows_pb2.WORKFLOW_STATUS_ACTIVE
    assert workflows.get(made.id).version == 2


def test_one_problem_keeps_all_files_from_being_applied(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        workflows.apply(RESOURCES, READY, "kind: Environment\nname: e\nmemory_mb: 1\n")
    assert refused.value.reason == "invalid_request"
    assert refused.value.problems == {"f2.yaml:3: memory_mb": "must be an integer from 1,769 to 3,008; it is 1"}
    assert not workflows.list(include_inactive=True).items
    assert [item.outcome for item in workflows.apply(RESOURCES, READY)] == ["created"] * 5


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("Agent", "type: python\ncode: 'def run(context): return 1'"),
        ("KnowledgeGraph", ""),
        ("Connector", "type: s3\nbucket: docs"),
        ("Environment", ""),
        ("Workflow", ""),
    ],
)
def test_at_most_256_manifests_of_a_kind_are_kept(workflows: Workflows, kind: str, fields: str) -> None:
    def document(name: str) -> str:
        return f"kind: {kind}\nname: {name}\n{fields}\n"

    many = "---\n".join(document(f"n{n}") for n in range(256))
    assert {item.outcome for item in workflows.apply(many)} == {"created"}
    with pytest.raises(RefusedError) as refused:
        workflows.apply(document("one-more"))
    assert refused.value.problems == {"f0.yaml:1: kind": f"must not become more than 256 of {kind}"}
    assert {item.outcome for item in workflows.apply(many)} == {"unchanged"}


def test_only_changes_are_audited_with_who_made_them(workflows: Workflows, clock: TestClock) -> None:
    workflows.apply(READY)
    workflows.apply(READY)
    workflows.set_status("Ready", workflows_pb2.WORKFLOW_STATUS_INACTIVE)
    workflows.set_status("Ready", workflows_pb2.WORKFLOW_STATUS_INACTIVE)
    assert [(row.actor, row.action, json.loads(row.details)) for row in reversed(trail(workflows))] == [
        ("tester", "workflow.applied", {"name": "Ready", "version": 1, "outcome": "created"}),
        ("tester", "workflow.status_changed", {"name": "Ready", "from": "active", "to": "inactive"}),
    ]


def test_definitions_of_every_version_can_be_read(workflows: Workflows) -> None:
    workflows.apply(READY)
    workflows.apply(READY.replace("Counts.", "More."))

    def description(**fields: int) -> str:
        request = workflows_pb2.GetWorkflowDefinitionRequest(workflow="Ready", **fields)
        answer = workflows.call("GetWorkflowDefinition", request)
        return str(json.loads(answer.definition)["description"])

    assert description(version=1) == "Counts."
    assert description(version=2) == "More."
    assert description() == "More."
    for version in (0, 3, 2**62):
        with pytest.raises(RefusedError) as refused:
            description(version=version)
        assert refused.value.reason == "version_not_found"
        assert refused.value.message == f"Ready has no version {version}: its newest is 2."


def test_status_is_set_by_id_or_name_and_only_to_active_or_inactive(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY)
    inactive = workflows.set_status("Ready", workflows_pb2.WORKFLOW_STATUS_INACTIVE)
    assert inactive.status == workflows_pb2.WORKFLOW_STATUS_INACTIVE
    assert workflows.set_status(made.id, workflows_pb2.WORKFLOW_STATUS_ACTIVE).version == 1
    with pytest.raises(RefusedError) as refused:
        workflows.set_status(made.id, workflows_pb2.WORKFLOW_STATUS_DRAFT)
    assert refused.value.problems == {"status": "must be one of: active, inactive"}
    with pytest.raises(RefusedError) as refused:
        workflows.set_status("Nobody", workflows_pb2.WORKFLOW_STATUS_ACTIVE)
    assert refused.value.reason == "workflow_not_found"


def test_a_dry_run_tells_what_would_become_of_each_document_and_changes_nothing(
    workflows: Workflows, clock: TestClock
) -> None:
    made = workflows.apply(RESOURCES, READY)
    audited = trail(workflows)
    changed = RESOURCES.replace("return 1", "return 2")
    plan = workflows.apply(changed, READY, "kind: Environment\nname: other\n", dry_run=True)
    assert [(item.name, item.previous_version, item.version, item.outcome, bool(item.id)) for item in plan] == [
        ("standard", 1, 1, "unchanged", True),
        ("counter", 1, 2, "updated", True),
        ("inbox", 1, 1, "unchanged", True),
        ("contracts", 1, 1, "unchanged", True),
        ("Ready", 1, 2, "updated", True),
        ("other", 0, 1, "created", False),
    ]
    agent, workflow = plan[1].difference.splitlines(), plan[4].difference.splitlines()
    assert agent[:2] == ["--- Agent counter, version 1", "+++ Agent counter, version 2"]
    assert [line for line in agent[2:] if line[0] in "+-"] == ["-      return 1", "+      return 2"]
    assert [line for line in workflow[2:] if line[0] in "+-"] == [
        "-  Agent counter: version 1",
        "+  Agent counter: version 2",
    ]
    assert not any(item.difference for item in plan if item.outcome != "updated")
    assert workflows.resource("environment", "other") is None
    assert [(item.id, item.outcome) for item in workflows.apply(RESOURCES, READY)] == [
        (item.id, "unchanged") for item in made
    ]
    assert trail(workflows) == audited


def test_a_dry_run_shows_a_status_and_a_definition_that_change(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    (status,) = workflows.apply(READY.replace("active", "inactive"), dry_run=True)
    assert (status.previous_version, status.version) == (1, 1)
    assert "-status: active\n+status: inactive\n" in status.difference
    (described,) = workflows.apply(READY.replace("Counts.", "Counts more."), dry_run=True)
    assert "-description: Counts.\n+description: Counts more.\n" in described.difference
    assert workflows.get(status.id).status == workflows_pb2.WORKFLOW_STATUS_ACTIVE


def test_a_dry_run_of_what_is_refused_tells_the_problems(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        workflows.apply("kind: Environment\nname: e\nmemory_mb: 1\n", dry_run=True)
    assert refused.value.problems == {"f0.yaml:3: memory_mb": "must be an integer from 1,769 to 3,008; it is 1"}


def test_an_apply_tells_what_is_not_ready_and_what_will_not_work(workflows: Workflows) -> None:
    text = """
        kind: Connector
        name: outbox
        type: s3
        bucket: docs
        secret: nowhere-kept
        ---
        kind: Agent
        name: writer
        type: llm
        model: anthropic:claude
        instructions: Write.
        ---
        kind: KnowledgeGraph
        name: remote
        store: sparql
        endpoint_url: https://graph.example.org/query
        update_url: https://graph.example.org/update
        secret: graph-token
        ---
        kind: Workflow
        name: Not yet
        steps: [{step: a, agent: nobody, connectors: [outbox]}, {step: b, agent: writer}]
        publish: [{knowledge_graph: remote}, {knowledge_graph: absent}]
    """
    connector, agent, graph, workflow = workflows.apply(text)
    assert list(connector.warnings) == [
        f"This deployment has no secret named 'nowhere-kept': {how_to_set('nowhere-kept')}.",
        "The connection test of this version is missing: run `workflow-api connectors test 'outbox'`.",
    ]
    assert list(agent.warnings) == [
        "This deployment names no api_key for models of 'anthropic', and the agent names none."
    ]
    assert list(graph.warnings) == [f"This deployment has no secret named 'graph-token': {how_to_set('graph-token')}."]
    assert list(workflow.not_ready) == list(workflows.get(workflow.id).readiness.reasons)
    assert len(workflow.not_ready) == 3
    assert list(workflow.warnings) == ["Knowledge graph 'absent' does not exist: nothing is published to it."]
    workflows.record_test("outbox", passed=False)
    connector, *_ = workflows.apply(text)
    assert connector.warnings[1].startswith("The connection test of this version has failed: ")


def test_a_missing_secret_of_an_agent_keeps_its_workflow_from_running(workflows: Workflows) -> None:
    agent, workflow = workflows.apply(
        """
        kind: Agent
        name: caller
        type: python
        secrets: [rates-api]
        code: "def run(context): pass"
        ---
        kind: Workflow
        name: Calls
        steps: [{step: a, agent: caller}]
        """
    )
    assert list(agent.warnings) == [f"This deployment has no secret named 'rates-api': {how_to_set('rates-api')}."]
    reason = f"Agent 'caller' needs the secret 'rates-api', which is missing: {how_to_set('rates-api')}."
    assert reason in workflow.not_ready
    assert list(workflow.not_ready) == list(workflows.get(workflow.id).readiness.reasons)
