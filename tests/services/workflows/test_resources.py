"""ListResources and GetResource. (docs/command-line.md)"""

import json

import pytest

from backend.services.workflows.resources_sql import ListedRow
from tests.services.calls import RefusedError
from tests.services.workflows.conftest import READY, RESOURCES, Workflows
from workflow_api.v1 import workflows_pb2

AGENT = workflows_pb2.RESOURCE_KIND_AGENT
CONNECTOR = workflows_pb2.RESOURCE_KIND_CONNECTOR
ENVIRONMENT = workflows_pb2.RESOURCE_KIND_ENVIRONMENT


def page(workflows: Workflows, **fields: object) -> workflows_pb2.ListResourcesResponse:
    answer: workflows_pb2.ListResourcesResponse = workflows.call(
        "ListResources",
        workflows_pb2.ListResourcesRequest(**fields),  # type: ignore[arg-type]
    )
    return answer


def get(workflows: Workflows, **fields: object) -> workflows_pb2.ResourceDefinition:
    answer: workflows_pb2.ResourceDefinition = workflows.call(
        "GetResource",
        workflows_pb2.GetResourceRequest(**fields),  # type: ignore[arg-type]
    )
    return answer


def test_resources_of_one_kind_are_listed_by_name_in_pages(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, "kind: Environment\nname: off\nstatus: inactive\n")
    first = page(workflows, kind=ENVIRONMENT, page_size=1)
    second = page(workflows, kind=ENVIRONMENT, page_size=1, page_token=first.next_page_token)
    assert [(item.name, item.status) for item in (*first.items, *second.items)] == [
        ("off", "inactive"),
        ("standard", "active"),
    ]
    assert not second.HasField("next_page_token")
    with pytest.raises(RefusedError) as refused:
        page(workflows, kind=AGENT, page_token=first.next_page_token)
    assert list(refused.value.problems) == ["page_token"]


def test_a_list_shows_what_the_definitions_say_without_reading_them(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY, "kind: KnowledgeGraph\nname: facts\n")
    graphs = workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH
    for kind in (AGENT, CONNECTOR, ENVIRONMENT, graphs):
        items = page(workflows, kind=kind).items
        assert items
        assert list(items) == [get(workflows, kind=kind, resource=item.name).resource for item in items]
    assert "definition" not in ListedRow._fields


def test_a_kind_must_be_given(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        page(workflows)
    assert list(refused.value.problems) == ["kind"]


def test_a_resource_is_shown_with_who_uses_it_by_name_or_id(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    shown = get(workflows, kind=AGENT, resource="counter")
    assert (shown.resource.type, shown.resource.version, list(shown.used_by)) == ("python", 1, ["Ready"])
    assert json.loads(shown.definition)["code"].startswith("def run(context):")
    assert get(workflows, kind=AGENT, resource=shown.resource.resource_id) == shown


def test_every_version_of_a_resource_can_be_shown(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    workflows.apply("kind: Environment\nname: standard\nmemory_mb: 3008\n")
    first = get(workflows, kind=ENVIRONMENT, resource="standard", version=1)
    assert (first.resource.version, first.shown_version, json.loads(first.definition)["memory_mb"]) == (2, 1, 2048)
    with pytest.raises(RefusedError) as refused:
        get(workflows, kind=ENVIRONMENT, resource="standard", version=3)
    assert refused.value.reason == "version_not_found"


def test_a_connector_shows_its_last_test(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    untested = get(workflows, kind=CONNECTOR, resource="inbox")
    assert (untested.resource.status, untested.HasField("last_test")) == ("not tested", False)
    workflows.record_test("inbox", passed=False)
    tested = get(workflows, kind=CONNECTOR, resource="inbox")
    assert (tested.resource.status, tested.last_test.passed, tested.last_test.message) == ("failed", False, "any")


def test_a_name_of_another_kind_is_not_found(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    with pytest.raises(RefusedError) as refused:
        get(workflows, kind=AGENT, resource="standard")
    assert (refused.value.reason, refused.value.message) == ("not_found", "There is no agent named standard.")


def test_a_name_that_nothing_has_is_told_with_those_that_come_close(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, READY)
    with pytest.raises(RefusedError) as refused:
        get(workflows, kind=AGENT, resource="Countr")
    assert refused.value.message == "There is no agent named Countr. Did you mean counter?"
    with pytest.raises(RefusedError) as refused:
        workflows.call("GetWorkflowDefinition", workflows_pb2.GetWorkflowDefinitionRequest(workflow="ready"))
    assert refused.value.reason == "workflow_not_found"
    assert refused.value.message == "There is no workflow named ready. Did you mean Ready?"
