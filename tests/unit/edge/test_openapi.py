import json
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import validate

from contract.refusals import BY_CODE
from contract.routes import Route
from edge.openapi.comments import comments
from edge.openapi.document import openapi_document
from edge.openapi.failures import meaning
from edge.settings import EdgeSettings
from tests.support.schemas import differences
from tests.unit.edge.openapi_document import (
    DOCUMENT,
    ROUTES,
    assert_fits,
    by_operation,
    fits,
    named,
    operation_of,
    parameters,
    resolved,
)
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC

WITH_KEY = {
    "invalid_request",
    "method_not_allowed",
    "unauthorized",
    "forbidden",
    "outside_time_window",
    "payload_too_large",
    "rate_limited",
    "internal",
    "runtime_error",
    "runtime_unreachable",
    "deployment_updating",
}
FAILURE_CODES = (
    "input_materialisation_failed",
    "node_failed",
    "wall_clock_limit_reached",
    "invariant_blocked",
    "launch_failed",
    "orphaned",
    "license_unavailable",
)
EVENT_DATA: dict[str, dict[str, Any]] = {
    "segment.started": {"ordinal": 1},
    "segment.ended": {},
    "run.started": {},
    "run.completed": {},
    "run.failed": {"code": "node_failed", "message": "Step 'main' failed."},
    "run.cancelled": {},
    "inputs.materialised": {"objects": 2, "bytes": 10},
    "step.started": {"attempt": 1},
    "step.progress": {"message": "half"},
    "step.completed": {"outputs": 1},
    "step.failed": {"code": "node_failed", "type": "ValueError", "message": "no", "attempt": 1, "retry_at": None},
    "step.skipped": {"reason": "It needs step 'extra', which is failed."},
    "approval.requested": {"approval_id": "apr_1", "title": "Check"},
    "approval.decided": {"approval_id": "apr_1", "decision": "approved", "comment": None},
    "output.promoted": {"output_id": "out_1", "path": "main/a.txt", "size_bytes": 1},
    "redaction.started": {"stage": "inputs"},
    "redaction.completed": {"stage": "inputs", "files": 1, "values": 2},
    "publish.started": {"knowledge_graph": "contracts"},
    "publish.completed": {"knowledge_graph": "contracts", "graph": "urn:run", "triples": 3},
    "warning": {"message": "late", "knowledge_graph": "contracts", "attempt": 1, "dropped": 3, "exact": True},
    "step.reused": {"run_id": "run_1", "outputs": 2},
    "approval.reminded": {"approval_id": "apr_1", "deadline_at": None},
    "approval.expired": {"approval_id": "apr_1", "on_deadline": "reject"},
    "step.item_completed": {"item_index": 0, "attempt": 1, "outputs": 2},
    "step.item_failed": {"item_index": 0, "type": "ValueError", "message": "no", "attempt": 1, "retry_at": None},
    "step.tool_call": {
        "tool": "rates",
        "duration_ms": 12,
        "input_bytes": 18,
        "output_bytes": 40,
        "ok": True,
        "attempt": 1,
        "item_index": None,
    },
    "child.started": {"run_id": "run_2", "status": "queued", "item_index": None},
    "child.ended": {"run_id": "run_2", "status": "completed", "item_index": 3},
}
WITHOUT_KEY = {"method_not_allowed", "invalid_request", "payload_too_large", "internal"}


