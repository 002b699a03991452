"""Pages of the deployment record: API switches, licence, and retention of each kind of data."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from console.forms.urlencoded import Problems, check_unchanged, form_hash, invalid, problems_of, whole_number
from console.rendering import formatting
from console.rendering.times import DAY_MS
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from contract.times import count_of, duration_of, milliseconds_of
from workflow_api.v1.deployment_health_pb2 import (
    GetRetentionRequest,
    ListWorkflowSizesRequest,
    ListWorkflowSizesResponse,
    Retention,
    RetentionSchedule,
)
from workflow_api.v1.deployment_pb2 import Deployment, GetDeploymentRequest, UpdateDeploymentRequest
from workflow_api.v1.options_pb2 import TIME_UNIT_DAYS

LICENCE_STATES: Final = (("active", "Active"), ("hold", "On hold: the runtime refuses work"))

_NO_PROBLEMS: Final[Problems] = {}

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "runs_erased": (
        "Data of finished runs",
        "Inputs, results, events, logs and outputs; the run itself stays, with its status and times.",
    ),
    "idempotency_records": (
        "Idempotency keys",
        "A start repeated with its key within that time is answered as before.",
    ),
    "usage_records": ("Single calls", "What the usage pages list as the newest calls and refusals."),
    "usage_batches": ("Received reports of calls", "By which an edge that reports calls again counts them once."),
    "usage_hours": ("Counts of calls by the hour", "What the charts of usage are made of."),
    "model_usage": ("Use of models by attempts", "What the page of a run's use of models lists by step."),
    "model_usage_days": ("Use of models by the day", "What the pages of the use of models add up."),
    "audit_records": ("Audit trail", "Who did what and when."),
    "sessions": ("Sessions of people", "After that everybody signs in again."),
    "sign_in_tries": ("Failed sign-ins", "What guesses of passwords are counted by."),
    "agent_sources": ("Code of agents", "That no version of a workflow, nor the newest of an agent, uses."),
    "environment_locks": (
        "Locks of packages",
        "That no version of a workflow, nor the newest of an environment, uses.",
    ),
    "deleted_definitions": (
        "Deleted workflows and resources",
        "Of which no run, no version of a workflow and nothing published names a version.",
    ),
    "step_log_parts": ("Parts of logs", "That the stored log of a step has replaced."),
    "webhook_deliveries": ("Deliveries to webhooks", "With what is still to be delivered."),
    "notifications": ("Notifications of operators", "With what is still to be sent."),
}


class DeploymentForm(NamedTuple):
    """Values of the form's fields."""

    governed: bool
    api_enabled: bool
    licence_state: str
    licence_reason: str
    retention_days: str


async def show(visit: Visit) -> PageResult:
    """Shows the record and the form that changes it."""
    record = await _record(visit)
    return _view(visit, record, _form_of(record))


async def change(visit: Visit) -> PageResult:
    """Changes the fields that differ from the record."""
    record = await _record(visit)
    form = DeploymentForm(
        governed=bool(visit.sent("governed")),
        api_enabled=bool(visit.sent("api_enabled")),
        licence_state=visit.sent("licence_state"),
        licence_reason=visit.sent("licence_reason"),
        retention_days=visit.sent("retention_days"),
    )
    try:
        check_unchanged(_form_of(record), visit.sent("form_hash"))
    except Refusal as refusal:
        return _view(visit, record, _form_of(record), problems_of(refusal))
    try:
        changes = _changes(_form_of(record), form)
        if not changes:
            return Redirect("/deployment", "Nothing was changed.")
        await visit.services.call("DeploymentService/UpdateDeployment", UpdateDeploymentRequest(**changes))
    except Refusal as refusal:
        return _view(visit, record, form, problems_of(refusal))
    return Redirect("/deployment", "The deployment is changed. Callers see it within a minute.")


async def show_retention(visit: Visit) -> PageResult:
    """Shows the retention time of every kind of data, and what the runs of a page of workflows take, if known."""
    found: Retention = await visit.services.call("DeploymentHealthService/GetRetention", GetRetentionRequest())
    sizes = await _sizes(visit)
    rows = [(each, *_KINDS.get(each.name, (each.name, "")), _span(each)) for each in found.schedules]
    later = ""
    if sizes is not None and sizes.HasField("next_page_token"):
        later = f"/deployment/retention?{urlencode({'cursor': sizes.next_page_token})}#sizes"
    context = {"rows": rows, "retention": found, "sizes": None if sizes is None else sizes.items, "later": later}
    return View("deployment/retention.html", context)


async def _sizes(visit: Visit) -> ListWorkflowSizesResponse | None:
    """Returns the sizes of a page of workflows; None if they take too long, or the backend does not know the call."""
    request = ListWorkflowSizesRequest(page_token=visit.query.get("cursor", ""))
    try:
        sizes: ListWorkflowSizesResponse = await visit.services.call(
            "DeploymentHealthService/ListWorkflowSizes", request
        )
    except Refusal as refusal:
        if refusal.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        return None
    return sizes


def _changes(present: DeploymentForm, wanted: DeploymentForm) -> Mapping[str, Any]:
    changed = {name: value for name, value in wanted._asdict().items() if value != getattr(present, name)}
    if "retention_days" in changed:
        del changed["retention_days"]
        days = whole_number(wanted.retention_days)
        if days is None:
            raise invalid({"retention_days": "must be a whole number"})
        changed["retention"] = duration_of(days, TIME_UNIT_DAYS)
    return changed


def _form_of(record: Deployment) -> DeploymentForm:
    return DeploymentForm(
        governed=record.governed,
        api_enabled=record.api_enabled,
        licence_state=record.licence.state,
        licence_reason=record.licence.reason,
        retention_days=str(count_of(record.retention, TIME_UNIT_DAYS)),
    )


def _view(visit: Visit, record: Deployment, form: DeploymentForm, problems: Problems = _NO_PROBLEMS) -> View:
    context = {
        "deployment": record,
        "can_change": visit.may("DeploymentService/UpdateDeployment"),
        "form": form,
        "form_hash": form_hash(_form_of(record)),
        "problems": problems,
        "elsewhere": {name: why for name, why in problems.items() if name not in DeploymentForm._fields},
        "licence_states": LICENCE_STATES,
    }
    return View("deployment/show.html", context, status=400 if problems else 200)


async def _record(visit: Visit) -> Deployment:
    record: Deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
    return record


def _span(schedule: RetentionSchedule) -> str:
    kept = milliseconds_of(schedule.kept)
    if kept % DAY_MS:
        return formatting.duration(kept)
    return "1 day" if kept == DAY_MS else f"{kept // DAY_MS:,} days"
