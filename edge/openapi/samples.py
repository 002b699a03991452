"""Examples of all JSON answers, made by the response codec from messages with likely values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from contract.fields import DURATION, TIMESTAMP, is_map, message_of, rules_of
from contract.json_codec.response import ResponseCodec
from contract.versions import API_VERSION
from workflow_api.v1.pii_policy_pb2 import PiiMode, PiiStage

_AT_MS: Final = 1_790_244_930_123  # 2026-09-24T10:15:30.123+00:00
_DURATION_MS: Final = 8_421

# Values by the field's full name without the package, else by its name; other fields stay unset.
_VALUES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "api_version": API_VERSION,
        "deployment_id": "dep_main",
        "key_id": "ak_3f9c02d1b7e4",
        "workflow_id": "wf_01k5xg2t6p8n4q0z3v7m1r9c5d",
        "run_id": "run_01k5xg3v8m2r7d9w4h6t1c0bqz",
        "segment_id": "seg_01k5xg3v9b7k2n5f8j1p4s6wty",
        "output_id": "out_01k5xg4c3d6g9h2m5q8r1v4x7z",
        "approval_id": "apr_01k5xg4a1e4f7j0k3n6s9t2w5y",
        "ApiKey.name": "nightly-import",
        "ApiKey.scopes": [1, 2, 3, 4],
        "WorkflowAccess.mode": 1,
        "rate_limit_rpm": 60,
        "daily_run_quota": 100,
        "quota_used_today": 7,
        "max_concurrent_runs": 10,
        "active_runs": 1,
        "Health.status": 1,
        "Workflow.name": "Contract digest",
        "workflow_name": "Contract digest",
        "Workflow.description": "Counts and digests incoming contracts.",
        "Workflow.status": 2,
        "version": 3,
        "ready": True,
        "parallel_steps": 3,
        "PiiPolicy.mode": PiiMode.PII_MODE_OFF,
        "PiiPolicy.categories": ["all"],
        "PiiPolicy.stages": [PiiStage.PII_STAGE_INPUTS, PiiStage.PII_STAGE_STEPS, PiiStage.PII_STAGE_OUTPUTS],
        "PiiPolicy.min_confidence": 0.8,
        "PiiPolicy.max_model_calls": 200,
        "PiiPolicy.parquet_sample_rows": 50_000,
        "PiiPolicy.phone_regions": ["ES"],
        "Parameter.name": "language",
        "Parameter.type": "string",
        "Parameter.description": "Language of the digest.",
        "Parameter.default": '"en"',
        "Parameter.enum": '["en","fr"]',
        "RunSummary.status": 4,
        "CancelRunResponse.status": 2,
        "client_reference": "contract-4711",
        "labels": {"team": "legal"},
        "steps_total": 2,
        "steps_completed": 2,
        "RunCounts.outputs": 2,
        "Run.parameters": '{"language":"en"}',
        "triggered_by": 1,
        "result": '{"words":1742}',
        "ResultJson.size_bytes": 14,
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "Approval.step": "review",
        "Approval.title": "Check the count",
        "Approval.instructions": "Is it plausible?",
        "Event.seq": 1,
        "Event.type": "step.started",
        "Event.step": "count",
        "Event.data": '{"attempt":1}',
        "ordinal": 1,
        "last_seq": 1,
        "next_after_seq": 1,
        "Step.step": "count",
        "Step.name": "count",
        "Step.kind": 1,
        "Step.status": 4,
        "Step.agent_id": "agt_01k5xg1q2w3e4r5t6y7h8j9k0m",
        "attempt": 1,
        "Output.name": "count.txt",
        "Output.path": "count/count.txt",
        "Output.step": "count",
        "Output.media_type": "text/plain",
        "Output.size_bytes": 4,
        "total_bytes": 4,
        "PiiRedaction.mode": "redact",
        "RedactionStage.stage": "outputs",
        "RedactionStage.status": "completed",
        "files": 2,
        "values": 5,
        "categories": {"EMAIL_ADDRESS": 3, "PERSON": 2},
        "counts": {"files": 2, "values": 5, "model_calls": 0},
    }
)
_TIMES: Final = frozenset(
    {"created_at", "updated_at", "started_at", "finished_at", "expires_at", "requested_at", "at", "cancel_requested_at"}
)
_TIMES_OF: Final = frozenset({"EraseRunDataResponse.data_purged_at"})
_UNSET: Final = frozenset({"error", "result_error"})

BODIES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "StartRun": {
            "parameters": {"language": "en"},
            "client_reference": "contract-4711",
            "labels": {"team": "legal"},
        },
        "CancelRun": {"reason": "Started by mistake."},
        "EraseRunData": {"reason": "Request of the person concerned."},
    }
)
"""Example of a request body, by RPC."""


def example_of(field: str) -> Any:
    """Returns the example value of fields with this name, in whatever message."""
    return _VALUES[field]


def sample(message: Descriptor, codec: ResponseCodec) -> Any:
    """Returns an example of the codec's JSON for a message type."""
    return orjson.loads(codec.encode(_filled(message)))


def _filled(message: Descriptor) -> Message:
    filled = GetMessageClass(message)()
    for field in message.fields:
        own_name = f"{message.name}.{field.name}"
        if field.name in _UNSET:
            continue
        if is_map(field) or rules_of(field).raw_json or field.message_type is None:
            _set(filled, field, _VALUES.get(own_name, _VALUES.get(field.name)))
        elif message_of(field).full_name == TIMESTAMP:
            if field.name in _TIMES or own_name in _TIMES_OF:
                at = Timestamp()
                at.FromMilliseconds(_AT_MS + (_DURATION_MS if field.name == "finished_at" else 0))
                getattr(filled, field.name).CopyFrom(at)
        elif message_of(field).full_name == DURATION:
            if field.name == "duration":
                getattr(filled, field.name).FromMilliseconds(_DURATION_MS)
        elif field.is_repeated:
            getattr(filled, field.name).append(_filled(message_of(field)))
        else:
            getattr(filled, field.name).CopyFrom(_filled(message_of(field)))
    return filled


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    if value is None:
        return
    if is_map(field):
        getattr(message, field.name).update(value)
    elif field.is_repeated:
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, value)
