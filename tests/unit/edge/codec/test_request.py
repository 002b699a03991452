import json
from typing import Any, cast

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from contract.refusals import Refusal
from contract.routes import RouteTable
from edge.codec.json_body import parse_json_body
from edge.codec.text_fields import UNUSED_ID
from edge.dispatch import codecs_of
from workflow_api.v1 import runs_pb2, workflows_pb2
from workflow_api.v1.outputs_pb2 import GetOutputContentRequest

ROUTES = RouteTable()
CODECS = codecs_of(ROUTES.routes)
START = "POST /workflows/wf_1/runs"
LIST_RUNS = "GET /runs"
EVENTS = "GET /runs/run_1/events"
WORKFLOWS = "GET /workflows"


def decode(call: str, body: Any = None, **headers: list[str]) -> Message:
    """Decodes `METHOD /path?query` under the base; a start has an Idempotency-Key unless it says otherwise."""
    method, target = call.split(" ", 1)
    path, _, query = target.partition("?")
    route, path_params = ROUTES.match(method, f"/api/v1{path}")
    given = {"Idempotency-Key": headers.get("idempotency_key", ["k-1"])}
    return CODECS[route.rpc].request.decode(path_params, query, lambda name: given.get(name, []), body)


def refusal(call: str, body: Any = None, **headers: list[str]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        decode(call, body, **headers)
    return refused.value


def problems(call: str, body: Any = None, **headers: list[str]) -> list[tuple[str, str]]:
    refused = refusal(call, body, **headers)
    assert refused.code == "invalid_request"
    return [(problem["name"], problem["reason"]) for problem in cast("list[dict[str, str]]", refused.details)]


def names(call: str, body: Any = None, **headers: list[str]) -> list[str]:
    return [name for name, _ in problems(call, body, **headers)]


def started(body: Any = None, **headers: list[str]) -> runs_pb2.StartRunRequest:
    return cast("runs_pb2.StartRunRequest", decode(START, {} if body is None else body, **headers))


def listed(query: str) -> runs_pb2.ListRunsRequest:
    return cast("runs_pb2.ListRunsRequest", decode(f"{LIST_RUNS}?{query}"))


def test_a_start_carries_path_header_and_body() -> None:
    body = {
        "parameters": {"language": "en"},
        "input_text": "é",
        "client_reference": "ref 1",
        "labels": {"a": "", "b c": "~"},
        "pii_policy_override": {"mode": "redact"},
        "version": 3,
    }
    assert started(body) == runs_pb2.StartRunRequest(
        workflow_id="wf_1",
        idempotency_key="k-1",
        parameters='{"language":"en"}',
        input_text="é",
        client_reference="ref 1",
        labels={"a": "", "b c": "~"},
        pii_policy_override='{"mode":"redact"}',
        version=3,
    )


def test_null_counts_as_absent() -> None:
    body = dict.fromkeys(("parameters", "input_text", "client_reference", "labels", "pii_policy_override", "version"))
    assert started(body) == started({})
    assert not started(body).HasField("parameters")


def test_an_empty_text_is_not_absent() -> None:
    assert started({"input_text": ""}).HasField("input_text")


def test_unknown_body_fields_are_refused_by_name() -> None:
    assert problems(START, {"inputs": {}, "run_id": "x", "workflow_id": "wf_1", "idempotency_key": "k"}) == [
        (name, "is not a field of this request") for name in ("inputs", "run_id", "workflow_id", "idempotency_key")
    ]
    assert names("POST /runs/run_1/cancel", {"reasons": "x"}) == ["reasons"]


def test_internal_fields_cannot_be_given() -> None:
    assert names(START, {"triggered_by": "console"}) == ["triggered_by"]


@pytest.mark.parametrize("body", [None, [], "x", 1, True])
def test_a_body_that_is_no_object_is_named_body(body: Any) -> None:
    assert problems("DELETE /runs/run_1/data", body) == [("body", "must be a JSON object")]


@pytest.mark.parametrize("version", [True, 1.0, "1", 0, -1, [], {}, -(2**70)])
def test_version_is_an_integer_of_at_least_1(version: Any) -> None:
    assert problems(START, {"version": version}) == [("version", "must be an integer of at least 1")]


@pytest.mark.parametrize(
    ("given", "carried"), [(1, 1), (2**63 - 1, 2**63 - 1), (2**63, 2**63 - 1), (10**300, 2**63 - 1)]
)
def test_a_version_beyond_64_bits_is_carried_as_one_that_cannot_exist(given: int, carried: int) -> None:
    assert started({"version": given}).version == carried


@pytest.mark.parametrize(("field", "longest"), [("input_text", "é" * 20_000), ("client_reference", "x" * 256)])
def test_lengths_are_counted_in_code_points(field: str, longest: str) -> None:
    assert getattr(started({field: longest}), field) == longest
    assert names(START, {field: longest + "x"}) == [field]


def test_reasons_are_at_most_500_characters() -> None:
    for call in ("POST /runs/run_1/cancel", "DELETE /runs/run_1/data"):
        decode(call, {"reason": "😀" * 500})
        assert problems(call, {"reason": "😀" * 501}) == [("reason", "must be at most 500 characters")]


@pytest.mark.parametrize("reference", ["", "é", "a\n", "\x7f", "\x1f", 1, ["a"], {}])
def test_client_reference_is_printable_ascii_and_not_empty(reference: Any) -> None:
    assert names(START, {"client_reference": reference}) == ["client_reference"]


@pytest.mark.parametrize("field", ["input_text", "parameters", "pii_policy_override"])
@pytest.mark.parametrize("text", ["\0", "a\0b", "\\\0", '"\0"'])
def test_nul_in_a_body_string_is_refused_naming_the_field(field: str, text: str) -> None:
    body = {field: text if field == "input_text" else {"deep": [{"er": text}]}}
    assert problems(START, body) == [(field, "must not contain U+0000")]


def test_nul_in_a_member_name_of_raw_json_is_refused() -> None:
    assert names(START, {"parameters": {"a\0": 1}}) == ["parameters"]


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "\\\\\\u0000", "u0000"])
def test_a_backslash_before_u0000_is_only_text(text: str) -> None:
    assert json.loads(started({"parameters": {"a": text}}).parameters) == {"a": text}


