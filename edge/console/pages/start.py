"""The page that starts a run of a workflow in the name of the person."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from contract.fields import rules_of
from edge.console import formatting
from edge.console.start_form import PREFIX, Declared, initial_texts, json_of, start_fields
from edge.console.visit import ADMINISTRATORS, Answered, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.runs_pb2 import TRIGGERED_BY_CONSOLE, GetRunRequest, Run, StartRunRequest
from workflow_api.v1.workflows_pb2 import (
    BrowseInputsRequest,
    BrowseInputsResponse,
    GetWorkflowDefinitionRequest,
    WorkflowDefinition,
)

_NOT_THERE: Final = frozenset({"workflow_not_found", "version_not_found"})
_ABOVE: Final = frozenset(
    {
        "idempotency_conflict",
        "workflow_not_active",
        "workflow_not_ready",
        "version_not_found",
        "license_unavailable",
        "invalid_pii_policy",
        "policy_not_tightening",
    }
)
"""Refusals that the page shows above the form, with what was typed kept."""
_OWN: Final = ("input_text", "client_reference", "labels")
_FIELDS: Final = StartRunRequest.DESCRIPTOR.fields_by_name
_LONGEST_TEXT: Final = rules_of(_FIELDS["input_text"]).max_length
_LONGEST_REFERENCE: Final = rules_of(_FIELDS["client_reference"]).max_length


async def show(visit: Visit) -> Answered:
    """Shows the form, empty or with the inputs of the run that the address names."""
    definition = await _definition(visit, None)
    if isinstance(definition, View):
        return definition
    declared = _declared(definition)
    texts: dict[str, str] = {}
    own = dict.fromkeys(_OWN, "")
    if visit.query.get("run"):
        run = await _run(visit, visit.query["run"])
        if run is not None and run.summary.workflow_id == definition.workflow.workflow_id:
            texts = initial_texts(declared, json.loads(run.parameters or "{}"))
            labels = "\n".join(f"{name}={value}" for name, value in sorted(run.summary.labels.items()))
            own = {"input_text": run.input_text, "client_reference": run.summary.client_reference, "labels": labels}
    return _view(definition, declared, texts, own)


async def start(visit: Visit) -> Answered:
    """Starts a run; what cannot be is shown at its field, with everything that was typed."""
    version = visit.sent("version")
    definition = await _definition(visit, int(version) if version.isdecimal() and len(version) < 18 else None)
    if isinstance(definition, View):
        return definition
    declared = _declared(definition)
    texts = {each["name"]: _typed(visit, PREFIX + each["name"]) for each in declared}
    own = {name: _typed(visit, name) for name in _OWN}
    for name, uri in (each.split(" ", 1) for each in visit.form.get("use", ()) if " " in each):
        if name in texts:
            texts[name] = uri
    if visit.form.get("use") or visit.form.get("browse"):
        browsed = await _browsed(visit, definition, visit.sent("browse"))
        return _view(definition, declared, texts, own, browsed=browsed)
    parameters, wrong = json_of(declared, texts)
    labels, wrong_labels = _labels(own["labels"])
    problems = {PREFIX + name: problem for name, problem in wrong.items()} | wrong_labels
    above = ""
    if not problems:
        request = StartRunRequest(
            workflow_id=definition.workflow.workflow_id,
            version=definition.version,
            idempotency_key=visit.sent("once") or uuid4().hex,
            parameters=parameters,
            input_text=own["input_text"] or None,
            client_reference=own["client_reference"].strip() or None,
            labels=labels,
            triggered_by=TRIGGERED_BY_CONSOLE,
        )
        try:
            started = await visit.services.call("RunsService/StartRun", request)
        except Refusal as refusal:
            problems, above = _problems_of(refusal)
        else:
            return Redirect(f"/runs/{quote(started.run.summary.run_id, safe='')}", "The run has started.")
    return _view(definition, declared, texts, own, problems=problems, above=above, status=400)


def _typed(visit: Visit, name: str) -> str:
    values = visit.form.get(name, ())
    return values[0] if values else ""


def _declared(definition: WorkflowDefinition) -> Sequence[Declared]:
    declared: Sequence[Declared] = json.loads(definition.definition).get("parameters") or ()
    return declared


async def _definition(visit: Visit, version: int | None) -> WorkflowDefinition | View:
    """Returns the version that the form is for, the active one by default; or the page that says why there is none."""
    request = GetWorkflowDefinitionRequest(workflow=visit.path["workflow_id"], version=version)
    try:
        answer: WorkflowDefinition = await visit.services.call("WorkflowsService/GetWorkflowDefinition", request)
    except Refusal as refusal:
        if refusal.code not in _NOT_THERE:
            raise
        return View("workflows/missing.html", {"message": refusal.message}, status=404)
    return answer


async def _run(visit: Visit, run_id: str) -> Run | None:
    try:
        run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
    except Refusal as refusal:
        if refusal.code not in {"run_not_found", "invalid_request"}:
            raise
        return None
    return run


async def _browsed(visit: Visit, definition: WorkflowDefinition, asked: str) -> Mapping[str, Any] | None:
    """Returns what there is at the place that a button names as parameter and address; None where none was pressed."""
    if not asked:
        return None
    parameter, _, uri = asked.partition(" ")
    request = BrowseInputsRequest(
        workflow_id=definition.workflow.workflow_id, version=definition.version, parameter=parameter, uri=uri
    )
    try:
        found: BrowseInputsResponse = await visit.services.call("WorkflowsService/BrowseInputs", request)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        found = BrowseInputsResponse(problem=refusal.message)
    return {
        "parameter": parameter,
        "uri": uri,
        "found": found,
        "objects": [(each, formatting.size(each.size_bytes)) for each in found.objects],
    }


def _labels(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the labels of lines as `name=value`, and the problem of the field if a line is none."""
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not name.strip():
            return {}, {"labels": f"Line {number} must be of the form name=value."}
        labels[name.strip()] = value.strip()
    return labels, {}


