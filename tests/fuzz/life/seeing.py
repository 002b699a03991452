"""Checks of what answers show of a run."""

import io
import zipfile
from typing import Any

from tests.fuzz.life.model import Run
from tests.support.wire import Answer


def see_detail(run: Run, answer: Answer) -> None:
    """The whole record, with nothing of the content once it is erased."""
    record = answer.json()
    shown = {} if run.erased_at else run.body
    completed = run.status == "completed" and run.workflow.has_result and not run.erased_at
    assert record["run_id"] == run.run_id
    assert record["workflow_name"] == run.workflow.name
    assert (record["status"], record["version"]) == (run.status, 1)
    assert record.get("error", {}).get("code") == run.error
    assert record["input_text"] == shown.get("input_text")
    assert record["client_reference"] == run.body.get("client_reference")
    assert record["labels"] == run.body.get("labels", {})
    assert record["data_purged_at"] == run.erased_at
    assert (record["result"] is not None) == completed
    assert (record["finished_at"] is None) == run.active
    assert record["counts"]["approvals_pending"] == (run.status == "waiting_for_approval")


def see_steps(run: Run, answer: Answer) -> None:
    statuses = [step["status"] for step in answer.json()["items"]]
    if run.status == "completed":
        assert set(statuses) == {"completed"}
    if not run.active:
        assert not {"pending", "running", "waiting_for_approval"} & set(statuses), statuses


def see_approvals(run: Run, answer: Answer) -> None:
    assert len(answer.json()["items"]) == (run.status == "waiting_for_approval")


def see_events(run: Run, answer: Answer) -> None:
    """Each segment's events count up from 1; what was seen before is there again, unchanged."""
    page = answer.json()
    events: list[Any] = page["events"]
    assert len(page["segments"]) == run.segments
    assert page["segment_id"] == page["segments"][-1]["segment_id"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert page["next_after_seq"] == len(events)
    before = run.events.setdefault(page["segment_id"], [])
    assert events[: len(before)] == before
    assert run.active or page["segments"][-1]["ended_at"]
    run.events[page["segment_id"]] = events


def see_outputs(run: Run, answer: Answer) -> None:
    assert tuple(sorted(output["path"] for output in answer.json()["items"])) == run.outputs


def see_bundle(run: Run, answer: Answer) -> None:
    with zipfile.ZipFile(io.BytesIO(answer.body)) as bundle:
        assert bundle.testzip() is None
        assert tuple(sorted(bundle.namelist())) == run.outputs