@pytest.mark.parametrize("value", [[], "x", 1, True])
def test_parameters_are_an_object(value: Any) -> None:
    assert problems(START, {"parameters": value}) == [("parameters", "must be an object")]


@pytest.mark.parametrize("value", [[], "x", 1, True, {}])
def test_an_override_of_any_kind_is_left_to_the_policy_check(value: Any) -> None:
    assert json.loads(started({"pii_policy_override": value}).pii_policy_override) == value


def test_parameters_keep_large_integers_and_nesting() -> None:
    text = '{"n":123456789012345678901234567890,"x":0.1,"deep":' + "[" * 998 + "]" * 998 + "}"
    assert started(parse_json_body(f'{{"parameters":{text}}}'.encode())).parameters == text


def test_ten_labels_at_their_bounds_are_accepted() -> None:
    labels = {f"{number}".ljust(64, "k"): "v" * 256 for number in range(9)} | {"empty": ""}
    assert dict(started({"labels": labels}).labels) == labels


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ([], ["labels"]),
        ("a=b", ["labels"]),
        ({f"{number}": "" for number in range(11)}, ["labels"]),
        ({"": "x"}, ["labels"]),
        ({"k" * 65: "x"}, [f"labels.{'k' * 65}"]),
        ({"é": "x"}, ["labels.é"]),
        ({"a": "v" * 257}, ["labels.a"]),
        ({"a": "é"}, ["labels.a"]),
        ({"a": 1, "b": None, "c": "ok"}, ["labels.a", "labels.b"]),
        ({"a": "\0"}, ["labels.a"]),
    ],
)
def test_label_problems_are_named_by_their_label(labels: Any, named: list[str]) -> None:
    assert names(START, {"labels": labels}) == named


@pytest.mark.parametrize("key", ["k", "a b", " ", "~" * 128])
def test_an_idempotency_key_is_1_to_128_printable_ascii_characters(key: str) -> None:
    assert started(idempotency_key=[key]).idempotency_key == key


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "is required"),
        (["a", "a"], "must be given only once"),
        ([""], "must be 1 to 128 printable ASCII characters"),
        (["x" * 129], "must be 1 to 128 printable ASCII characters"),
        (["é"], "must be 1 to 128 printable ASCII characters"),
        (["\udce9"], "must be 1 to 128 printable ASCII characters"),
        (["a\tb"], "must be 1 to 128 printable ASCII characters"),
    ],
)
def test_a_missing_or_malformed_idempotency_key_is_named(values: list[str], reason: str) -> None:
    assert problems(START, {}, idempotency_key=values) == [("Idempotency-Key", reason)]


def test_other_routes_ignore_an_idempotency_key() -> None:
    assert decode("POST /runs/run_1/cancel", {}, idempotency_key=["a", "a"]) == runs_pb2.CancelRunRequest(
        run_id="run_1"
    )


