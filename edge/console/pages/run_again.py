"""Starts a run again, with the same inputs or with edited ones."""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from edge.codec.response import object_of
from edge.console import formatting
from edge.console.pages.run import GONE, missing, path_of
from edge.console.visit import ADMINISTRATORS, Answered, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF, PiiPolicy
from workflow_api.v1.runs_pb2 import TRIGGERED_BY_CONSOLE, GetRunRequest, Run, StartRunRequest

_POLICY_OBJECT: Final = object_of(PiiPolicy.DESCRIPTOR, raw=orjson.Fragment, links=orjson.Fragment)
_MOST_FORM_STATUS: Final = 500
_ERASED: Final = "The data of this run is erased, so there are no inputs to start it with again."


class _Form(NamedTuple):
    """What the form holds; labels are lines `name=value`."""

    parameters: str
    input_text: str
    client_reference: str
    labels: str
    version: str
    keeps_policy: bool
    idempotency_key: str


async def show(visit: Visit) -> Answered:
    """Shows the form with the inputs of a run."""
    try:
        run = await _run(visit)
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    if run.HasField("data_purged_at"):
        return missing(_ERASED)
    labels = "\n".join(f"{name}={value}" for name, value in sorted(run.summary.labels.items()))
    form = _Form(
        parameters=formatting.json_lines(run.parameters or "{}"),
        input_text=run.input_text,
        client_reference=run.summary.client_reference,
        labels=labels,
        version=str(run.summary.version),
        keeps_policy=_has_policy(run),
        idempotency_key=f"console-{secrets.token_hex(16)}",
    )
    return _view(run, form)


async def start(visit: Visit) -> Answered:
    """Starts the run; what the service refuses is shown with the form."""
    form = _Form(
        parameters=visit.sent("parameters"),
        # As it is: blanks around a text may matter.
        input_text=next(iter(visit.form.get("input_text", ())), "").replace("\r\n", "\n"),
        client_reference=visit.sent("client_reference"),
        labels=visit.sent("labels"),
        version=visit.sent("version"),
        keeps_policy=visit.sent("keeps_policy") == "yes",
        idempotency_key=visit.sent("idempotency_key"),
    )
    try:
        run = await _run(visit)
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    problems = _problems(form)
    if problems:
        return _view(run, form, problems)
    try:
        answer = await visit.services.call("RunsService/StartRun", _request(run, form))
    except Refusal as refusal:
        if refusal.status >= _MOST_FORM_STATUS:
            raise
        return _view(run, form, _problems_of(refusal))
    return Redirect(path_of(answer.run.summary.run_id), "The run is started.")


async def _run(visit: Visit) -> Run:
    run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=visit.path["run_id"]))
    return run


def _request(run: Run, form: _Form) -> StartRunRequest:
    request = StartRunRequest(
        workflow_id=run.summary.workflow_id,
        idempotency_key=form.idempotency_key,
        parameters=form.parameters or "{}",
        input_text=form.input_text or None,
        client_reference=form.client_reference or None,
        labels=_labels(form),
        version=int(form.version) if form.version else None,
        triggered_by=TRIGGERED_BY_CONSOLE,
    )
    if form.keeps_policy and _has_policy(run):
        request.pii_policy_override = orjson.dumps(_POLICY_OBJECT(run.pii_policy)).decode()
    return request


def _problems(form: _Form) -> dict[str, str]:
    """Returns what cannot be read of the form, by field."""
    found: dict[str, str] = {}
    try:
        if not isinstance(json.loads(form.parameters or "{}"), dict):
            found["parameters"] = "must be a JSON object"
    except json.JSONDecodeError as error:
        found["parameters"] = f"is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        found["parameters"] = "is no JSON that can be read"
    if any(line.strip() and "=" not in line for line in form.labels.splitlines()):
        found["labels"] = "must have a line name=value for each label"
    if form.version and not (form.version.isascii() and form.version.isdigit() and len(form.version) <= 18):
        found["version"] = "must be a whole number from 1"
    return found


def _problems_of(refusal: Refusal) -> dict[str, str]:
    """Returns the problems that a service found, by field, or its message alone."""
    found: dict[str, str] = {}
    details = refusal.details if isinstance(refusal.details, list) else ()
    for problem in details:
        name = str(problem.get("name", ""))
        field = name if name in _Form._fields else "parameters"
        said = str(problem.get("reason", "")) if field == name else f"{name} {problem.get('reason', '')}"
        found[field] = "; ".join(part for part in (found.get(field, ""), said) if part)
    return found or {"": refusal.message}


def _labels(form: _Form) -> dict[str, str]:
    pairs = (line.partition("=") for line in form.labels.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _has_policy(run: Run) -> bool:
    return run.HasField("pii_policy") and run.pii_policy.mode != PII_MODE_OFF


def _view(run: Run, form: _Form, problems: Mapping[str, str] | None = None) -> View:
    context: dict[str, Any] = {
        "run": run,
        "here": path_of(run.summary.run_id),
        "form": form,
        "problems": problems or {},
        "has_policy": _has_policy(run),
        "versions": [(str(run.summary.version), f"version {run.summary.version}, as that run"), ("", "the active one")],
    }
    return View("runs/again.html", context, status=400 if problems else 200)


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/runs/{run_id}/again", ADMINISTRATORS, show),
    Page("POST", "/runs/{run_id}/again", ADMINISTRATORS, start),
)
