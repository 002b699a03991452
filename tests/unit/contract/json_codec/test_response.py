import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.json_codec.response import ResponseCodec, timestamp_text
from workflow_api.v1 import (
    edge_pb2,
    keys_pb2,
    outputs_pb2,
    runs_pb2,
    workflows_pb2,
)
from workflow_api.v1.deployment_pb2 import Health
from workflow_api.v1.options_pb2 import SCOPE_OUTPUTS_READ, SCOPE_RUNS_CREATE
from workflow_api.v1.pii_policy_pb2 import PiiMode, PiiPolicy, PiiStage

steady = settings(deadline=None, derandomize=True)
AT = "2026-09-24T10:15:30.123+00:00"


def codec(message: Message) -> ResponseCodec:
    return ResponseCodec(cast("Descriptor", message.DESCRIPTOR))


def encoded(message: Message) -> Any:
    return json.loads(codec(message).encode(message))


def at() -> Timestamp:
    return Timestamp(seconds=1_790_244_930, nanos=123_000_000)


def test_every_field_of_a_record_is_present_and_null_when_unset() -> None:
    assert encoded(runs_pb2.Run()) == {
        "run_id": "",
        "workflow_id": "",
        "workflow_name": "",
        "version": 0,
        "status": None,
        "created_at": None,
        "started_at": None,
        "finished_at": None,
        "duration_ms": None,
        "client_reference": None,
        "labels": {},
        "counts": None,
        "warnings": [],
        "completed_with_warnings": False,
        "links": {
            "self": "/api/v1/runs/",
            "steps": "/api/v1/runs//steps",
            "events": "/api/v1/runs//events",
            "approvals": "/api/v1/runs//approvals",
            "outputs": "/api/v1/runs//outputs",
            "outputs_zip": "/api/v1/runs//outputs.zip",
            "pii_redaction": "/api/v1/runs//pii-redaction",
            "cancel": "/api/v1/runs//cancel",
            "data": "/api/v1/runs//data",
        },
        "parameters": None,
        "input_text": None,
        "inputs_manifest": None,
        "max_run_hours": None,
        "triggered_by": None,
        "key_id": None,
        "summary_markdown": None,
        "result": None,
        "result_error": None,
        "result_schema_version": None,
        "result_json": None,
        "data_purged_at": None,
        "pii_redaction": None,
        "pii_policy": None,
        "resumed_from": None,
        "resumed_by": None,
        "parent_run_id": None,
        "usage": None,
    }


def test_error_of_a_run_is_present_only_when_it_failed() -> None:
    failed = runs_pb2.Run(error=runs_pb2.RunError(code="node_failed", message="Step 'count' failed."))
    assert encoded(failed)["error"] == {"code": "node_failed", "message": "Step 'count' failed."}
    assert "error" not in encoded(runs_pb2.Run())


def test_a_set_optional_field_is_shown_even_if_it_is_zero_or_empty() -> None:
    run = runs_pb2.Run(
        summary=runs_pb2.RunSummary(duration=Duration(), client_reference=""), input_text="", max_run_time=Duration()
    )
    shown = encoded(run)
    assert (shown["duration_ms"], shown["client_reference"], shown["input_text"], shown["max_run_hours"]) == (
        0,
        "",
        "",
        0,
    )


@pytest.mark.parametrize(("categories", "shown"), [(["all"], "all"), ([], []), (["EMAIL_ADDRESS"], ["EMAIL_ADDRESS"])])
def test_a_list_may_be_a_text(categories: list[str], shown: object) -> None:
    assert encoded(PiiPolicy(categories=categories, min_confidence=1))["categories"] == shown


