import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from console.visit import ADMINISTRATORS, View
from contract.refusals import Refusal
from tests.unit.console.seen import UNSEEN, MemoryServices, answered, definition_answers, html, roles_of
from workflow_api.v1.definitions_pb2 import DefinitionUse
from workflow_api.v1.workflows_pb2 import (
    ConnectorCheck,
    ConnectorTest,
    ListResourcesResponse,
    Resource,
    ResourceDefinition,
)

EVIL = f"<script>alert(1)</script>{UNSEEN}"
LIST = "/resources/connectors"
ONE = f"{LIST}/{{resource}}"
HERE = {"resource": "con_1"}
FIELDS = {"bucket": "docs", "prefixes": ["in/"], "endpoint_url": None, "secret": "inbox-key", "role_arn": None}


def services(**other: Any) -> MemoryServices:
    resource = Resource(resource_id="con_1", name="inbox", version=2, type="s3", status="failed")
    fields = {**FIELDS, **other.pop("fields", {})}
    answer = ResourceDefinition(resource=resource, shown_version=2, definition=json.dumps(fields), **other)
    use = DefinitionUse(workflow_id="wf_1", workflow_name="Digest", workflow_version=4, agents=["reader/writer"])
    return MemoryServices(
        {"WorkflowsService/GetResource": answer, **definition_answers([use], text="secret: inbox-key\n")}
    )


def test_the_list_says_which_connectors_failed_their_last_test() -> None:
    items = [Resource(resource_id="con_1", name="inbox", status="failed"), Resource(name=EVIL, status="not tested")]
    page = html(
        answered(MemoryServices({"WorkflowsService/ListResources": ListResourcesResponse(items=items)}), "GET", LIST)
    )
    assert 'href="/resources/connectors/con_1"' in page
    assert page.index("failed") < page.index("not tested")
    assert EVIL not in page


def test_a_connector_shows_what_it_may_read_its_last_test_and_who_uses_it() -> None:
    last = ConnectorTest(version=2, passed=False, message="Listing s3://docs/in/ failed: denied")
    page = html(answered(services(last_test=last), "GET", ONE, HERE))
    for shown in ("docs", "in/", "inbox-key", "Amazon S3", "Listing s3://docs/in/ failed", 'href="/workflows/wf_1"'):
        assert shown in page
    for shown in (
        'href="/agents/reader%2Fwriter"',
        "secret: inbox-key",
        'href="/resources/connectors/con_1/edit"',
        "user:ada",
    ):
        assert shown in page


def test_a_test_shows_the_stores_answer_and_what_to_do() -> None:
    backend = services()
    check = ConnectorCheck(
        place="s3://docs/in/",
        http_status=403,
        code="AccessDenied",
        answer=EVIL,
        remedy="Allow it.",
        took=Duration(seconds=2),
    )
    outcome = ConnectorTest(name="inbox", version=2, message="It failed", checks=[check])
    backend.answers["WorkflowsService/TestConnector"] = outcome
    page = html(answered(backend, "POST", f"{ONE}/test", HERE))
    (asked,) = backend.asked("WorkflowsService/TestConnector")
    assert asked.name == "inbox"
    for shown in ("403 AccessDenied", "Allow it.", "2 s", "alert(1)"):
        assert shown in page
    assert EVIL not in page


def test_a_test_while_others_run_is_told_on_the_page_and_tried_again() -> None:
    backend = services()
    backend.answers["WorkflowsService/TestConnector"] = Refusal("rate_limited", "Tests are already running.")
    answer = answered(backend, "POST", f"{ONE}/test", HERE)
    assert isinstance(answer, View)
    assert answer.status == 429
    page = html(answer)
    assert "Tests are already running." in page
    assert "Test the connection" in page


def test_only_administrators_read_and_test_connectors() -> None:
    assert roles_of("GET", LIST) == roles_of("GET", ONE) == roles_of("POST", f"{ONE}/test") == ADMINISTRATORS


@pytest.mark.parametrize("query", [{}, {"version": "x"}])
def test_a_connector_that_there_is_not_is_reported(query: dict[str, str]) -> None:
    backend = MemoryServices({"WorkflowsService/GetResource": Refusal("not_found", "There is no connector.")})
    answer = answered(backend, "GET", ONE, HERE, query=query)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert ("A version is a whole number" if query else "There is no connector.") in html(answer)
