"""What people do with a run: cancel it, and erase its data."""

from typing import Final

from console.addresses import run_address
from console.pages.run import GONE, MAX_REASON_CHARS, missing
from console.rendering import formatting
from console.visit import PageResult, Redirect, Visit
from contract.refusals import Refusal
from workflow_api.v1.runs_pb2 import CancelRunRequest, EraseRunDataRequest

_TOO_LONG: Final = f"Nothing was changed: a reason has at most {MAX_REASON_CHARS:,} characters."


async def cancel(visit: Visit) -> PageResult:
    """Requests the cancellation of a run."""
    run_id = visit.path["run_id"]
    here = run_address(run_id)
    request = CancelRunRequest(run_id=run_id, reason=visit.sent("reason") or None)
    if len(request.reason) > MAX_REASON_CHARS:
        return Redirect(here, _TOO_LONG)
    try:
        answer = await visit.services.call("RunsService/CancelRun", request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code != "already_terminal":
            raise
        return Redirect(here, "Nothing was changed: the run had ended already.")
    ended = formatting.RUN_STATUSES.get(answer.status) in formatting.ENDED
    return Redirect(here, "The run is cancelled." if ended else "The run is being cancelled.")


async def erase(visit: Visit) -> PageResult:
    """Erases the data of a run that has ended."""
    run_id = visit.path["run_id"]
    here = run_address(run_id)
    request = EraseRunDataRequest(run_id=run_id, reason=visit.sent("reason") or None)
    if len(request.reason) > MAX_REASON_CHARS:
        return Redirect(here, _TOO_LONG)
    try:
        await visit.services.call("RunsService/EraseRunData", request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code not in {"run_not_terminal", "already_purged"}:
            raise
        return Redirect(here, f"Nothing was changed: {refusal.message}")
    return Redirect(here, "The data of the run is erased.")
