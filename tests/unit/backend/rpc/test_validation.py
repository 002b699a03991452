import pytest
from google.protobuf.message import Message

from backend.common.errors import ApiError
from backend.rpc.validation import validate
from workflow_api.v1 import definitions_pb2, edge_pb2, errors_pb2, keys_pb2, options_pb2, runs_pb2, workflows_pb2
from workflow_api.v1.usage_pb2 import UsageRecord


def start(**fields: object) -> runs_pb2.StartRunRequest:
    return runs_pb2.StartRunRequest(**({"workflow_id": "wf_1", "idempotency_key": "k"} | fields))  # type: ignore[arg-type]


def problems_of(request: Message) -> dict[str, str]:
    with pytest.raises(ApiError) as refused:
        validate(request)
    return dict(refused.value.problems)


WITHIN_BOUNDS = [
    start(),
    start(idempotency_key="k" * 128),
    start(idempotency_key=" "),
    start(input_text="é" * 20_000),
    start(client_reference="~" * 256),
    start(labels={f"k{n}": "" for n in range(10)}),
    start(labels={"k" * 64: "v" * 256}),
    start(parameters='{"a": 1}', pii_policy_override="7"),
    start(version=1),
    runs_pb2.ListRunsRequest(),
    runs_pb2.ListRunEventsRequest(run_id="r", page_size=500, after_seq=0),
    workflows_pb2.ListWorkflowsRequest(q="q" * 200, page_size=100),
]


@pytest.mark.parametrize("request_message", WITHIN_BOUNDS, ids=range(len(WITHIN_BOUNDS)))
def test_a_request_within_its_bounds_passes(request_message: Message) -> None:
    validate(request_message)


def test_a_required_number_that_is_0_is_told_with_what_is_allowed() -> None:
    request = definitions_pb2.CompareVersionsRequest(kind="Workflow", definition="w", before=0, after=2)
    assert problems_of(request) == {"before": "is required, and must be an integer of at least 1; it is 0"}


OUT_OF_BOUNDS = [
    (start(workflow_id=""), "workflow_id"),
    (start(workflow_id="w" * 129), "workflow_id"),
    (start(idempotency_key=""), "Idempotency-Key"),
    (start(idempotency_key="k" * 129), "Idempotency-Key"),
    (start(idempotency_key="é"), "Idempotency-Key"),
    (start(input_text="x" * 20_001), "input_text"),
    (start(input_text="\0"), "input_text"),
    (start(client_reference=""), "client_reference"),
    (start(client_reference="\x7f"), "client_reference"),
    (start(labels={f"k{n}": "" for n in range(11)}), "labels"),
    (start(labels={"": "v"}), "labels"),
    (start(labels={"k": "v" * 257}), "labels"),
    (start(parameters="[]"), "parameters"),
    (start(parameters="{"), "parameters"),
    (start(version=0), "version"),
    (runs_pb2.ListRunsRequest(page_size=0), "limit"),
    (runs_pb2.ListRunsRequest(page_size=101), "limit"),
    (runs_pb2.ListRunEventsRequest(run_id="r", page_size=501), "limit"),
    (runs_pb2.ListRunEventsRequest(run_id="r", after_seq=-1), "after_seq"),
    (runs_pb2.CancelRunRequest(run_id="r", reason="x" * 501), "reason"),
    (
        keys_pb2.CreateKeyRequest(
            name="n",
            scopes=[options_pb2.SCOPE_WORKFLOWS_READ],
            allowed_hours=keys_pb2.AllowedHours(start_hour=24, end_hour=1),
        ),
        "allowed_hours.start_hour",
    ),
    (edge_pb2.RecordUsageRequest(records=[UsageRecord(), UsageRecord(route="/me\0")]), "records.route"),
]


@pytest.mark.parametrize(("request_message", "field"), OUT_OF_BOUNDS, ids=range(len(OUT_OF_BOUNDS)))
def test_a_field_out_of_bounds_is_named(request_message: Message, field: str) -> None:
    assert list(problems_of(request_message)) == [field]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (r'{"j":"a\u0000b"}', "must not contain U+0000"),
        (r'{"j":{"\u0000":1}}', "must not contain U+0000"),
        ('{"j":' + "[" * 1_001 + "]" * 1_001 + "}", "must be nested at most 1,000 deep"),
        ('{"j":{"a":1,"\\u0061":2}}', "must not name a member twice"),
    ],
)
def test_json_is_as_strict_as_over_http(parameters: str, reason: str) -> None:
    assert problems_of(start(parameters=parameters)) == {"parameters": reason}


def test_messages_that_are_too_large_together_are_told_with_the_bound() -> None:
    files = [workflows_pb2.ManifestFile(name=name, content="x" * (24 * 2**20)) for name in ("a", "b")]
    assert problems_of(workflows_pb2.ApplyManifestsRequest(files=files)) == {
        "files": "must have at most 50,331,648 bytes together; these have 50,331,664"
    }


def test_every_problem_is_told_at_once() -> None:
    assert set(problems_of(start(idempotency_key="", input_text="x" * 20_001, version=0))) == {
        "Idempotency-Key",
        "input_text",
        "version",
    }


def test_a_bad_filter_is_invalid_filter_unless_something_else_is_wrong() -> None:
    with pytest.raises(ApiError) as refused:
        validate(runs_pb2.ListRunsRequest(client_reference="x" * 257))
    assert refused.value.reason == errors_pb2.ERROR_REASON_INVALID_FILTER
    assert not refused.value.problems
    with pytest.raises(ApiError) as refused:
        validate(runs_pb2.ListRunsRequest(client_reference="x" * 257, page_size=0))
    assert refused.value.reason == errors_pb2.ERROR_REASON_INVALID_REQUEST