def test_all_problems_come_in_one_answer() -> None:
    call = f"POST /workflows/{'w' * 129}/runs"
    assert names(call, {"version": 0, "x": 1, "labels": {"a": 1}}, idempotency_key=[]) == [
        "Idempotency-Key",
        "workflow_id",
        "version",
        "x",
        "labels.a",
    ]


def test_every_mistake_is_told_beside_as_many_unknown_fields_as_are_listed() -> None:
    unknown = {str(number): 1 for number in range(100)}
    labels = {f"k{number}": 1 for number in range(10)}
    told = names(START, {**unknown, "labels": labels, "version": 0})
    assert sorted(told) == sorted([*unknown, *(f"labels.{name}" for name in labels), "version"])


@pytest.mark.parametrize(
    ("segment", "run_id"),
    [("run_1", "run_1"), ("a%2Fb", "a/b"), ("%C3%A9", "é"), ("a+b", "a+b"), ("%zz", "%zz"), (".", ".")],
)
def test_path_parameters_are_percent_decoded(segment: str, run_id: str) -> None:
    assert decode(f"GET /runs/{segment}") == runs_pb2.GetRunRequest(run_id=run_id)


def test_raw_bytes_in_a_path_are_read_as_utf8() -> None:
    raw = "é".encode().decode("ascii", "surrogateescape")
    assert decode(f"GET /runs/{raw}") == runs_pb2.GetRunRequest(run_id="é")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("GET /runs/%ff", "run_id"),
        ("GET /runs/\udcff", "run_id"),
        ("GET /runs/a%00", "run_id"),
        ("GET /workflows/%00", "workflow_id"),
        ("GET /runs/run_1/outputs/%C3/content", "output_id"),
        ("GET /runs/run_1/events?segment=%00", "segment"),
        ("GET /runs/run_1/events?segment=%ff", "segment"),
        ("GET /runs/run_1/events?segment=", "segment"),
    ],
)
def test_an_id_that_nothing_can_have_is_carried_as_one_that_nothing_has(call: str, field: str) -> None:
    assert getattr(decode(call), field) == UNUSED_ID


def test_path_parameters_have_their_bounds() -> None:
    decode(f"GET /runs/{'%C3%A9' * 128}")
    assert problems(f"GET /runs/{'r' * 129}") == [("run_id", "must be at most 128 characters")]
    longest = f"GET /runs/r/outputs/{'%C3%A9' * 2048}/content"
    assert cast("GetOutputContentRequest", decode(longest)).output_id == "é" * 2048
    assert names(f"GET /runs/r/outputs/{'o' * 2049}/content") == ["output_id"]


def test_unknown_query_parameters_are_ignored_even_when_repeated_or_unreadable() -> None:
    assert decode(f"{LIST_RUNS}?page=2&page=3&x=%ff&%ff=1&&=&owner") == runs_pb2.ListRunsRequest()


@pytest.mark.parametrize(
    "query", ["limit=1&limit=1", "status=failed&status=failed", "cursor=&cursor=", "cursor=a&cursor=b"]
)
def test_a_repeated_query_parameter_is_invalid_request(query: str) -> None:
    assert problems(f"{LIST_RUNS}?{query}") == [(query.partition("=")[0], "must be given only once")]


def test_a_parameter_name_may_be_percent_encoded() -> None:
    assert listed("%6Cimit=7").page_size == 7


@pytest.mark.parametrize("limit", ["1", "100", "007"])
def test_limit_is_an_integer_in_its_bounds(limit: str) -> None:
    assert listed(f"limit={limit}").page_size == int(limit)


@pytest.mark.parametrize(
    "limit", ["", "0", "101", "-1", "1_0", "+5", "%201", "1%20", "1.0", "٣", "%D9%A3", "1e1", "0x1", "%ff", "9" * 19]
)
def test_any_other_limit_is_invalid_request(limit: str) -> None:
    assert problems(f"{LIST_RUNS}?limit={limit}") == [("limit", "must be an integer from 1 to 100")]


def test_limit_of_events_goes_to_500_and_after_seq_from_0() -> None:
    request = cast("runs_pb2.ListRunEventsRequest", decode(f"{EVENTS}?limit=500&after_seq={'9' * 18}&segment=seg_1"))
    assert (request.page_size, request.after_seq, request.segment) == (500, 10**18 - 1, "seg_1")
    assert names(f"{EVENTS}?limit=501&after_seq=-1") == ["limit", "after_seq"]
    assert not cast("runs_pb2.ListRunEventsRequest", decode(EVENTS)).HasField("after_seq")


def test_an_empty_cursor_or_q_counts_as_absent() -> None:
    assert decode(f"{WORKFLOWS}?cursor=&q=") == workflows_pb2.ListWorkflowsRequest()
    assert listed("cursor=") == runs_pb2.ListRunsRequest()


