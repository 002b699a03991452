import json
from typing import Any

import pytest

from console.run.sentences import KINDS, sentence
from contract.fields import rules_of
from workflow_api.v1.event_data_pb2 import EventData

TYPES = {rules_of(field).tag for field in EventData.DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("segment.started", {"ordinal": 2}, "Segment 2 began to execute."),
        ("segment.ended", {}, "The segment ended."),
        ("run.started", {}, "The run began."),
        ("run.completed", {}, "The run completed."),
        ("run.failed", {"code": "orphaned", "message": None}, "The run failed: orphaned."),
        ("run.cancelled", {}, "The run was cancelled."),
        ("inputs.materialised", {"objects": 1, "bytes": 2_000}, "1 object were copied in, 2 kB."),
        ("step.started", {"attempt": 2}, "count began attempt 2."),
        ("step.progress", {"message": "at", "page": 3}, "count: at (page 3)"),
        ("step.completed", {"outputs": 2}, "count completed and left 2 files."),
        (
            "step.failed",
            {"code": "node_failed", "type": "ValueError", "message": "no", "attempt": 1, "retry_at": None},
            "count failed at attempt 1: ValueError: no",
        ),
        (
            "step.failed",
            {"code": "node_failed", "type": "ValueError", "message": "ValueError: no", "attempt": 1, "retry_at": None},
            "count failed at attempt 1: ValueError: no",
        ),
        ("step.skipped", {"reason": "a failed"}, "count was skipped: a failed"),
        ("approval.requested", {"approval_id": "apr_1", "title": "Good?"}, "count waits for a person: Good?"),
        (
            "approval.decided",
            {"approval_id": "apr_1", "decision": "approved", "comment": "fine", "decided_by": "user:ada"},
            "count was approved by ada: “fine”",
        ),
        (
            "approval.decided",
            {"approval_id": "apr_1", "decision": "approved", "comment": None, "form": {"amount": 3, "note": "ok"}},
            "count was approved. (amount 3, note ok)",
        ),
        (
            "approval.reminded",
            {"approval_id": "apr_1", "deadline_at": "2026-09-24T10:15:30.123+00:00"},
            "count still waits for a person, until 2026-09-24T10:15:30.123+00:00.",
        ),
        ("approval.reminded", {"approval_id": "apr_1", "deadline_at": None}, "count still waits for a person."),
        (
            "approval.expired",
            {"approval_id": "apr_1", "on_deadline": "reject"},
            "Nobody decided count before its deadline: it was rejected.",
        ),
        (
            "approval.expired",
            {"approval_id": "apr_1", "on_deadline": "fail"},
            "Nobody decided count before its deadline: the run fails.",
        ),
        ("output.promoted", {"output_id": "out_1", "path": "a/b", "size_bytes": 5}, "a/b became an output, 5 B."),
        ("redaction.started", {"stage": "inputs"}, "The sweep of the inputs for personal data began."),
        (
            "redaction.completed",
            {"stage": "inputs", "files": 1, "values": 2},
            "The sweep of the inputs for personal data found 2 values in 1 file and in data beside them.",
        ),
        ("redaction.started", {"stage": "steps"}, "The sweep of what count handed on for personal data began."),
        (
            "redaction.completed",
            {"stage": "steps", "files": 1, "values": 2},
            "The sweep of what count handed on for personal data found 2 values in 1 file and in data beside them.",
        ),
        ("publish.started", {"knowledge_graph": "facts"}, "Publishing in facts began."),
        (
            "publish.completed",
            {"knowledge_graph": "facts", "graph": "urn:x", "triples": 1_200},
            "1,200 triples were published in facts, as urn:x.",
        ),
        (
            "step.tool_call",
            {
                "tool": "rates",
                "duration_ms": 1200,
                "input_bytes": 18,
                "output_bytes": 40,
                "ok": True,
                "attempt": 1,
                "item_index": None,
            },
            "count called rates: 1,200 ms, 18 bytes in, 40 out.",
        ),
        (
            "step.tool_call",
            {
                "tool": "rates",
                "duration_ms": 5,
                "input_bytes": 18,
                "output_bytes": 40,
                "ok": False,
                "attempt": 1,
                "item_index": 2,
            },
            "count, item 2, called rates without a result: 5 ms, 18 bytes in, 40 out.",
        ),
        ("step.reused", {"run_id": "run_1", "outputs": 1}, "count was reused from run_1."),
        ("step.item_completed", {"item_index": 7, "attempt": 1, "outputs": 0}, "Item 7 of count completed."),
        (
            "step.item_completed",
            {"item_index": 7, "attempt": 2, "outputs": 2},
            "Item 7 of count completed and left 2 files.",
        ),
        ("step.item_completed", {"item_index": 7, "attempt": 0, "outputs": 2}, "Item 7 of count was reused."),
        (
            "step.item_failed",
            {"item_index": 7, "type": "ValueError", "message": "no luck", "attempt": 1, "retry_at": None},
            "Item 7 of count failed at attempt 1: ValueError: no luck",
        ),
        ("child.started", {"run_id": "run_2", "status": "queued", "item_index": 3}, "count, item 3, started run_2."),
        (
            "child.ended",
            {"run_id": "run_2", "status": "failed", "item_index": None},
            "run_2, which count started, is failed.",
        ),
        ("warning", {"message": "late"}, "Warning of count: late"),
    ],
)
def test_each_event_is_a_sentence(kind: str, data: dict[str, Any], said: str) -> None:
    assert sentence(kind, "count", json.dumps(data)) == said


def test_every_type_of_the_contract_has_a_sentence_and_a_filter() -> None:
    assert len(TYPES) == 28
    assert {kind for _, kinds in KINDS.values() for kind in kinds} == TYPES
    assert not [kind for kind in TYPES if sentence(kind, "s", "[]") != kind]


@pytest.mark.parametrize("data", ["", "{}", "null", "not json", "[" * 100_000])
def test_data_of_another_form_is_shown_as_its_type(data: str) -> None:
    assert sentence("step.failed", "s", data) in {"step.failed", "step.failed: s"}