def test_a_policy_is_shown_with_all_its_fields_in_their_order() -> None:
    policy = PiiPolicy(mode=PiiMode.PII_MODE_DETECT, stages=[PiiStage.PII_STAGE_STEPS], min_confidence=1)
    text = ResponseCodec(PiiPolicy.DESCRIPTOR).encode(policy).decode()
    assert text == (
        '{"mode":"detect","categories":[],"stages":["steps"],"min_confidence":1.0,"model":null,"max_model_calls":0,'
        '"parquet_sample_rows":0,"phone_regions":[]}'
    )


def test_inlined_fields_stand_in_the_enclosing_object() -> None:
    credentials = keys_pb2.KeyCredentials(
        record=keys_pb2.KeyRecord(key=keys_pb2.ApiKey(key_id="ak_1"), state="active"), key_value="ak_1.s"
    )
    shown = encoded(credentials)
    assert (shown["key_id"], shown["state"], shown["key_value"]) == ("ak_1", "active", "ak_1.s")
    assert not shown.keys() & {"record", "key"}


def test_internal_fields_are_not_shown() -> None:
    assert "replayed" not in encoded(runs_pb2.StartRunResponse(replayed=True))
    assert encoded(outputs_pb2.ListOutputsResponse(run_id="run_1")).keys() == {"items", "total_bytes", "bundle"}


def test_a_start_is_answered_with_the_run_itself() -> None:
    run = runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_1"))
    assert encoded(runs_pb2.StartRunResponse(run=run)) == encoded(run)


def test_links_are_made_though_the_backend_leaves_them_out() -> None:
    run = runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_1"))
    assert encoded(run)["links"]["outputs_zip"] == "/api/v1/runs/run_1/outputs.zip"
    assert encoded(workflows_pb2.Workflow(workflow_id="wf_1"))["links"] == {
        "self": "/api/v1/workflows/wf_1",
        "parameters": "/api/v1/workflows/wf_1/parameters",
        "runs": "/api/v1/workflows/wf_1/runs",
    }


def test_links_are_filled_from_the_message_that_holds_them_at_any_depth() -> None:
    run = runs_pb2.Run(
        summary=runs_pb2.RunSummary(run_id="run_1"), result_json=runs_pb2.ResultJson(size_bytes=2, output_id="out_9")
    )
    assert encoded(run)["result_json"] == {
        "size_bytes": 2,
        "sha256": "",
        "download": {"path": "/api/v1/runs/run_1/outputs/out_9/content"},
    }
    outputs = encoded(
        outputs_pb2.ListOutputsResponse(run_id="run_1", items=[outputs_pb2.Output(output_id=f"out_{n}") for n in "ab"])
    )
    assert [item["download"]["path"] for item in outputs["items"]] == [
        "/api/v1/runs/run_1/outputs/out_a/content",
        "/api/v1/runs/run_1/outputs/out_b/content",
    ]
    assert outputs["bundle"] == {"path": "/api/v1/runs/run_1/outputs.zip"}


def test_each_run_of_a_list_has_its_own_links() -> None:
    runs = encoded(
        runs_pb2.ListRunsResponse(items=[runs_pb2.RunSummary(run_id="run_a"), runs_pb2.RunSummary(run_id="run_b")])
    )
    assert [run["links"]["self"] for run in runs["items"]] == ["/api/v1/runs/run_a", "/api/v1/runs/run_b"]


def test_ids_in_links_are_percent_encoded() -> None:
    assert encoded(workflows_pb2.Workflow(workflow_id="a/é ?"))["links"]["self"] == "/api/v1/workflows/a%2F%C3%A9%20%3F"


def test_enums_are_lower_case_names_without_prefix() -> None:
    assert encoded(Health(status=Health.STATUS_DISABLED))["status"] == "disabled"
    assert (
        encoded(runs_pb2.RunSummary(status=runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL))["status"]
        == "waiting_for_approval"
    )
    assert encoded(runs_pb2.Step(kind=runs_pb2.STEP_KIND_AGENT))["kind"] == "agent"
    assert encoded(runs_pb2.Run(triggered_by=runs_pb2.TRIGGERED_BY_API_KEY))["triggered_by"] == "api_key"


