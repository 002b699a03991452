"""Goes back to a former version of a workflow: a new active version with all that the former one was pinned to."""

import json

from backend.audit import sql as audit
from backend.errors import invalid
from backend.services import Services
from backend.storage.database import Tx
from backend.workflows import definitions, sql, versions_sql
from backend.workflows.apply_report import Report, restored_reports
from backend.workflows.applying import applied_message
from backend.workflows.definitions import WORKFLOW
from backend.workflows.service import ApplyResult, add_next_version, next_version
from workflow_api.v1 import definitions_pb2


def restore_version(
    services: Services, request: definitions_pb2.RestoreWorkflowVersionRequest, actor: str
) -> definitions_pb2.RestoreWorkflowVersionResponse:
    """Makes a former version active again as a new one; a dry run only reads.

    Raises:
        ApiError: `not_found`, `version_not_found`; `invalid_request`, if there is a newer version than expected.
    """
    now = services.clock()

    def work(tx: Tx) -> list[Report]:
        applied = _restore(tx, request, now, actor)
        return restored_reports(tx, applied, services.capabilities, restored=request.version)

    database = services.database
    done = database.snapshot(work) if request.dry_run else database.write(work)
    workflow, *pinned = (applied_message(one, dry_run=request.dry_run) for one in done)
    return definitions_pb2.RestoreWorkflowVersionResponse(workflow=workflow, pinned=pinned)


def _restore(tx: Tx, request: definitions_pb2.RestoreWorkflowVersionRequest, now: int, actor: str) -> ApplyResult:
    found = definitions.find(tx, WORKFLOW, request.workflow)
    row = sql.get(tx, found.id)
    assert row is not None, "it was found in this transaction"
    if request.HasField("expected_version") and request.expected_version != row.newest_version:
        raise invalid("expected_version", f"must be {row.newest_version}, the newest version now")
    text = definitions.text_of(tx, found, request.version)
    before = versions_sql.pins_of(tx, row.workflow_id, row.newest_version)
    pins = versions_sql.pins_of(tx, row.workflow_id, request.version)
    same_text = text == versions_sql.definition_text(tx, row.workflow_id, row.newest_version)
    if same_text and pins == before:
        outcome = "unchanged" if row.status == "active" else "updated"
        applied = ApplyResult(
            WORKFLOW,
            row.name,
            row.workflow_id,
            row.newest_version,
            outcome,
            previous_version=row.newest_version,
            previous_status=row.status,
        )
    else:
        applied = next_version(row, before, pins)
    if applied.outcome != "unchanged" and not request.dry_run:
        if applied.version == row.newest_version:
            sql.change_workflow(tx, row, now, status="active")
        else:
            add_next_version(
                tx,
                row,
                before,
                pins,
                now,
                status="active",
                description=json.loads(text)["description"],
                shared_with=request.version,
            )
        details: dict[str, object] = {
            "name": row.name,
            "version": applied.version,
            "outcome": applied.outcome,
            "restored_version": request.version,
        }
        if applied.changed_resources:
            details["changed_resources"] = applied.changed_resources
        audit.record(tx, at=now, actor=actor, action="workflow.applied", target=row.workflow_id, details=details)
    return applied
