"""DefinitionsService: versions as manifests, what differs between them, and saving only what one has seen."""

import json
import textwrap
from typing import Any

import pytest

from backend.services.workflows.definitions_servicer import LONGEST_DEFINITION, DefinitionsServicer
from tests.services.calls import Caller, RefusedError
from tests.services.workflows.conftest import READY, RESOURCES, Workflows
from workflow_api.v1 import definitions_pb2, workflows_pb2

CHANGED_AGENT = RESOURCES.replace("return 1", "return 2")
FOLDER = "kind: Agent\nname: reader\ntype: python\nsource: code\nentrypoint: main:run\n"
FILES = {"code/main.py": b"from help import one\n\ndef run(context):\n    return one\n", "code/help.py": b"one = 1\n"}


@pytest.fixture
def definitions(workflows: Workflows) -> Caller:
    service = definitions_pb2.DESCRIPTOR.services_by_name["DefinitionsService"]
    return Caller(DefinitionsServicer(workflows.services), service)


def manifest(definitions: Caller, kind: str, name: str, **version: int) -> definitions_pb2.Manifest:
    request = definitions_pb2.GetManifestRequest(kind=kind, definition=name, **version)
    answer: definitions_pb2.Manifest = definitions("GetManifest", request)
    return answer


def versions(definitions: Caller, kind: str, name: str) -> list[definitions_pb2.DefinitionVersion]:
    request = definitions_pb2.ListDefinitionVersionsRequest(kind=kind, definition=name)
    return list(definitions("ListDefinitionVersions", request).items)


def compared(definitions: Caller, before: int, after: int) -> str:
    request = definitions_pb2.CompareVersionsRequest(kind="Workflow", definition="Ready", before=before, after=after)
    return str(definitions("CompareVersions", request).difference)


def save(workflows: Workflows, text: str, *expected: tuple[str, str, int], dry_run: bool = False) -> list[Any]:
    request = workflows_pb2.ApplyManifestsRequest(
        files=[workflows_pb2.ManifestFile(name="f.yaml", content=textwrap.dedent(text))],
        expected=[workflows_pb2.ExpectedVersion(kind=kind, name=name, version=at) for kind, name, at in expected],
        dry_run=dry_run,
    )
    return list(workflows.call("ApplyManifests", request).items)


def refusal(workflows: Workflows, text: str, *expected: tuple[str, str, int]) -> dict[str, str]:
    with pytest.raises(RefusedError) as refused:
        save(workflows, text, *expected)
    return dict(refused.value.problems)


