"""A run of the fake service: a script, and the state after its elapsed part."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from workflow_api_client.operations.waiting import TERMINAL
from workflow_api_client.testing.fake_clock import FakeClock
from workflow_api_client.testing.script import Completed, Emitted, Failed, Moment, RequestedApproval

RESULT_FILE: Final = "result.json"

_NO_POLICY: Final = {
    "mode": "off",
    "categories": "all",
    "stages": ["inputs", "steps", "outputs"],
    "min_confidence": 0.8,
    "model": None,
    "max_model_calls": 200,
    "parquet_sample_rows": 50000,
    "phone_regions": [],
}


class FakeRun:
    """One run of the fake service.

    Attributes:
        given: Body of the start.
        status: Status at the clock's time.
        outputs: Output files by path, once the run has ended.
    """

    def __init__(self, run_id: str, workflow: tuple[str, str], given: dict[str, Any], clock: FakeClock) -> None:
        self.run_id = run_id
        self.given = given
        self.status = "queued"
        self.outputs: dict[str, bytes] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.segments: list[dict[str, Any]] = []
        self.approvals: list[dict[str, Any]] = []
        self._workflow_id, self._workflow_name = workflow
        self._clock = clock
        self._created_at = clock.text()
        self._finished_at: str | None = None
        self._purged_at: str | None = None
        self._cancel_asked_at: str | None = None
        self._end: Completed | Failed | None = None
        self._plan: list[tuple[float, Moment | str]] = []

    def plan(self, script: Sequence[Moment]) -> None:
        """Schedules the script from now on."""
        due = self._clock.now()
        self._plan.append((due, "begin"))
        for moment in script:
            due += moment.after
            self._plan.append((due, moment))
            if isinstance(moment, RequestedApproval):
                due += moment.decided_after
                if moment.decision is None:
                    return
                self._plan.append((due, moment.decision))
                if moment.decision == "rejected":
                    return

    @property
    def next_due(self) -> float | None:
        """Time of the next scheduled change; None without one."""
        return self._plan[0][0] if self._plan else None

    @property
    def is_erased(self) -> bool:
        """True once the run's data was erased."""
        return self._purged_at is not None

    @property
    def has_ended(self) -> bool:
        """True once the run has ended."""
        return self.status in TERMINAL

    def catch_up(self) -> None:
        """Applies the part of the script that is due."""
        while self._plan and self._plan[0][0] <= self._clock.now():
            _, moment = self._plan.pop(0)
            self._happen(moment)

    def cancel(self) -> str:
        """Cancels the run for a caller; returns the time of the first request."""
        self._cancel_asked_at = self._cancel_asked_at or self._clock.text()
        self._plan.clear()
        self._finish("cancelled")
        return self._cancel_asked_at

    def erase(self) -> str:
        """Removes the run's data; returns the time of the erasure."""
        self._purged_at = self._clock.text()
        self.outputs.clear()
        return self._purged_at

    def summary(self) -> dict[str, Any]:
        """Returns the run's record as in lists."""
        base = f"/api/v1/runs/{self.run_id}"
        links = {name: f"{base}/{name}" for name in ("steps", "events", "approvals", "outputs", "cancel", "data")}
        warnings = list(self._end.warnings) if isinstance(self._end, Completed) else []
        return {
            "run_id": self.run_id,
            "workflow_id": self._workflow_id,
            "workflow_name": self._workflow_name,
            "version": self.given.get("version") or 1,
            "status": self.status,
            "created_at": self._created_at,
            "started_at": self.segments[0]["started_at"] if self.segments else None,
            "finished_at": self._finished_at,
            "duration_ms": None if self._finished_at is None else 0,
            "client_reference": self.given.get("client_reference"),
            "labels": self.given.get("labels") or {},
            "counts": {
                "steps_total": 1,
                "steps_completed": int(self.status == "completed"),
                "steps_failed": int(self.status == "failed"),
                "steps_skipped": 0,
                "approvals_pending": len(self.approvals),
                "outputs": len(self.outputs),
            },
            "warnings": warnings,
            "completed_with_warnings": self.status == "completed" and bool(warnings),
            "links": {
                "self": base,
                **links,
                "outputs_zip": f"{base}/outputs.zip",
                "pii_redaction": f"{base}/pii-redaction",
            },
        }

    def detail(self) -> dict[str, Any]:
        """Returns the run's whole record."""
        end = None if self.is_erased else self._end
        completed = end if isinstance(end, Completed) else None
        result = None if completed is None else completed.result
        content = self.outputs.get(RESULT_FILE)
        download = {"path": f"/api/v1/runs/{self.run_id}/outputs/out_{RESULT_FILE}/content"}
        failed = (
            {"error": {"code": self._end.code, "message": self._end.message}} if isinstance(self._end, Failed) else {}
        )
        return {
            **self.summary(),
            **failed,
            "parameters": None if self.is_erased else self.given.get("parameters") or {},
            "input_text": None if self.is_erased else self.given.get("input_text"),
            "inputs_manifest": None,
            "max_run_hours": None,
            "triggered_by": "api_key",
            "key_id": "ak_0123456789ab",
            "summary_markdown": completed and completed.summary,
            "result": result,
            "result_json": None
            if content is None
            else {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "download": download},
            "result_error": None,
            "result_schema_version": None,
            "data_purged_at": self._purged_at,
            "pii_redaction": None,
            "pii_policy": _NO_POLICY,
        }

    def _happen(self, moment: Moment | str) -> None:
        match moment:
            case "begin":
                self._begin_segment()
                self._event("run.started", {})
                self._event("step.started", {"attempt": 1}, "work")
            case "approved":
                self._begin_segment()
                self._event("approval.decided", {**self._asked(), "decision": "approved", "comment": None}, "work")
            case "rejected":
                self._begin_segment()
                self._event("approval.decided", {**self._asked(), "decision": "rejected", "comment": None}, "work")
                self._end = Failed(0.0, "invariant_blocked", "An approval was rejected.")
                self._finish("failed")
            case Emitted(type=kind, data=data, step=step):
                self._event(kind, dict(data), step)
            case RequestedApproval(title=title):
                approval_id = f"apr_{len(self.segments):026}"
                self._event("approval.requested", {"approval_id": approval_id, "title": title}, "work")
                self._park(approval_id, title)
            case Completed() | Failed():
                self._end = moment
                self._finish("completed" if isinstance(moment, Completed) else "failed")

    def _begin_segment(self) -> None:
        ordinal = len(self.segments) + 1
        segment_id = f"seg_{self.run_id[-4:]}{ordinal:022}"
        now = self._clock.text()
        segment = {"segment_id": segment_id, "ordinal": ordinal, "started_at": now, "ended_at": None, "last_seq": 0}
        self.segments.append(segment)
        self.events[segment_id] = []
        self.status = "running"
        self._event("segment.started", {"ordinal": ordinal})

    def _end_segment(self) -> None:
        self._event("segment.ended", {})
        self.segments[-1]["ended_at"] = self._clock.text()

    def _park(self, approval_id: str, title: str) -> None:
        self.approvals.append(
            {
                "approval_id": approval_id,
                "step": "work",
                "title": title,
                "instructions": None,
                "segment_id": self.segments[-1]["segment_id"],
                "requested_at": self._clock.text(),
            }
        )
        self.status = "waiting_for_approval"
        self._end_segment()

    def _asked(self) -> dict[str, Any]:
        return {"approval_id": self.approvals.pop()["approval_id"]}

    def _finish(self, status: str) -> None:
        self.approvals.clear()
        if isinstance(self._end, Completed | Failed) and status != "cancelled":
            self.outputs = dict(self._end.outputs)
        if isinstance(self._end, Completed) and status == "completed" and self._end.result is not None:
            self.outputs[RESULT_FILE] = json.dumps(self._end.result).encode()
        if self.segments and self.segments[-1]["ended_at"] is None:
            data = _error_of(self._end) if isinstance(self._end, Failed) and status == "failed" else {}
            self._event(f"run.{status}", data)
            self._end_segment()
        self.status = status
        self._finished_at = self._clock.text()

    def _event(self, kind: str, data: dict[str, Any], step: str | None = None) -> None:
        segment = self.segments[-1]
        segment["last_seq"] += 1
        event = {"seq": segment["last_seq"], "type": kind, "at": self._clock.text(), "step": step, "data": data}
        self.events[segment["segment_id"]].append(event)


def _error_of(end: Failed) -> dict[str, str]:
    return {"code": end.code, "message": end.message}