def test_q_is_any_text_of_at_most_200_characters() -> None:
    request = cast("workflows_pb2.ListWorkflowsRequest", decode(f"{WORKFLOWS}?q=a+b%20%25_%C3%A9"))
    assert request.q == "a b %_é"
    decode(f"{WORKFLOWS}?q={'%C3%A9' * 200}")
    assert names(f"{WORKFLOWS}?q={'x' * 201}") == ["q"]
    assert names(f"{WORKFLOWS}?q=%00") == names(f"{WORKFLOWS}?q=%ff") == ["q"]


def test_internal_query_fields_cannot_be_given() -> None:
    assert decode(f"{WORKFLOWS}?include_inactive=true") == workflows_pb2.ListWorkflowsRequest()


@pytest.mark.parametrize(
    "query",
    [
        "status=",
        f"status={'x' * 201}",
        "status=%00",
        "status=%ff",
        "workflow_id=",
        f"workflow_id={'x' * 129}",
        "workflow_id=%00",
        "created_after=",
        f"created_after={'1' * 65}",
        "created_before=%C3%28",
        "client_reference=",
        "client_reference=%C3%A9",
        f"client_reference={'x' * 257}",
    ],
)
def test_a_filter_outside_its_bounds_is_invalid_filter_without_details(query: str) -> None:
    refused = refusal(f"{LIST_RUNS}?{query}")
    assert (refused.code, refused.details) == ("invalid_filter", None)


def test_filters_pass_on_as_they_are_meant() -> None:
    query = "status=failed%2C+completed,failed&workflow_id=wf_1&client_reference=a+b%2B&created_after=2026-09-24T10:15Z"
    assert listed(query) == runs_pb2.ListRunsRequest(
        status=[runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED],
        workflow_id="wf_1",
        client_reference="a b+",
        created_after=Timestamp(seconds=1_790_244_900),
    )


@pytest.mark.parametrize("status", ["done", "queued,", ",", "+", "QUEUED", "queued;failed", "unspecified"])
def test_a_status_that_there_is_not_is_invalid_filter(status: str) -> None:
    refused = refusal(f"{LIST_RUNS}?status={status}")
    assert (refused.code, refused.details) == ("invalid_filter", None)
    assert refused.message == (
        "status must be a comma-separated list of queued, running, waiting_for_approval, completed, failed, cancelled."
    )


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize("text", ["2026-09-24", "2026-09-24+10:15", "2026-09-24T10:15:30+", "yesterday"])
def test_what_is_no_date_time_is_invalid_filter(name: str, text: str) -> None:
    refused = refusal(f"{LIST_RUNS}?{name}={text}")
    assert (refused.code, refused.details) == ("invalid_filter", None)
    assert refused.message.startswith(f"{name} must be an ISO 8601 date-time as 2026-09-24T10:15:30.123+02:00 or ")


def test_bounds_are_judged_before_what_a_text_means_and_that_in_the_order_of_the_fields() -> None:
    bad = "created_before=x&status=x"
    assert refusal(f"{LIST_RUNS}?{bad}&limit=0").code == "invalid_request"
    assert refusal(f"{LIST_RUNS}?{bad}&client_reference=").message.startswith("The parameter client_reference ")
    assert refusal(f"{LIST_RUNS}?{bad}&cursor=%ff").code == "invalid_cursor"
    assert refusal(f"{LIST_RUNS}?{bad}").message.startswith("status ")


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("2026-09-24T10:15:30+02:00", 1_790_237_730),
        ("2026-09-24T10:15:30+0200", 1_790_237_730),
        ("2026-09-24T10:15:30%2B02:00", 1_790_237_730),
        ("2026-09-24T10:15:30-02:00", 1_790_252_130),
        ("2026-09-24T10:15:30Z", 1_790_244_930),
    ],
)
def test_a_raw_plus_of_an_offset_is_a_plus_again(query: str, seconds: int) -> None:
    assert listed(f"created_after={query}").created_after == Timestamp(seconds=seconds)


def test_invalid_request_comes_before_invalid_filter_before_invalid_cursor() -> None:
    assert refusal(f"{LIST_RUNS}?cursor=%ff&status=&limit=0").code == "invalid_request"
    assert refusal(f"{LIST_RUNS}?cursor=%ff&status=").code == "invalid_filter"
    assert refusal(f"{LIST_RUNS}?cursor=%ff").code == "invalid_cursor"
    assert refusal(f"{LIST_RUNS}?cursor=%00").code == "invalid_cursor"


def test_any_plausible_cursor_is_left_to_the_backend() -> None:
    assert listed("cursor=not%20ours").page_token == "not ours"