def test_a_manifest_that_was_read_applies_without_a_change(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    named = [("Environment", "standard"), ("Agent", "counter"), ("Connector", "inbox"), ("Workflow", "Ready")]
    for kind, name in named:
        found = manifest(definitions, kind, name)
        assert (found.name, found.version, found.newest_version) == (name, 1, 1)
        (item,) = save(workflows, found.text, (kind, name, 1))
        assert (item.id, item.outcome) == (found.id, "unchanged")


def test_a_dry_run_of_an_expected_workflow_has_its_definition(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    text = READY.replace("name: Ready", "name: Planned")
    (item,) = save(workflows, text, ("Workflow", "Planned", 0), dry_run=True)
    assert [step["step"] for step in json.loads(item.definition)["steps"]]
    (item,) = save(workflows, text, dry_run=True)
    assert not item.HasField("definition")
    (item,) = save(workflows, text, ("Workflow", "Planned", 0))
    assert not item.HasField("definition")


def test_a_version_is_listed_with_who_saved_it_and_what_made_it(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT)
    newest, first = versions(definitions, "Workflow", "Ready")
    assert (newest.version, newest.created_by, list(newest.changed_resources)) == (2, "tester", ["Agent counter"])
    assert (first.version, first.created_by, list(first.changed_resources)) == (1, "tester", [])
    assert newest.HasField("created_at")
    assert [each.version for each in versions(definitions, "Agent", "counter")] == [2, 1]


def test_a_version_whose_audit_record_is_gone_is_listed_without_who_saved_it(
    workflows: Workflows, definitions: Caller
) -> None:
    workflows.apply(RESOURCES)
    workflows.services.database.write(lambda tx: tx.connection.execute("DELETE FROM audit_records"))
    (only,) = versions(definitions, "Agent", "counter")
    assert not only.HasField("created_by")


def test_a_difference_has_what_changed_in_the_definition_and_in_what_it_uses(
    workflows: Workflows, definitions: Caller
) -> None:
    workflows.apply(RESOURCES, READY)
    workflows.apply(CHANGED_AGENT, READY.replace("Counts.", "Counts all."))
    found = compared(definitions, 1, 2).splitlines()
    assert found[:2] == ["--- Workflow Ready, version 1", "+++ Workflow Ready, version 2"]
    changed = [line for line in found[2:] if line[0] in "+-"]
    assert changed == [
        *("-description: Counts.", "+description: Counts all."),
        *("-  Agent counter: version 1", "+  Agent counter: version 2"),
    ]
    assert compared(definitions, 1, 1) == ""


def test_a_difference_of_an_agent_names_the_files_that_changed(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(FOLDER, attached=FILES)
    workflows.apply(FOLDER, attached={**FILES, "code/help.py": b"one = 2\n"})
    request = definitions_pb2.CompareVersionsRequest(kind="Agent", definition="reader", before=1, after=2)
    found = definitions("CompareVersions", request).difference.splitlines()[2:]
    assert [line.partition(":")[0] for line in found if line[0] in "+-"] == ["-  help.py", "+  help.py"]


def test_a_save_on_an_older_version_is_refused_and_changes_nothing(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, READY)
    mine = READY.replace("Counts.", "Mine.")
    save(workflows, READY.replace("Counts.", "Theirs."), ("Workflow", "Ready", 1))
    assert refusal(workflows, mine, ("Workflow", "Ready", 1)) == {
        "f.yaml:2: version": "must be of version 2, which is the newest now"
    }
    assert "Theirs." in manifest(definitions, "Workflow", "Ready").text
    (item,) = save(workflows, mine, ("Workflow", "Ready", 2))
    assert item.version == 3


def test_a_new_definition_replaces_none_of_its_name(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    assert refusal(workflows, READY, ("Workflow", "Ready", 0)) == {
        "f.yaml:2: name": "is taken: edit what has it, or choose another"
    }
    other = READY.replace("Ready", "Other")
    assert refusal(workflows, other, ("Workflow", "Other", 3)) == {"f.yaml:2: version": "does not exist any more"}
    (item,) = save(workflows, other, ("Workflow", "Other", 0))
    assert item.outcome == "created"


def test_a_save_of_one_definition_touches_no_other(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    both = READY + "---\n" + READY.replace("Ready", "Other")
    assert list(refusal(workflows, both, ("Workflow", "Ready", 1))) == ["f.yaml:9: name"]
    renamed = READY.replace("Ready", "Renamed")
    assert list(refusal(workflows, renamed, ("Workflow", "Ready", 1))) == ["f.yaml:2: name", "files"]


def test_the_folder_of_an_agent_stays_where_it_is_not_sent(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(FOLDER, attached=FILES)
    found = manifest(definitions, "Agent", "reader")
    assert "digest" not in found.text
    (item,) = save(workflows, found.text + "secrets: [rates]\n", ("Agent", "reader", 1))
    assert (item.version, item.outcome) == (2, "updated")
    assert save(workflows, found.text, ("Agent", "reader", 2))[0].version == 3
    assert manifest(definitions, "Agent", "reader").text == found.text


def test_a_definition_that_is_too_long_has_no_text(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(f"kind: Agent\nname: long\ntype: llm\nmodel: a:b\ninstructions: {'a' * 30_000}\n")
    assert manifest(definitions, "Agent", "long").text
    code = "def run(context): pass\n" + "#\n" * (LONGEST_DEFINITION // 2)
    workflows.apply(
        FOLDER.replace("source: code\nentrypoint: main:run", "code_file: a.py"), attached={"a.py": code.encode()}
    )
    found = manifest(definitions, "Agent", "reader")
    assert (found.version, found.text) == (1, "")


def test_what_uses_an_agent_is_listed_with_the_version_that_it_uses(workflows: Workflows, definitions: Caller) -> None:
    *_, ready, other = workflows.apply(RESOURCES, READY, READY.replace("Ready", "Other"))
    workflows.apply(READY.replace("agent: counter", "agent: another"))
    workflows.apply(CHANGED_AGENT)
    request = definitions_pb2.ListDefinitionUsesRequest(kind="Agent", definition="counter")
    (use,) = definitions("ListDefinitionUses", request).items
    assert (use.workflow_id, use.workflow_name, use.workflow_version, use.version) == (other.id, "Other", 2, 2)
    assert ready.id != other.id


USES = """
    kind: Workflow
    name: Uses
    parameters: [{type: s3_prefix, name: folder, connector: inbox}]
    steps:
    - {step: one, agent: counter, environment: standard}
    - {step: two, agent: another, environment: standard, connectors: [inbox]}
    - {step: three, agent: counter}
    publish: [{knowledge_graph: contracts}]
"""


@pytest.mark.parametrize(
    ("kind", "name", "agents", "environments", "connectors", "graphs"),
    [
        ("Environment", "standard", ["counter", "another"], [], ["inbox"], ["contracts"]),
        ("Connector", "inbox", ["another"], ["standard"], [], ["contracts"]),
        ("KnowledgeGraph", "contracts", [], [], [], []),
        ("Agent", "counter", [], ["standard"], [], ["contracts"]),
    ],
)
def test_a_use_names_what_the_same_steps_use(
    workflows: Workflows,
    definitions: Caller,
    kind: str,
    name: str,
    agents: list[str],
    environments: list[str],
    connectors: list[str],
    graphs: list[str],
) -> None:
    # One mentions the names in words alone, which is no use.
    described = READY.replace("Counts.", "Reads inbox, contracts, standard.").replace(", environment: standard", "")
    workflows.apply(RESOURCES, USES, described.replace("agent: counter", "agent: 'inbox'"))
    request = definitions_pb2.ListDefinitionUsesRequest(kind=kind, definition=name)
    (use,) = definitions("ListDefinitionUses", request).items
    assert use.workflow_name == "Uses"
    assert list(use.agents) == agents
    assert list(use.environments) == environments
    assert list(use.connectors) == connectors
    assert list(use.knowledge_graphs) == graphs
    assert use.HasField("version") == (kind in {"Agent", "Environment"})


def test_uses_of_what_is_not_pinned_come_in_pages_and_follow_the_newest_version(
    workflows: Workflows, definitions: Caller
) -> None:
    named = [USES.replace("name: Uses", f"name: Uses {number}") for number in range(3)]
    workflows.apply(RESOURCES, *named)
    workflows.apply(named[1].replace("[{knowledge_graph: contracts}]", "[]"))
    request = definitions_pb2.ListDefinitionUsesRequest(kind="KnowledgeGraph", definition="contracts", page_size=1)
    first = definitions("ListDefinitionUses", request)
    request.page_token = first.next_page_token
    second = definitions("ListDefinitionUses", request)
    assert [use.workflow_name for page in (first, second) for use in page.items] == ["Uses 0", "Uses 2"]
    assert not second.HasField("next_page_token")


def found(definitions: Caller, method: str, **asked: Any) -> list[str]:
    request = {
        "FindWorkflows": definitions_pb2.FindWorkflowsRequest,
        "FindResources": definitions_pb2.FindResourcesRequest,
    }[method](**asked)
    return [item.name for item in definitions(method, request).items]


def test_workflows_are_found_by_a_part_of_name_or_id_within_a_bound(workflows: Workflows, definitions: Caller) -> None:
    names = ("Zählung", "Digest of the zählung", "Other")
    applied = workflows.apply(RESOURCES, *(READY.replace("Ready", name) for name in names))
    assert found(definitions, "FindWorkflows", text="ZÄHL") == ["Zählung", "Digest of the zählung"]
    assert found(definitions, "FindWorkflows", text="zähl", most=1) == ["Zählung"]
    assert found(definitions, "FindWorkflows", text="%") == []
    assert found(definitions, "FindWorkflows", text=applied[-1].id[:-2])[-1:] == [applied[-1].name]
    assert len(found(definitions, "FindWorkflows")) == 3


def test_resources_are_found_among_kinds_within_a_bound_of_each(workflows: Workflows, definitions: Caller) -> None:
    workflows.apply(RESOURCES, "kind: Environment\nname: a standard\n", "kind: Environment\nname: inbox\n")
    environments = [workflows_pb2.RESOURCE_KIND_ENVIRONMENT]
    assert found(definitions, "FindResources", text="stand", kinds=environments) == ["standard", "a standard"]
    assert found(definitions, "FindResources", text="stand", most=1) == ["standard"]
    assert found(definitions, "FindResources", text="INBOX") == ["inbox", "inbox"]


@pytest.mark.parametrize(
    ("kind", "name", "version", "reason"),
    [
        ("Nothing", "Ready", 1, "invalid_request"),
        ("Workflow", "Redy", 1, "not_found"),
        ("Agent", "Ready", 1, "not_found"),
        ("Workflow", "Ready", 2, "version_not_found"),
        ("Agent", "counter", 2**40, "version_not_found"),
    ],
)
def test_what_does_not_exist_is_refused(
    workflows: Workflows, definitions: Caller, kind: str, name: str, version: int, reason: str
) -> None:
    workflows.apply(RESOURCES, READY)
    with pytest.raises(RefusedError) as refused:
        manifest(definitions, kind, name, version=version)
    assert refused.value.reason == reason
