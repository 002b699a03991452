"""Page that starts a run of a workflow in the name of the person."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from console.addresses import run_address
from console.pages.run import GONE, missing
from console.rendering import formatting
from console.run.texts import policy_text, reveal_run
from console.start_form import (
    ERASED,
    FOLDER,
    NO_FILES,
    PREFIX,
    ChosenFiles,
    Declared,
    carried_texts,
    chosen_files,
    drop,
    had_uploads,
    has_policy,
    json_of,
    other_texts,
    other_version,
    parameter_texts,
    start_fields,
)
from console.visit import PageResult, Redirect, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.deployment_health_pb2 import GetStartWaitRequest, StartWait
from workflow_api.v1.runs_pb2 import TRIGGERED_BY_CONSOLE, GetRunRequest, Run, StartRunRequest
from workflow_api.v1.workflows_pb2 import (
    BrowseInputsRequest,
    BrowseInputsResponse,
    GetWorkflowDefinitionRequest,
    WorkflowDefinition,
)

_NOT_THERE: Final = frozenset({"workflow_not_found", "version_not_found"})
_SHOWN_ABOVE_FORM: Final = frozenset(
    {
        "workflow_not_active",
        "workflow_not_ready",
        "version_not_found",
        "license_unavailable",
        "invalid_pii_policy",
        "policy_not_tightening",
    }
)
"""Refusals that the page shows above the form, which keeps the typed texts."""
_BEING_STARTED: Final = "The run is being started: send the form once more in a moment."
_STARTED_ALREADY: Final = (
    "This form has started a run before, with other values or files; it is among the runs. Send it once more only to"
    " start another."
)
_OF_ANOTHER: Final = "That run is of another workflow."
_OWN_FIELDS: Final = ("input_text", "client_reference", "labels")
_FIELDS: Final = StartRunRequest.DESCRIPTOR.fields_by_name
_LONGEST_TEXT: Final = rules_of(_FIELDS["input_text"]).max_length
_LONGEST_REFERENCE: Final = rules_of(_FIELDS["client_reference"]).max_length
_MOST_VERSION_DIGITS: Final = 17


class _Form(NamedTuple):
    """Content of the form.

    Attributes:
        definition: Definition of the form's version.
        texts: Texts of parameters' fields, by name.
        own: Texts of the other fields.
        run: The earlier run whose inputs filled the form.
        keeps_policy: Whether the new run takes over the earlier run's PII policy.
        once: Idempotency key, by which a form that is sent twice starts one run.
        files: Files uploaded with the form.
        had_uploads: Whether files were uploaded for the earlier run.
    """

    definition: WorkflowDefinition
    declared: Sequence[Declared]
    texts: Mapping[str, str]
    own: Mapping[str, str]
    run: Run | None
    keeps_policy: bool
    once: str
    files: ChosenFiles = NO_FILES
    had_uploads: bool = False


async def show(visit: Visit) -> PageResult:
    """Shows the form, empty or with the inputs of the run that the query names."""
    opened = await _opened(visit, visit.query.get("run", ""), None, revealed=True)
    if isinstance(opened, View):
        return opened
    run, definition = opened
    declared = _declared(definition)
    if run is None:
        empty = _Form(definition, declared, {}, dict.fromkeys(_OWN_FIELDS, ""), None, False, _new_key())
        return _view(empty, wait=await _wait(visit))
    if run.HasField("data_purged_at"):
        return missing(ERASED)
    texts = parameter_texts(run, declared)
    own = other_texts(run)
    return _view(
        _Form(definition, declared, texts, own, run, has_policy(run), _new_key(), had_uploads=had_uploads(run)),
        wait=await _wait(visit),
    )


async def start(visit: Visit) -> PageResult:
    """Starts a run; shows problems at their fields, with everything that was typed."""
    opened = await _opened(visit, visit.sent("run"), _number(visit.sent("version")))
    if isinstance(opened, View):
        return opened
    form = _sent_form(visit, *opened)
    if visit.form.get("drop"):
        await drop(visit)
    form = form._replace(files=await chosen_files(visit))
    if visit.form.get("take"):
        return await _with_other_version(visit, form)
    if _asks_for_the_form(visit):
        return _view(form, browsed=await _browsed(visit, form.definition, visit.sent("browse")))
    parameters, wrong = json_of(form.declared, form.texts)
    labels, wrong_labels = _labels(form.own["labels"])
    problems = {PREFIX + name: problem for name, problem in wrong.items()} | wrong_labels
    if problems or form.files.problems:
        return _view(form, problems=problems, status=400)
    request = StartRunRequest(
        workflow_id=form.definition.workflow.workflow_id,
        version=form.definition.version,
        idempotency_key=form.once,
        parameters=parameters,
        input_text=form.own["input_text"] or None,
        client_reference=form.own["client_reference"].strip() or None,
        labels=labels,
        triggered_by=TRIGGERED_BY_CONSOLE,
        pii_policy_override=policy_text(form.run.pii_policy) if form.run and form.keeps_policy else None,
        # A repeated form names an upload that its run has taken; its idempotency key leads to that run.
        upload_id=form.files.taken or (form.files.upload_id if form.files.all else ""),
    )
    try:
        started = await visit.services.call("RunsService/StartRun", request)
    except Refusal as refusal:
        problems, above = _problems_of(refusal)
        if form.files.taken:
            problems.pop("upload_id", None)
        # An undecided start is repeated unchanged; a corrected form needs a new key.
        once = form.once if refusal.retry_after else _new_key()
        return _view(form._replace(once=once), problems=problems, above=above, status=400)
    return Redirect(run_address(started.run.summary.run_id), "The run has started.")


def _asks_for_the_form(visit: Visit) -> bool:
    """Returns whether the pressed button only changes the form."""
    return any(visit.form.get(name) for name in ("use", "browse", "attach", "drop"))


async def _wait(visit: Visit) -> str:
    """Says how long the run will probably wait; empty for a short wait, and where no backend can tell."""
    try:
        wait: StartWait = await visit.services.call("DeploymentHealthService/GetStartWait", GetStartWaitRequest())
    except Refusal:
        return ""
    return formatting.start_wait(
        wait.probable if wait.HasField("probable") else None, wait.oldest if wait.HasField("oldest") else None
    )


def _new_key() -> str:
    return f"console-{uuid4().hex}"


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_VERSION_DIGITS else None


def _typed(visit: Visit, name: str) -> str:
    """Returns a field as typed, with blanks at its ends."""
    values = visit.form.get(name, ())
    return values[0] if values else ""


def _declared(definition: WorkflowDefinition) -> Sequence[Declared]:
    declared: Sequence[Declared] = json.loads(definition.definition).get("parameters") or ()
    return declared


def _sent_form(visit: Visit, run: Run | None, definition: WorkflowDefinition) -> _Form:
    declared = _declared(definition)
    texts = {each["name"]: _typed(visit, PREFIX + each["name"]) for each in declared}
    for name, uri in (each.split(" ", 1) for each in visit.form.get("use", ()) if " " in each):
        if name in texts:
            texts[name] = uri
    keeps_policy = run is not None and has_policy(run) and visit.sent("keeps_policy") == "yes"
    own = {name: _typed(visit, name) for name in _OWN_FIELDS}
    once = visit.sent("once") or _new_key()
    uploads = visit.sent("had_uploads") == "yes"
    return _Form(definition, declared, texts, own, run, keeps_policy, once, had_uploads=uploads)


async def _with_other_version(visit: Visit, form: _Form) -> View:
    """Returns the form of another version with the typed texts; its further parameters are filled from the run."""
    opened = await _opened(visit, visit.sent("run"), _number(visit.sent("take")), revealed=True)
    if isinstance(opened, View):
        return opened
    run, definition = opened
    declared = _declared(definition)
    texts = parameter_texts(run, declared) if run is not None else {}
    texts |= carried_texts(form.declared, declared, form.texts)
    return _view(form._replace(definition=definition, declared=declared, texts=texts))


async def _opened(
    visit: Visit, run_id: str, version: int | None, *, revealed: bool = False
) -> tuple[Run | None, WorkflowDefinition] | View:
    """Returns the earlier run, if any, and the definition for the form; or the page that reports a missing one.

    `version` defaults to the earlier run's, else the active one. A `revealed` run has its inputs as given.
    """
    run: Run | None = None
    if run_id:
        try:
            if revealed:
                run = await reveal_run(visit.services, run_id)
            else:
                run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
        except Refusal as refusal:
            if refusal.code not in {*GONE, "invalid_request"}:
                raise
            return missing(refusal.message)
    if run is not None and version is None:
        version = run.summary.version
    request = GetWorkflowDefinitionRequest(workflow=visit.path["workflow_id"], version=version)
    try:
        definition: WorkflowDefinition = await visit.services.call("WorkflowsService/GetWorkflowDefinition", request)
    except Refusal as refusal:
        if refusal.code not in _NOT_THERE:
            raise
        return View("workflows/missing.html", {"message": refusal.message}, status=404)
    if run is not None and run.summary.workflow_id != definition.workflow.workflow_id:
        return missing(_OF_ANOTHER)
    return run, definition


async def _browsed(visit: Visit, definition: WorkflowDefinition, asked: str) -> Mapping[str, Any] | None:
    """Returns the listing at the S3 address that a pressed button names with its parameter; None without one."""
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
    """Returns the labels in lines `name=value`, and the field's problem if a line has another form."""
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
    """Returns the problems of fields, and the message above the form."""
    if refusal.code == "idempotency_conflict":
        return {}, _BEING_STARTED if refusal.retry_after else _STARTED_ALREADY
    if refusal.code in _SHOWN_ABOVE_FORM:
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
    form: _Form,
    *,
    problems: Mapping[str, str] = {},
    above: str = "",
    wait: str = "",
    browsed: Mapping[str, Any] | None = None,
    status: int = 200,
) -> View:
    of_parameters = {name.removeprefix(PREFIX): text for name, text in problems.items() if name.startswith(PREFIX)}
    fields = start_fields(form.declared, form.texts, of_parameters)
    shown = {*of_parameters} & {field.name for field in fields}
    others = [f"{name.removeprefix(PREFIX)} {text}" for name, text in problems.items()]
    known = {PREFIX + name for name in shown} | set(_OWN_FIELDS)
    left = [line for name, line in zip(problems, others, strict=True) if name not in known]
    workflow, version, run = form.definition.workflow, form.definition.version, form.run
    # Readiness is known of the active version alone; the service judges another version at the start.
    reasons = workflow.readiness.reasons if version == workflow.version else ()
    context = {
        "workflow": workflow,
        "version": version,
        "reasons": reasons,
        "run": run,
        "other_version": other_version(run, version, workflow.version) if run else None,
        "has_policy": run is not None and has_policy(run),
        "form": form,
        "fields": fields,
        "own": form.own,
        "files": form.files.with_expiry_problem,
        "takes_uploads": all(field.name != FOLDER or field.kind != "s3_prefix" for field in fields),
        "problems": {**dict.fromkeys(_OWN_FIELDS, ""), **problems},
        "wait": wait,
        "above": " ".join(filter(None, [above, *left])),
        "browsed": browsed,
        "longest_text": _LONGEST_TEXT,
        "longest_reference": _LONGEST_REFERENCE,
        "prefix": PREFIX,
    }
    return View("workflows/start.html", context, status=status)
