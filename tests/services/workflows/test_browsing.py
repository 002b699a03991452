"""BrowseInputs: what an s3_prefix parameter may name, from a real listing."""

from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.workflows.conftest import Workflows
from tests.services.workflows.test_connectors import Store, apply, objects
from workflow_api.v1 import workflows_pb2

__all__ = ["objects"]

LISTING = (
    '<?xml version="1.0"?><ListBucketResult><Name>docs</Name><KeyCount>3</KeyCount><IsTruncated>true</IsTruncated>'
    "<NextContinuationToken>t</NextContinuationToken>"
    "<Contents><Key>incoming/</Key><Size>0</Size></Contents>"
    "<Contents><Key>incoming/a.txt</Key><Size>7</Size></Contents>"
    "<CommonPrefixes><Prefix>incoming/2026/</Prefix></CommonPrefixes></ListBucketResult>"
)
WORKFLOW = """
kind: Workflow
name: Reads
parameters:
  - {name: documents, type: s3_prefix, connector: inbox}
  - {name: count, type: integer}
steps: []
"""


def browsed(workflows: Workflows, **asked: Any) -> workflows_pb2.BrowseInputsResponse:
    (workflow_id,) = (
        each.workflow_id
        for each in workflows.call("ListWorkflows", workflows_pb2.ListWorkflowsRequest(include_inactive=True)).items
        if each.name == "Reads"
    )
    request = workflows_pb2.BrowseInputsRequest(**{"workflow_id": workflow_id, "parameter": "documents"} | asked)
    answer: workflows_pb2.BrowseInputsResponse = workflows.call("BrowseInputs", request)
    return answer


def test_a_place_has_its_folders_and_objects(workflows: Workflows, objects: Store) -> None:
    objects.listing = LISTING
    apply(workflows, objects)
    workflows.apply(WORKFLOW)
    top = browsed(workflows)
    assert [(each.name, each.uri) for each in top.folders] == [("incoming/", "s3://docs/incoming/")]
    found = browsed(workflows, uri="s3://docs/incoming/")
    assert [(each.name, each.uri) for each in found.folders] == [("2026/", "s3://docs/incoming/2026/")]
    assert [(each.name, each.size_bytes) for each in found.objects] == [("a.txt", 7)]
    assert (found.more, found.HasField("parent"), found.parent) == (True, True, "")


@pytest.mark.parametrize("uri", ["s3://docs/", "s3://other/incoming/", "s3://docs/incoming/../", "elsewhere"])
def test_what_the_connector_does_not_allow_is_not_listed(workflows: Workflows, objects: Store, uri: str) -> None:
    apply(workflows, objects)
    workflows.apply(WORKFLOW)
    answer = browsed(workflows, uri=uri)
    assert answer.problem
    assert objects.listed == []


def test_a_store_that_refuses_is_told_in_words(workflows: Workflows, objects: Store) -> None:
    apply(workflows, objects, prefixes="[secret/]")
    workflows.apply(WORKFLOW)
    assert "s3://docs/secret/ could not be listed: " in browsed(workflows, uri="s3://docs/secret/").problem


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"parameter": "count"}, "invalid_request"),
        ({"workflow_id": "wf_none"}, "workflow_not_found"),
        ({"version": 9}, "version_not_found"),
    ],
)
def test_only_a_declared_prefix_can_be_browsed(
    workflows: Workflows, objects: Store, asked: dict[str, Any], reason: str
) -> None:
    apply(workflows, objects)
    workflows.apply(WORKFLOW)
    with pytest.raises(RefusedError) as refused:
        browsed(workflows, **asked)
    assert refused.value.reason == reason


def test_a_connector_that_is_missing_is_named(workflows: Workflows) -> None:
    workflows.apply(WORKFLOW)
    with pytest.raises(RefusedError) as refused:
        browsed(workflows)
    assert refused.value.reason == "not_found"
