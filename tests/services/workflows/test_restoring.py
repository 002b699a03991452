"""RestoreWorkflowVersion and GetAgentCode: a former version is active again with its agents, environments and code."""

import io
import json
import zipfile
from typing import Any

import pytest

from backend.services.workflows.definitions_servicer import DefinitionsServicer
from tests.services.calls import Caller, RefusedError
from tests.services.workflows.conftest import READY, RESOURCES, Workflows
from workflow_api.v1 import definitions_pb2, workflows_pb2

CHANGED = RESOURCES.replace("return 1", "return 2").replace("name: standard", "name: standard\n    memory_mb: 1800")
SOURCE = "kind: Agent\nname: digester\ntype: python\nsource: agents\nentrypoint: main:run\n"
FILES = {"agents/main.py": b"def run(context):\n    return 1\n", "agents/lib/data.bin": bytes(range(256))}


@pytest.fixture
def definitions(workflows: Workflows) -> Caller:
    service = definitions_pb2.DESCRIPTOR.services_by_name["DefinitionsService"]
    return Caller(DefinitionsServicer(workflows.services), service)


def restore(definitions: Caller, version: int, **fields: Any) -> definitions_pb2.RestoreWorkflowVersionResponse:
    request = definitions_pb2.RestoreWorkflowVersionRequest(workflow="Ready", version=version, **fields)
    answer: definitions_pb2.RestoreWorkflowVersionResponse = definitions("RestoreWorkflowVersion", request)
    return answer


def code(definitions: Caller, agent: str, **fields: int) -> dict[str, bytes]:
    answer = definitions("GetAgentCode", definitions_pb2.GetAgentCodeRequest(agent=agent, **fields))
    with zipfile.ZipFile(io.BytesIO(answer.archive)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pins(workflows: Workflows, name: str, version: int) -> dict[str, int]:
    request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=name, version=version)
    return {each.name: each.version for each in workflows.call("GetWorkflowDefinition", request).resources}


def agent_of(workflows: Workflows, workflow_id: str) -> str:
    (step,) = workflows.terms(workflow_id).steps
    return str(step.agent["code"])


def test_going_back_pins_the_agents_and_environments_of_the_former_version(
    workflows: Workflows, definitions: Caller
) -> None:
    *_, made = workflows.apply(RESOURCES, READY)
    workflows.apply(READY.replace("Ready", "Second"))
    workflows.apply(CHANGED)
    workflows.apply(READY.replace("Counts.", "More."))
    assert pins(workflows, "Ready", 3) == {"counter": 2, "standard": 2}
    done = restore(definitions, 1)
    assert (done.workflow.version, done.workflow.previous_version, done.workflow.outcome) == (4, 3, "updated")
    assert pins(workflows, "Ready", 4) == {"counter": 1, "standard": 1}
    assert "return 1" in agent_of(workflows, made.id)
    assert workflows.get(made.id).description == "Counts."
    # Neither the agent nor another workflow changes.
    assert workflows.resource("agent", "counter").version == 2
    assert pins(workflows, "Second", 2) == {"counter": 2, "standard": 2}
    assert {item.name: item.version for item in workflows.list().items} == {"Ready": 4, "Second": 2}


def test_a_dry_run_shows_the_difference_in_definition_and_code_and_changes_nothing(
    workflows: Workflows, definitions: Caller
) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED)
    workflows.apply(READY.replace("Counts.", "More."))
    planned = restore(definitions, 1, dry_run=True)
    for shown in (planned.workflow.difference, planned.workflow.manifest_difference):
        assert "-description: More.\n" in shown
        assert "+description: Counts.\n" in shown
        assert "-  Agent counter: version 2\n" in shown
        assert "+  Agent counter: version 1\n" in shown
    assert [(each.kind, each.name, each.previous_version, each.version, each.outcome) for each in planned.pinned] == [
        ("Agent", "counter", 2, 1, "pinned"),
        ("Environment", "standard", 2, 1, "pinned"),
    ]
    assert "return 1" in planned.pinned[0].difference
    assert "memory_mb" in planned.pinned[1].manifest_difference
    assert [item.version for item in workflows.list().items] == [3]


def test_going_back_to_what_is_there_already_only_activates_it(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    assert restore(definitions, 1).workflow.outcome == "unchanged"
    workflows.set_status("Ready", workflows_pb2.WORKFLOW_STATUS_INACTIVE)
    done = restore(definitions, 1)
    assert (done.workflow.outcome, done.workflow.version) == ("updated", 1)
    assert [item.name for item in workflows.list().items] == ["Ready"]


def test_a_version_that_went_back_keeps_its_agents_until_one_of_them_changes(
    workflows: Workflows, definitions: Caller
) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED)
    restore(definitions, 1)
    # The same resources again change nothing.
    assert [item.outcome for item in workflows.apply(CHANGED)] == ["unchanged"] * 4
    *_, changed = workflows.apply(CHANGED.replace("return 2", "return 3"))
    assert (changed.name, list(changed.changed_resources)) == ("Ready", ["Agent counter"])
    assert pins(workflows, "Ready", changed.version) == {"counter": 3, "standard": 1}


def test_a_newer_version_than_was_seen_is_not_replaced(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED)
    with pytest.raises(RefusedError) as refused:
        restore(definitions, 1, expected_version=1)
    assert refused.value.problems == {"expected_version": "must be 2, the newest version now"}
    assert restore(definitions, 1, expected_version=2).workflow.version == 3


def test_a_version_that_does_not_exist_is_named(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    with pytest.raises(RefusedError) as refused:
        restore(definitions, 7)
    assert refused.value.reason == "version_not_found"
    assert refused.value.message == "Ready has no version 7: its newest is 1."


def test_versions_name_who_went_back(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED)
    restore(definitions, 1)
    request = definitions_pb2.ListDefinitionVersionsRequest(kind="Workflow", definition="Ready")
    newest = definitions("ListDefinitionVersions", request).items[0]
    assert (newest.version, newest.created_by) == (3, "tester")
    assert list(newest.changed_resources) == ["Agent counter", "Environment standard"]


def test_the_code_of_every_version_can_be_read(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(SOURCE, attached=FILES)
    workflows.apply("kind: Workflow\nname: W\nsteps: [{step: a, agent: digester}]\n")
    changed = FILES | {"agents/main.py": b"def run(context):\n    return 2\n"}
    workflows.apply(SOURCE, attached=changed)
    assert code(definitions, "digester", version=1) == {
        "main.py": FILES["agents/main.py"],
        "lib/data.bin": FILES["agents/lib/data.bin"],
    }
    assert code(definitions, "digester")["main.py"] == changed["agents/main.py"]
    workflows.apply(RESOURCES)
    written = json.loads(workflows.resource("agent", "counter").definition)["code"]
    assert code(definitions, "counter") == {"agent.py": written.encode()}
    workflows.apply("kind: Agent\nname: writer\ntype: llm\nmodel: openai:gpt-5\ninstructions: Write.\n")
    with pytest.raises(RefusedError) as refused:
        code(definitions, "writer")
    assert refused.value.problems == {"agent": "must have code; writer is of type llm"}
