"""Links between the operations of the description, and its webhooks."""

from typing import Any

from contract.fields import spellings
from contract.routes import Route
from tests.unit.edge.openapi_document import DOCUMENT, by_operation, fits, named, operation_of, resolved
from workflow_api.v1.webhooks_pb2 import WebhookEvent


def links_of(name: str, status: str = "200") -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = named(name)["responses"][status].get("links", {})
    return found


@by_operation
def test_every_link_gives_parameters_that_its_operation_has(route: Route) -> None:
    by_id = {operation["operationId"]: operation for item in DOCUMENT["paths"].values() for operation in item.values()}
    for response in operation_of(route)["responses"].values():
        for link in response.get("links", {}).values():
            declared = [resolved(parameter) for parameter in by_id[link["operationId"]]["parameters"]]
            assert link["parameters"].keys() <= {parameter["name"] for parameter in declared}
            in_path = {parameter["name"] for parameter in declared if parameter["in"] == "path"}
            assert in_path <= link["parameters"].keys()


def test_a_started_run_is_linked_to_every_call_of_it() -> None:
    of_runs = {
        operation["operationId"]
        for path, item in DOCUMENT["paths"].items()
        for operation in item.values()
        if "{run_id}" in path and "{output_id}" not in path
    }
    for status in ("200", "201"):
        assert of_runs <= links_of("StartRun", status).keys()
    assert links_of("StartRun", "201")["getRun"]["parameters"] == {"run_id": "$response.body#/run_id"}


def test_lists_are_linked_to_what_they_list_and_to_their_next_page() -> None:
    assert links_of("ListRuns")["nextPage"]["parameters"] == {"cursor": "$response.body#/next_cursor"}
    assert links_of("ListWorkflows")["startRun"]["parameters"] == {"workflow_id": "$response.body#/items/0/workflow_id"}
    assert links_of("ListOutputs")["getOutputContent"]["parameters"] == {
        "run_id": "$request.path.run_id",
        "output_id": "$response.body#/items/0/output_id",
    }
    assert links_of("ListRunEvents")["nextPage"]["parameters"] == {
        "run_id": "$request.path.run_id",
        "after_seq": "$response.body#/next_after_seq",
        "segment": "$response.body#/segment_id",
    }


def test_every_event_of_a_webhook_is_described_beside_the_17_paths() -> None:
    events = {text for text in spellings(WebhookEvent.DESCRIPTOR).values() if text}
    assert DOCUMENT["webhooks"].keys() == events
    for name, item in DOCUMENT["webhooks"].items():
        media = item["post"]["requestBody"]["content"]["application/json"]
        assert media["example"]["type"] == name
        assert fits(media["example"], media["schema"])
        assert [each["name"] for each in item["post"]["parameters"]] == [
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
        ]