def test_enums_with_a_spelling_are_spelled_so() -> None:
    key = keys_pb2.ApiKey(scopes=[SCOPE_RUNS_CREATE, SCOPE_OUTPUTS_READ])
    assert encoded(key)["scopes"] == ["runs:create", "outputs:read"]


def test_an_enum_value_of_a_later_release_is_null() -> None:
    summary = runs_pb2.RunSummary()
    summary.MergeFromString(bytes([5 << 3, 99]))  # status, 99
    assert encoded(summary)["status"] is None


def test_raw_json_is_a_value_and_null_when_empty() -> None:
    event = runs_pb2.Event(data='{"n": [1, 2.50, 12345678901234567890123]}')
    assert b'"data":{"n": [1, 2.50, 12345678901234567890123]}' in codec(event).encode(event)
    assert encoded(runs_pb2.Event())["data"] is None


def test_a_parameter_shows_only_the_bounds_it_has() -> None:
    parameter = workflows_pb2.Parameter(name="language", type="string", enum='["en","fr"]', max_length=2)
    assert encoded(parameter) == {
        "name": "language",
        "type": "string",
        "description": None,
        "required": False,
        "default": None,
        "enum": ["en", "fr"],
        "max_length": 2,
    }


def test_maps_are_objects_in_order_of_their_names() -> None:
    summary = runs_pb2.RunSummary(labels={name: name.upper() for name in "zyxcba"})
    assert list(encoded(summary)["labels"].items()) == [(name, name.upper()) for name in "abcxyz"]
    assert encoded(outputs_pb2.PiiRedaction(categories={"PERSON": 2}))["categories"] == {"PERSON": 2}


def test_integers_and_durations_are_json_numbers() -> None:
    largest = 2**63 - 1
    assert encoded(runs_pb2.RunSummary(version=largest, duration=Duration()))["version"] == largest
    assert encoded(runs_pb2.Run(max_run_time=Duration(seconds=900)))["max_run_hours"] == 0.25


def test_text_of_any_characters_is_written_unchanged() -> None:
    text = 'é"\\\n\0😀'
    assert encoded(runs_pb2.Run(input_text=text))["input_text"] == text


def test_data_of_events_is_inlined_and_absent_fields_are_null() -> None:
    answer = runs_pb2.ListRunEventsResponse(
        run_id="run_1",
        events=[runs_pb2.Event(seq=1, type="step.started", at=at(), step="count", data="{}")],
        next_after_seq=1,
        segments=[runs_pb2.Segment(segment_id="seg_1", ordinal=1, started_at=at(), last_seq=1)],
    )
    assert encoded(answer) == {
        "run_id": "run_1",
        "segment_id": None,
        "events": [{"seq": 1, "type": "step.started", "at": AT, "step": "count", "data": {}}],
        "next_after_seq": 1,
        "segments": [{"segment_id": "seg_1", "ordinal": 1, "started_at": AT, "ended_at": None, "last_seq": 1}],
    }


def test_timestamps_are_utc_with_milliseconds_and_offset() -> None:
    assert timestamp_text(at()) == AT
    assert timestamp_text(Timestamp()) == "1970-01-01T00:00:00.000+00:00"
    assert timestamp_text(Timestamp(seconds=-1, nanos=999_999_999)) == "1969-12-31T23:59:59.999+00:00"


@steady
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_timestamps_agree_with_the_standard_library(moment: datetime) -> None:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    assert timestamp_text(timestamp) == moment.replace(tzinfo=UTC).isoformat(timespec="milliseconds")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (outputs_pb2.OutputDownload.DESCRIPTOR, "no field fills run_id, output_id"),
        (edge_pb2.MirroredKey.DESCRIPTOR, "bytes have no form"),
    ],
)
def test_a_message_that_has_no_json_form_stops_the_start(message: Descriptor, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ResponseCodec(message)
