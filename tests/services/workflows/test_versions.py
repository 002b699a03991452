"""A version alone decides what its runs do: it is pinned to its agents and environments (contract 23.11)."""

import json
from typing import Any

import pytest

from backend.services.audit import sql as audit
from backend.services.workflows import resources_sql, sql, versions_sql
from backend.storage.database import Tx
from tests.services.calls import RefusedError
from tests.services.workflows.conftest import READY, RESOURCES, Workflows
from workflow_api.v1 import workflows_pb2

CHANGED_AGENT = RESOURCES.replace("return 1", "return 2")
SMALLER = RESOURCES.replace("name: standard", "name: standard\n    memory_mb: 1800")
SWITCHED_OFF = RESOURCES.replace("name: standard", "name: standard\n    status: inactive")
NO_AGENT = "Step 'count' has no agent: there was no agent named 'counter' when this version was saved."
NO_ENVIRONMENT = "Environment 'standard' is not active: it did not exist when this version was saved."


def workflow(name: str, status: str = "active", agent: str = "counter") -> str:
    return f"kind: Workflow\nname: {name}\nstatus: {status}\nsteps: [{{step: a, agent: {agent}}}]\n"


def new_versions(items: list[Any]) -> list[tuple[str, int, list[str]]]:
    return [
        (item.name, item.version, list(item.changed_resources))
        for item in items
        if item.kind == "Workflow" and item.outcome == "updated"
    ]


def code(workflows: Workflows, workflow_id: str, version: int | None = None) -> str:
    (step,) = workflows.terms(workflow_id, version).steps
    return str(step.agent["code"])


def definition(workflows: Workflows, name: str, **fields: int) -> workflows_pb2.WorkflowDefinition:
    request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=name, **fields)
    answer: workflows_pb2.WorkflowDefinition = workflows.call("GetWorkflowDefinition", request)
    return answer


def stored(workflows: Workflows, statement: str) -> list[Any]:
    return workflows.services.database.read(lambda tx: list(tx.connection.execute(statement).fetchall()))


def test_a_changed_agent_makes_a_new_version_of_each_workflow_that_uses_it_and_says_so(workflows: Workflows) -> None:
    other = "kind: Agent\nname: other\ntype: python\ncode: 'def run(context): return 1'\n"
    workflows.apply(RESOURCES, other, READY, workflow("Second"), workflow("Third", agent="other"))
    items = workflows.apply(CHANGED_AGENT)
    assert [(item.kind, item.outcome) for item in items[:4]] == [
        ("Environment", "unchanged"),
        ("Agent", "updated"),
        ("Connector", "unchanged"),
        ("KnowledgeGraph", "unchanged"),
    ]
    assert new_versions(items[4:]) == [("Ready", 2, ["Agent counter"]), ("Second", 2, ["Agent counter"])]
    assert {item.name: item.version for item in workflows.list().items} == {"Ready": 2, "Second": 2, "Third": 1}


def test_an_older_version_keeps_its_agents(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT)
    workflows.apply(READY.replace("Counts.", "More."))
    codes = [code(workflows, made.id, version) for version in (1, 2, 3, None)]
    assert ["return 1" in each for each in codes] == [True, False, False, False]
    assert ["return 2" in each for each in codes] == [False, True, True, True]


def test_going_back_to_a_former_agent_is_a_new_version_too(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT)
    assert new_versions(workflows.apply(RESOURCES)) == [("Ready", 3, ["Agent counter"])]
    assert code(workflows, made.id, 3) == code(workflows, made.id, 1) != code(workflows, made.id, 2)


def test_applying_the_same_resources_again_makes_no_version(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT)
    items = workflows.apply(CHANGED_AGENT, READY)
    assert [item.outcome for item in items] == ["unchanged"] * 5
    assert items[-1].version == 2


@pytest.mark.parametrize("first", [READY, CHANGED_AGENT])
def test_a_workflow_and_its_agents_that_change_together_make_one_version(workflows: Workflows, first: str) -> None:
    workflows.apply(RESOURCES, READY)
    more = READY.replace("Counts.", "More.")
    files = (more, CHANGED_AGENT) if first is READY else (CHANGED_AGENT, more)
    assert new_versions(workflows.apply(*files)) == [("Ready", 2, ["Agent counter"])]


def test_a_workflow_listed_before_its_new_agents_has_them_in_version_1(workflows: Workflows) -> None:
    made, *others = workflows.apply(READY, RESOURCES)
    assert len(others) == 4
    assert (workflows.get(made.id).version, workflows.terms(made.id, 1).reasons) == (1, ())


@pytest.mark.parametrize("status", ["draft", "inactive"])
def test_a_workflow_that_is_not_active_has_a_new_version_and_keeps_its_status(
    workflows: Workflows, status: str
) -> None:
    *_, made = workflows.apply(RESOURCES, workflow("Off", status))
    assert new_versions(workflows.apply(CHANGED_AGENT)) == [("Off", 2, ["Agent counter"])]
    found = workflows.get(made.id)
    assert found.version == 2
    assert workflows_pb2.WorkflowStatus.Name(found.status) == f"WORKFLOW_STATUS_{status.upper()}"
    assert workflows.set_status(made.id, workflows_pb2.WORKFLOW_STATUS_ACTIVE).version == 2