def _problems_of(refusal: Refusal) -> tuple[dict[str, str], str]:
    """Returns the problems of fields, and what is to be said above the form."""
    if refusal.code in _ABOVE:
        reasons = refusal.details.get("reasons", ()) if isinstance(refusal.details, dict) else ()
        return {}, " ".join([refusal.message, *map(str, reasons)])
    if refusal.code not in {"invalid_parameters", "invalid_request"} or not isinstance(refusal.details, list):
        raise refusal
    of_parameters = refusal.code == "invalid_parameters"
    problems: dict[str, str] = {}
    for each in refusal.details:
        name = PREFIX + each["name"] if of_parameters else each["name"].partition(".")[0]
        problems[name] = "; ".join(filter(None, [problems.get(name, ""), each["reason"]]))
    return problems, "" if problems else refusal.message


def _view(
    definition: WorkflowDefinition,
    declared: Sequence[Declared],
    texts: Mapping[str, str],
    own: Mapping[str, str],
    *,
    problems: Mapping[str, str] = {},
    above: str = "",
    browsed: Mapping[str, Any] | None = None,
    status: int = 200,
) -> View:
    of_parameters = {name.removeprefix(PREFIX): text for name, text in problems.items() if name.startswith(PREFIX)}
    fields = start_fields(declared, texts, of_parameters)
    shown = {*of_parameters} & {field.name for field in fields}
    others = [f"{name.removeprefix(PREFIX)} {text}" for name, text in problems.items()]
    known = {PREFIX + name for name in shown} | set(_OWN)
    left = [line for name, line in zip(problems, others, strict=True) if name not in known]
    context = {
        "workflow": definition.workflow,
        "version": definition.version,
        "fields": fields,
        "own": own,
        "problems": {**dict.fromkeys(_OWN, ""), **problems},
        "above": " ".join(filter(None, [above, *left])),
        "browsed": browsed,
        "once": uuid4().hex,
        "longest_text": _LONGEST_TEXT,
        "longest_reference": _LONGEST_REFERENCE,
        "prefix": PREFIX,
    }
    return View("workflows/start.html", context, status=status)


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/workflows/{workflow_id}/start", ADMINISTRATORS, show),
    Page("POST", "/workflows/{workflow_id}/start", ADMINISTRATORS, start),
)
