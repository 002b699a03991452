"""Page that goes back to a version of a workflow: what would change is shown first."""

from typing import Any

import pytest

from console.visit import Redirect, View
from contract.refusals import Refusal
from tests.unit.console.seen import MemoryServices, answered, html
from workflow_api.v1.definitions_pb2 import RestoreWorkflowVersionResponse
from workflow_api.v1.workflows_pb2 import AppliedResource

EVIL = "<script>alert(1)</script>"
HERE = {"definition_id": "wf_1"}
RESTORE = "DefinitionsService/RestoreWorkflowVersion"
UNIFIED = f"--- one\n+++ two\n@@ -1 +1 @@\n-old {EVIL}\n+new {EVIL}\n"


def restored(outcome: str = "updated") -> RestoreWorkflowVersionResponse:
    fields: Any = {"previous_version": 3, "manifest_difference": UNIFIED}
    return RestoreWorkflowVersionResponse(
        workflow=AppliedResource(kind="Workflow", name="W", id="wf_1", version=4, outcome=outcome, **fields),
        pinned=[
            AppliedResource(
                kind="Agent",
                name="counter",
                version=1,
                previous_version=2,
                manifest_difference=UNIFIED.replace("old", "x"),
            )
        ],
    )


def test_what_going_back_changes_is_shown_first() -> None:
    backend = MemoryServices({RESTORE: restored()})
    page = html(answered(backend, "GET", "/workflows/{definition_id}/restore", HERE, query={"version": "1"}))
    assert [request.dry_run for request in backend.asked(RESTORE)] == [True]
    assert "Agent counter: version 1 in place of 2" in page
    assert 'name="expected" value="3"' in page
    assert EVIL not in page
    form = {"version": "1", "expected": "3"}
    answer = answered(backend, "POST", "/workflows/{definition_id}/restore", HERE, form=form)
    assert answer == Redirect("/workflows/wf_1", "Version 4 is active, with all that version 1 used.")
    request = backend.asked(RESTORE)[-1]
    assert (request.version, request.expected_version, request.dry_run) == (1, 3, False)


def test_a_version_saved_meanwhile_is_shown_before_it_is_replaced() -> None:
    def newer(request: Any) -> RestoreWorkflowVersionResponse:
        if not request.dry_run:
            raise Refusal("invalid_request", details=[{"name": "expected_version", "reason": "must be 3"}])
        return restored()

    backend = MemoryServices({RESTORE: newer})
    form = {"version": "1", "expected": "2"}
    answer = answered(backend, "POST", "/workflows/{definition_id}/restore", HERE, form=form)
    assert isinstance(answer, View)
    assert answer.status == 409
    assert "Somebody saved another version meanwhile" in html(answer)


def test_another_refusal_is_not_shown_as_a_version_saved_meanwhile() -> None:
    def refused(request: Any) -> RestoreWorkflowVersionResponse:
        if not request.dry_run:
            raise Refusal("invalid_request", "Too large.", details=[{"name": "version", "reason": "must be small"}])
        return restored()

    form = {"version": "1", "expected": "2"}
    with pytest.raises(Refusal, match="Too large"):
        answered(MemoryServices({RESTORE: refused}), "POST", "/workflows/{definition_id}/restore", HERE, form=form)