def test_agents_applied_later_make_a_version_and_the_one_before_stays_without(workflows: Workflows) -> None:
    (made,) = workflows.apply(READY)
    assert workflows.terms(made.id, 1).reasons == (NO_AGENT, NO_ENVIRONMENT)
    came = workflows.apply(RESOURCES)
    assert new_versions(came) == [("Ready", 2, ["Agent counter", "Environment standard"])]
    assert workflows.terms(made.id, 2).reasons == ()
    assert workflows.terms(made.id, 1).reasons == (NO_AGENT, NO_ENVIRONMENT)


def test_a_changed_environment_makes_a_version_and_the_one_before_keeps_its_own(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    assert new_versions(workflows.apply(SMALLER)) == [("Ready", 2, ["Environment standard"])]
    memory = [workflows.terms(made.id, version).steps[0].environment["memory_mb"] for version in (1, 2)]
    assert memory == [2_048, 1_800]


def test_the_status_of_an_environment_is_live_and_makes_no_version(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(SMALLER)
    assert new_versions(workflows.apply(SMALLER.replace("memory_mb", "status: inactive\n    memory_mb"))) == []
    assert [workflows.terms(made.id, version).reasons for version in (1, 2)] == [
        ("Environment 'standard' is not active.",)
    ] * 2
    assert new_versions(workflows.apply(SMALLER)) == []
    assert [workflows.terms(made.id, version).reasons for version in (1, 2)] == [(), ()]


def test_an_environment_whose_content_and_status_change_makes_a_version(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    assert new_versions(workflows.apply(SWITCHED_OFF)) == []
    assert new_versions(workflows.apply(SMALLER)) == [("Ready", 2, ["Environment standard"])]


def test_connectors_and_their_tests_are_live_in_every_version(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY.replace("agent: counter", "agent: counter, connectors: [inbox]"))
    workflows.record_test("inbox", passed=True)
    workflows.apply(CHANGED_AGENT)
    assert new_versions(workflows.apply(CHANGED_AGENT.replace("bucket: docs", "bucket: other"))) == []
    for version in (1, 2):
        assert workflows.terms(made.id, version).steps[0].connectors["inbox"]["bucket"] == "other"
    workflows.record_test("inbox", passed=False)
    assert [len(workflows.terms(made.id, version).reasons) for version in (1, 2)] == [1, 1]


def test_a_refused_apply_makes_no_version(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    many = "---\n".join(f"kind: Environment\nname: n{n}\n" for n in range(256))
    with pytest.raises(RefusedError):
        workflows.apply(CHANGED_AGENT, many)
    assert workflows.get(made.id).version == 1
    assert "return 1" in code(workflows, made.id)


def test_a_version_shows_the_agents_and_environments_that_it_uses(workflows: Workflows) -> None:
    workflows.apply(READY)
    _, agent, *_ = workflows.apply(RESOURCES)
    workflows.apply(CHANGED_AGENT)

    def used_by(version: int) -> list[tuple[str, str, int | None]]:
        resources = definition(workflows, "Ready", version=version).resources
        return [(each.kind, each.name, each.version if each.HasField("version") else None) for each in resources]

    assert used_by(1) == [("Agent", "counter", None), ("Environment", "standard", None)]
    assert used_by(2) == [("Agent", "counter", 1), ("Environment", "standard", 1)]
    assert used_by(3) == [("Agent", "counter", 2), ("Environment", "standard", 1)]
    assert definition(workflows, "Ready").resources[0].id == agent.id


def test_a_version_that_an_agent_made_shares_the_definition_instead_of_copying_it(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    for result in (2, 3, 4):
        workflows.apply(RESOURCES.replace("return 1", f"return {result}"))
    texts = {definition(workflows, "Ready", version=version).definition for version in (1, 2, 3, 4)}
    assert len(texts) == 1
    sizes = stored(workflows, "SELECT version FROM workflow_versions WHERE definition <> '' ORDER BY version")
    assert [tuple(row) for row in sizes] == [(1,)]
    workflows.apply(READY.replace("Counts.", "More."))
    workflows.apply(RESOURCES)
    assert json.loads(definition(workflows, "Ready", version=6).definition)["description"] == "More."


def test_a_version_that_an_agent_made_is_audited_with_what_changed(workflows: Workflows) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT)
    (newest, *_) = workflows.services.database.read(
        lambda tx: audit.trail(
            tx, audit.Filters(target=made.id), since=0, before=audit.AuditPosition(2**62, ""), limit=10
        )[0]
    )
    details = {"name": "Ready", "version": 2, "outcome": "updated", "changed_resources": ["Agent counter"]}
    assert (newest.action, json.loads(newest.details)) == ("workflow.applied", details)


def test_a_version_made_by_the_former_release_is_followed_by_one_with_its_agents(
    workflows: Workflows,
) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    agent = workflows.resource("agent", "counter")

    def former(tx: Tx) -> None:
        resources_sql.change_resource(tx, agent, agent.definition.replace("return 1", "return 2"), 1)
        row = sql.get(tx, made.id)
        assert row is not None
        sql.change_workflow(tx, row, 1, status="active", newest_version=2)
        versions_sql.add_version(
            tx, made.id, 2, definition=versions_sql.definition_text(tx, made.id, 1), pins=(), now=1
        )

    workflows.services.database.write(former)
    assert new_versions(workflows.apply(CHANGED_AGENT)) == []
    assert new_versions(workflows.apply(READY)) == [("Ready", 3, [])]
    assert "return 2" in code(workflows, made.id)