def refusals(route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((status, response) for status, response in operation_of(route)["responses"].items() if status >= "400")


def codes(response: dict[str, Any]) -> list[str]:
    return list(response["content"]["application/json"]["examples"])


def test_the_description_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_its_version_is_the_contract_date() -> None:
    assert DOCUMENT["info"]["version"] == "2026-09-24"


@pytest.mark.parametrize(
    ("app_domain", "served"),
    [("workflows.example.org", "https://workflows.example.org/api/v1"), (EdgeSettings().app_domain, "/api/v1")],
)
def test_the_first_server_is_the_served_address_and_the_second_has_the_domain(app_domain: str, served: str) -> None:
    first, second = json.loads(openapi_document(app_domain))["servers"]
    assert first["url"] == served
    assert "variables" not in first
    assert second["url"] == "https://{app_domain}/api/v1"
    assert second["variables"]["app_domain"]["default"] == app_domain


def test_it_declares_the_17_routes_each_with_an_id_of_its_own() -> None:
    operations = [operation for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) == len(ROUTES) == 17


def test_both_credentials_together_are_required_on_all_paths_but_health() -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert (schemes["bearerKey"]["type"], schemes["bearerKey"]["scheme"]) == ("http", "bearer")
    external_id = schemes["keyExternalId"]
    assert (external_id["type"], external_id["in"], external_id["name"]) == (
        "apiKey",
        "header",
        "X-Service-Key-External-Id",
    )
    assert DOCUMENT["security"] == [{"bearerKey": [], "keyExternalId": []}]
    assert {
        route.template: operation_of(route)["security"] for route in ROUTES if "security" in operation_of(route)
    } == {"/api/v1/health": []}


@by_operation
def test_the_codes_of_every_operation_stand_under_their_status(route: Route) -> None:
    listed = {(code, int(status)) for status, response in refusals(route) for code in codes(response)}
    common = WITHOUT_KEY if route.access == ACCESS_PUBLIC else WITH_KEY
    assert listed == {(code, BY_CODE[code].http_status) for code in common | set(route.errors)}


@by_operation
def test_examples_of_refusals_are_envelopes_with_the_details_of_their_code(route: Route) -> None:
    for _, response in refusals(route):
        media = response["content"]["application/json"]
        assert media["schema"] == {"$ref": "#/components/schemas/Error"}
        assert [line.split("`")[1] for line in response["description"].splitlines()] == codes(response)
        for code, example in media["examples"].items():
            assert_fits(example["value"], media["schema"])
            error = example["value"]["error"]
            rule = BY_CODE[code]
            assert error["code"] == code
            if rule.problem_list:
                assert [sorted(problem) for problem in error["details"]] == [["name", "reason"]]
            else:
                assert list(error.get("details", [])) == [detail.name for detail in rule.details]


@by_operation
def test_the_success_is_the_one_of_the_route_and_its_example_fits_its_schema(route: Route) -> None:
    response = operation_of(route)["responses"][str(route.success_status)]
    if route.streaming:
        assert "application/json" not in response["content"]
        return
    media = response["content"]["application/json"]
    assert_fits(media["example"], media["schema"])


@by_operation
def test_every_answer_declares_its_headers(route: Route) -> None:
    for status, response in operation_of(route)["responses"].items():
        assert "X-Request-Id" in response["headers"]
        retry = status in {"429", "503"} or {"idempotency_conflict", "redaction_pending"} & set(
            codes(response) if status >= "400" else ()
        )
        assert ("Retry-After" in response["headers"]) == bool(retry)
        assert ("WWW-Authenticate" in response["headers"]) == (status == "401")
        assert {"Cache-Control", "X-Content-Type-Options"} <= response["headers"].keys()
        keyed = route.access != ACCESS_PUBLIC and status != "405"
        assert ("RateLimit-Remaining" in response["headers"]) == keyed
        if keyed:
            # These are also answered before a key is known.
            always = status not in {"400", "401", "413", "500", "502", "503"}
            assert resolved(response["headers"]["RateLimit-Remaining"])["required"] == always
        assert ("Allow" in response["headers"]) == (status == "405")
        assert ("Content-Range" in response["headers"]) == (status in {"206", "416"})


@by_operation
def test_every_path_parameter_is_declared(route: Route) -> None:
    in_path = [p["name"] for p in map(resolved, operation_of(route)["parameters"]) if p["in"] == "path"]
    assert in_path == list(route.path_names)


def test_a_start_answers_201_with_location_and_a_replay_200() -> None:
    responses = named("StartRun")["responses"]
    assert "Location" in responses["201"]["headers"]
    assert "Idempotency-Replayed" in responses["200"]["headers"]
    assert responses["200"]["content"] == responses["201"]["content"]


@pytest.mark.parametrize("name", ["GetOutputContent", "GetOutputsZip"])
def test_a_download_answers_whole_partly_or_not_at_all(name: str) -> None:
    responses = named(name)["responses"]
    assert {"200", "206", "304", "416"} <= responses.keys()
    assert "content" not in responses["304"]
    assert {"Content-Range", "ETag", "Accept-Ranges"} <= responses["206"]["headers"].keys()
    assert {"Range", "If-Range", "If-None-Match"} <= parameters(name).keys()


def test_query_parameters_have_their_bounds_and_defaults() -> None:
    limit = parameters("ListRuns")["limit"]
    assert (limit["in"], limit["required"]) == ("query", False)
    assert limit["schema"].items() >= {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}.items()
    events = parameters("ListRunEvents")
    assert events["limit"]["schema"].items() >= {"maximum": 500, "default": 200}.items()
    assert events["after_seq"]["schema"].items() >= {"minimum": 0, "default": 0}.items()
    assert parameters("ListWorkflows")["q"]["schema"]["maxLength"] == 200
    assert not parameters("ListWorkflows").keys() & {"include_inactive"}


def test_the_idempotency_key_is_required_on_the_start_and_on_no_other_route() -> None:
    key = parameters("StartRun")["Idempotency-Key"]
    assert (key["in"], key["required"]) == ("header", True)
    assert (fits("k" * 128, key["schema"]), fits("k" * 129, key["schema"]), fits("é", key["schema"])) == (
        True,
        False,
        False,
    )
    assert [route.descriptor.name for route in ROUTES if "Idempotency-Key" in parameters(route.descriptor.name)] == [
        "StartRun"
    ]


@pytest.mark.parametrize(
    ("body", "accepted"),
    [
        ({}, True),
        ({"parameters": {"a": [1]}, "labels": {"a": ""}, "version": 1, "input_text": "é"}, True),
        ({"parameters": None, "labels": None, "version": None, "input_text": None, "client_reference": None}, True),
        ({"pii_policy_override": {"mode": "redact", "categories": ["PERSON"], "stages": ["inputs"]}}, True),
        ({"pii_policy_override": {"categories": "all", "model": None, "max_model_calls": 0}}, True),
        ({"pii_policy_override": "anything"}, False),
        ({"pii_policy_override": {"mode": "partly"}}, False),
        ({"pii_policy_override": {"categories": "some"}}, False),
        ({"pii_policy_override": {"unknown": 1}}, False),
        ({"pii_policy_override": {"parquet_sample_rows": 50_001}}, False),
        ({"unknown": 1}, False),
        ({"parameters": []}, False),
        ({"version": 0}, False),
        ({"version": "1"}, False),
        ({"client_reference": ""}, False),
        ({"client_reference": "é"}, False),
        ({"input_text": "x" * 20_001}, False),
        ({"input_text": "\0"}, False),
        ({"labels": {"": "x"}}, False),
        ({"labels": {"a": 1}}, False),
        ({"labels": {str(number): "" for number in range(11)}}, False),
    ],
)
def test_the_body_of_a_start_is_described_as_it_is_judged(body: dict[str, Any], accepted: bool) -> None:
    request = named("StartRun")["requestBody"]
    assert request["required"] is False
    assert fits(body, request["content"]["application/json"]["schema"]) == accepted


@pytest.mark.parametrize("name", ["StartRun", "CancelRun", "EraseRunData"])
def test_examples_of_bodies_fit_their_schema(name: str) -> None:
    media = named(name)["requestBody"]["content"]["application/json"]
    assert_fits(media["example"], media["schema"])


def test_null_is_allowed_only_where_a_field_may_be_unknown() -> None:
    run = {"$ref": "#/components/schemas/Run"}
    media = named("GetRun")["responses"]["200"]["content"]["application/json"]
    example = media["example"]
    for field in ("started_at", "duration_ms", "client_reference", "result_json", "result_error", "max_run_hours"):
        assert_fits({**example, field: None}, run)
    for field in ("run_id", "status", "created_at", "labels", "warnings", "links", "counts", "triggered_by"):
        assert not fits({**example, field: None}, run)


def test_only_the_error_of_a_run_may_be_absent() -> None:
    run = DOCUMENT["components"]["schemas"]["Run"]
    assert set(run["properties"]) - set(run["required"]) == {"error"}


def test_a_start_is_described_as_the_run_and_internal_fields_are_not() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert "StartRunResponse" not in schemas
    assert "output_id" not in schemas["ResultJson"]["properties"]
    assert "run_id" not in schemas["ListOutputsResponse"]["properties"]


def test_enums_have_the_values_of_the_contract() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["RunSummary"]["properties"]["status"]["enum"] == [
        "queued",
        "running",
        "waiting_for_approval",
        "completed",
        "failed",
        "cancelled",
    ]
    assert schemas["Health"]["properties"]["status"]["enum"] == ["ok", "disabled"]
    assert "runs:delete" in schemas["ApiKey"]["properties"]["scopes"]["items"]["enum"]


def test_everything_is_described_by_its_comment() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert all(schema["description"] for schema in schemas.values())
    assert all(field["description"] for schema in schemas.values() for field in schema.get("properties", {}).values())
    assert all(operation_of(route)["summary"] and operation_of(route)["description"] for route in ROUTES)


def schema_of(name: str, *fields: str) -> dict[str, Any]:
    schema: dict[str, Any] = DOCUMENT["components"]["schemas"][name]
    for field in fields:
        schema = schema["properties"][field]
    return schema


def test_details_of_an_error_are_an_object_or_a_list_of_problems() -> None:
    by_members, problems = schema_of("Error", "error", "details")["anyOf"]
    assert by_members == {"type": "object", "additionalProperties": True}
    assert problems == {"type": "array", "items": {"$ref": "#/components/schemas/Problem"}}
    assert schema_of("Problem")["properties"].keys() == {"name", "reason"}


@pytest.mark.parametrize(("name", "fields"), [("StartRunBody", ["parameters"]), ("Run", ["parameters"])])
def test_free_objects_take_any_member(name: str, fields: list[str]) -> None:
    schema = schema_of(name, *fields)
    assert (schema["type"], schema["additionalProperties"]) == (["object", "null"], True)


def test_only_values_of_any_kind_have_no_shape() -> None:
    assert {
        f"{name}.{field}"
        for name, schema in DOCUMENT["components"]["schemas"].items()
        for field, described in schema.get("properties", {}).items()
        if not described.keys() & {"type", "$ref", "anyOf"}
    } == {"Run.result", "Parameter.default", "Parameter.minimum", "Parameter.maximum"}


@pytest.mark.parametrize("event_type", EVENT_DATA)
def test_the_data_of_an_event_has_the_shape_of_its_type(event_type: str) -> None:
    event = {"seq": 1, "type": event_type, "at": "2026-09-24T10:15:30.123+00:00", "step": None}
    schema = {"$ref": "#/components/schemas/Event"}
    data = EVENT_DATA[event_type]
    assert_fits({**event, "data": data}, schema)
    open_ended = event_type in {"step.progress", "warning"}
    assert (differences(DOCUMENT, schema, {**event, "data": {**data, "other": 1}}) == []) == open_ended
    assert [name for name in data if fits({**event, "data": {**data, name: []}}, schema)] == []


def test_events_are_told_apart_by_their_type() -> None:
    event = schema_of("Event")
    mapping = event["discriminator"]["mapping"]
    assert event["discriminator"]["propertyName"] == "type"
    assert list(mapping) == list(EVENT_DATA)
    assert event["oneOf"] == [{"$ref": reference} for reference in mapping.values()]
    for event_type, reference in mapping.items():
        assert resolved({"$ref": reference})["properties"]["type"]["const"] == event_type


@pytest.mark.parametrize(
    ("name", "media_types"),
    [
        ("GetOutputsZip", ["application/zip", "application/octet-stream"]),
        ("GetOutputContent", ["application/octet-stream", "*/*"]),
    ],
)
def test_answers_of_bytes_are_binary_strings(name: str, media_types: list[str]) -> None:
    content = named(name)["responses"]["200"]["content"]
    assert list(content) == media_types
    assert all(media["schema"] == {"type": "string", "format": "binary"} for media in content.values())


def test_nothing_refers_to_documents_that_callers_do_not_have() -> None:
    text = json.dumps(DOCUMENT)
    assert [name for name in ("(contract ", "docs/", ".proto", "gRPC") if name in text] == []


def test_failure_codes_and_statuses_are_told_where_a_caller_reads_them() -> None:
    code = DOCUMENT["components"]["schemas"]["RunError"]["properties"]["code"]["description"]
    assert [failure for failure in FAILURE_CODES if f"`{failure}`" not in code] == []
    filtered = parameters("ListRuns")["status"]["description"]
    statuses = DOCUMENT["components"]["schemas"]["RunSummary"]["properties"]["status"]["enum"]
    assert [status for status in statuses if f"`{status}`" not in filtered] == []


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        (schema_of("Run", "result")["description"], ["262,144 bytes", "8 MiB", "100 levels"]),
        (schema_of("Run", "result_error")["description"], ["5 seconds of processor time", "256 MB"]),
        (schema_of("Run", "summary_markdown")["description"], ["262,144 bytes", "a warning says so"]),
        (schema_of("StepProgressEvent", "data")["description"], ["65,536 bytes", "100 levels"]),
        (named("ListRunEvents")["description"], ["10,000 events", "8 MB", "`warning` event"]),
        (named("ListOutputs")["description"], ["10,000 files", "10,000 directories", "32 levels"]),
        (schema_of("Parameter", "pattern")["description"], ["the whole value"]),
        (meaning("license_unavailable"), ["Runs that have begun go on, also past an approval"]),
    ],
)
def test_the_bounds_of_a_step_are_told_where_a_caller_meets_them(text: str, bounds: list[str]) -> None:
    assert [bound for bound in bounds if bound not in text] == []


def test_comments_are_known_by_full_name_without_remarks_for_maintainers() -> None:
    found = comments()
    assert found["workflow_api.v1.RunSummary"] == "A run in short."
    assert found["workflow_api.v1.Health.Status.STATUS_OK"] == "Keys are accepted."
    assert found["workflow_api.v1.RunsService.GetRun"] == "One run in full."
    assert found["workflow_api.v1.RunCounts.outputs"] == "Promoted outputs."
