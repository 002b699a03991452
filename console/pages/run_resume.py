"""Page that resumes a failed or cancelled run by a new run that reuses its completed steps."""

from typing import Final
from uuid import uuid4

from console.addresses import run_address
from console.pages.run import GONE, missing
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.runs_pb2 import GetRunRequest, ResumeRunRequest, ResumeRunResponse, Run

_CALL: Final = "RunsService/ResumeRun"
_REFUSED: Final = frozenset(
    {
        "invalid_request",
        "invalid_parameters",
        "run_not_terminal",
        "already_purged",
        "workflow_not_found",
        "workflow_not_active",
        "workflow_not_ready",
        "version_not_found",
        "license_unavailable",
        "policy_not_tightening",
        "invalid_pii_policy",
        "idempotency_conflict",
        "too_many_active_runs",
        "quota_exceeded",
    }
)
"""Refusals that the page shows; no run was started."""


async def show(visit: Visit) -> PageResult:
    """Shows which steps the new run would reuse, and why it would execute the others."""
    return await _plan(visit, visit.query.get("from", ""))


async def resume(visit: Visit) -> PageResult:
    """Starts the new run; a form that is sent twice starts one run."""
    from_step = visit.sent("from")
    request = ResumeRunRequest(
        run_id=visit.path["run_id"],
        from_step=from_step or None,
        again=visit.sent("again") == "yes",
        idempotency_key=visit.sent("once") or _new_key(),
    )
    try:
        answer: ResumeRunResponse = await visit.services.call(_CALL, request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code not in _REFUSED:
            raise
        return await _plan(visit, from_step, refusal)
    return Redirect(run_address(answer.run.summary.run_id), f"The run takes over from {request.run_id}.")


def _new_key() -> str:
    return f"console-{uuid4().hex}"


async def _plan(visit: Visit, from_step: str, refused: Refusal | None = None) -> View:
    run_id = visit.path["run_id"]
    request = ResumeRunRequest(run_id=run_id, from_step=from_step[:128] or None, dry_run=True)
    run, answer = Run(), ResumeRunResponse()
    try:
        run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
        answer = await visit.services.call(_CALL, request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code not in _REFUSED:
            raise
        refused = refused or refusal
    context = {
        "here": run_address(run_id),
        "run_id": run_id,
        "from_step": from_step,
        "reused": answer.reused,
        "executed": answer.executed,
        "version": answer.version,
        "of_key": run.HasField("key_id"),
        "resumed_by": answer.resumed_by,
        "problem": "" if refused is None else reason_of(refused),
        "once": _new_key(),
    }
    return View("runs/resume.html", context, status=200 if refused is None else refused.status)


def reason_of(refusal: Refusal) -> str:
    """Returns why nothing was started, with the problem of each field."""
    details = refusal.details if isinstance(refusal.details, list) else ()
    reasons = refusal.details.get("reasons", ()) if isinstance(refusal.details, dict) else ()
    return " ".join([refusal.message, *(f"{each['name']} {each['reason']}." for each in details), *map(str, reasons)])
