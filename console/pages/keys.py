"""Pages of API keys: the list, a key, its changes, and the dry run of a call with a key (contract 9.6)."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from console.forms.urlencoded import Problems, check_unchanged, form_hash, invalid, problems_of, whole_number
from console.keys.details import key_details, matches
from console.keys.form import (
    SCOPES_IN_WORDS,
    KeyForm,
    blank_form,
    create_request,
    edit_request,
    form_of,
    typed_form,
)
from console.keys.trial import Verdict, is_start, route_choices, verdicts
from console.keys.usage_counts import calls_today
from console.pages.workflows import every_workflow
from console.paging import all_items
from console.rendering import formatting
from console.rendering.times import now_ms
from console.visit import PageResult, Redirect, UserServices, View, Visit
from contract.call_trials import TrialCall
from contract.fields import EXPIRY_DAYS, OVERLAP_HOURS, SCOPES
from contract.refusals import Refusal
from contract.routes import BASE
from contract.times import duration_of, milliseconds_of
from workflow_api.v1 import keys_pb2, usage_pb2, webhooks_pb2
from workflow_api.v1.deployment_pb2 import GetDeploymentRequest
from workflow_api.v1.keys_pb2 import GetKeyRequest
from workflow_api.v1.options_pb2 import TIME_UNIT_HOURS
from workflow_api.v1.workflows_pb2 import GetWorkflowForKeyRequest, ListWorkflowsRequest, WorkflowStatus

_HOURS: Final = (("", "any"), *((str(hour), f"{hour:02}:00") for hour in range(24)))
_STATES: Final = (("", "any"), *((state, state) for state in ("active", "rotating", "expired", "revoked")))
_PAGE: Final = 100
_LISTED: Final = 50
"""Keys on a page of the list; the last use of each is read by a call of its own."""
# Most concurrent calls of one page, because the backend also serves API callers.
_AT_ONCE: Final = 8
_NOTHING_WRONG: Final[Problems] = {}


async def list_keys(visit: Visit) -> PageResult:
    """Lists a page of the keys that match, newest first, with their calls of today and the time of their last use."""
    asked = visit.query.get("q", "").strip()
    state = visit.query.get("state", "")
    matching, some, token = await _matching(visit, asked.lower(), state)
    few = asyncio.Semaphore(_AT_ONCE)
    now = now_ms()
    today, used = await asyncio.gather(
        calls_today(visit.services, now, [record.key.key_id for record in matching]),
        asyncio.gather(*(_used(visit.services, record, few) for record in matching)),
    )
    rows = [
        (key_details(record, now, used_ms), today[record.key.key_id])
        for record, used_ms in zip(matching, used, strict=True)
    ]
    given = {name: value for name, value in (("q", asked), ("state", state), ("cursor", token)) if value}
    shown = {"rows": rows, "any": some, "asked": asked, "state": state, "states": _STATES}
    return View("keys/list.html", {**shown, "older": f"/keys?{urlencode(given)}" if token else ""})


async def new_key(visit: Visit) -> PageResult:
    """Shows the form of a new key."""
    return await _new(visit, blank_form())


async def create(visit: Visit) -> PageResult:
    """Creates a key; only this response shows its credentials."""
    form = typed_form(visit)
    try:
        credentials = await visit.services.call("KeysService/CreateKey", create_request(form))
    except Refusal as refusal:
        return await _new(visit, form, problems_of(refusal))
    return _issued("The key is made", credentials)


async def show(visit: Visit) -> PageResult:
    """Shows one key and the forms that change it."""
    return await _key_page(visit)


async def edit(visit: Visit) -> PageResult:
    """Changes the properties that differ from the key's."""
    record = await _record(visit)
    try:
        check_unchanged(form_of(record), visit.sent("form_hash"))
    except Refusal as refusal:
        return await _key_page(visit, problems=problems_of(refusal))
    form = typed_form(visit)
    try:
        request = edit_request(record, form)
        if len(request.ListFields()) == 1:
            return Redirect(_path(visit), "Nothing was changed.")
        await visit.services.call("KeysService/UpdateKey", request)
    except Refusal as refusal:
        return await _key_page(visit, form, problems_of(refusal))
    return Redirect(_path(visit), "The key is changed. Callers see it within a minute.")


async def rotate(visit: Visit) -> PageResult:
    """Issues a new secret; only this response shows it."""
    hours = whole_number(visit.sent("overlap_hours"))
    try:
        if hours is None:
            raise invalid({"overlap_hours": "must be a whole number"})
        request = keys_pb2.RotateKeyRequest(key_id=visit.path["key_id"], overlap=duration_of(hours, TIME_UNIT_HOURS))
        credentials = await visit.services.call("KeysService/RotateKey", request)
    except Refusal as refusal:
        return _rotation(await _record(visit), problems_of(refusal))
    return _issued("The key has a new secret", credentials)


async def issue_external_id(visit: Visit) -> PageResult:
    """Issues a new external id; only this response shows it."""
    request = keys_pb2.IssueExternalIdRequest(key_id=visit.path["key_id"])
    try:
        credentials = await visit.services.call("KeysService/IssueExternalId", request)
    except Refusal as refusal:
        return await _key_page(visit, problems=problems_of(refusal))
    return _issued("The key has a new external id", credentials)


async def rotation(visit: Visit) -> PageResult:
    """Shows the two steps of a rotation: a new secret, then the overlap in which both secrets work."""
    record = await _record(visit)
    return _rotation(record, _NOTHING_WRONG)


async def end_overlap(visit: Visit) -> PageResult:
    """Ends the overlap in which both secrets work."""
    request = keys_pb2.EndKeyOverlapRequest(key_id=visit.path["key_id"])
    try:
        await visit.services.call("KeysService/EndKeyOverlap", request)
    except Refusal as refusal:
        return await _key_page(visit, problems=problems_of(refusal))
    return Redirect(_path(visit), "The old secret stops working within two minutes at the latest.")


async def revoke(visit: Visit) -> PageResult:
    """Revokes a key, which is final."""
    request = keys_pb2.RevokeKeyRequest(key_id=visit.path["key_id"])
    await visit.services.call("KeysService/RevokeKey", request)
    return Redirect(_path(visit), "The key is revoked. It stops working within two minutes at the latest.")


async def delete(visit: Visit) -> PageResult:
    """Removes a revoked key from the lists."""
    request = keys_pb2.DeleteKeyRequest(key_id=visit.path["key_id"])
    try:
        await visit.services.call("KeysService/DeleteKey", request)
    except Refusal as refusal:
        return await _key_page(visit, problems=problems_of(refusal))
    return Redirect("/keys", f"The key {request.key_id} is deleted. Its audit trail stays.")


async def _new(visit: Visit, form: KeyForm, problems: Problems = _NOTHING_WRONG) -> View:
    shown = await _form_shown(visit.services, form, problems)
    return View("keys/new.html", shown, status=400 if problems else 200)


async def _key_page(visit: Visit, form: KeyForm | None = None, problems: Problems = _NOTHING_WRONG) -> View:
    record = await _record(visit)
    sheet = key_details(record, now_ms(), await _last_use(visit.services, record.key.key_id))
    shown = await _form_shown(visit.services, form or form_of(record), problems)
    page = {
        "key": sheet,
        "state": record.state,
        "calls": (await calls_today(visit.services, now_ms(), [record.key.key_id]))[record.key.key_id],
        "form_hash": form_hash(form_of(record)),
        "paused_webhooks": await _paused_webhooks(visit.services, record.key.key_id),
    }
    return View("keys/show.html", {**shown, **page}, status=400 if problems else 200)


def _rotation(record: keys_pb2.KeyRecord, problems: Problems) -> View:
    shown = {
        "key": key_details(record, now_ms()),
        "overlaps": [(hours, formatting.overlap(hours)) for hours in OVERLAP_HOURS],
        "problems": problems,
        "elsewhere": {name: why for name, why in problems.items() if name != "overlap_hours"},
    }
    return View("keys/rotate.html", shown, status=400 if problems else 200)


async def _form_shown(services: UserServices, form: KeyForm, problems: Problems) -> Mapping[str, Any]:
    return {
        "form": form,
        "problems": problems,
        "elsewhere": {name: why for name, why in problems.items() if not _is_form_field(name)},
        "scopes": [(text, f"{text}: {SCOPES_IN_WORDS[text]}") for text in SCOPES],
        "workflows": await _workflow_choices(services, form.workflow_ids),
        "hours": _HOURS,
        "expiries": [(days, f"{days} days") for days in EXPIRY_DAYS],
    }


async def _paused_webhooks(services: UserServices, key_id: str) -> list[webhooks_pb2.Webhook]:
    """Returns the webhooks that the service paused; a key has fewer webhooks than a page holds."""
    found = await services.call("WebhooksService/ListWebhooks", webhooks_pb2.ListWebhooksRequest(key_id=key_id))
    return [webhook for webhook in found.items if webhook.paused_reason not in {"", "requested"}]


def _is_form_field(name: str) -> bool:
    return name in KeyForm._fields or name in {"workflow_access", "allowed_hours"}


def _issued(title: str, credentials: keys_pb2.KeyCredentials) -> View:
    return View(
        "keys/issued.html",
        {
            "heading": title,
            "key": key_details(credentials.record, now_ms()),
            "key_value": credentials.key_value if credentials.HasField("key_value") else None,
            "external_id": credentials.external_id if credentials.HasField("external_id") else None,
        },
        once=True,
    )


async def _record(visit: Visit) -> keys_pb2.KeyRecord:
    request = keys_pb2.GetKeyRequest(key_id=visit.path["key_id"])
    record: keys_pb2.KeyRecord = await visit.services.call("KeysService/GetKey", request)
    return record


async def _matching(visit: Visit, text: str, state: str) -> tuple[list[keys_pb2.KeyRecord], bool, str]:
    """Returns the next matching keys, at most two pages, whether any key exists, and the next cursor."""
    found: list[keys_pb2.KeyRecord] = []
    token = visit.query.get("cursor", "")
    some = bool(token)
    while True:
        request = keys_pb2.ListKeysRequest(page_size=_LISTED, page_token=token)
        read = await visit.services.call("KeysService/ListKeys", request)
        some = some or bool(read.items)
        found += [each for each in read.items if matches(each, text) and state in {"", each.state}]
        token = read.next_page_token if read.HasField("next_page_token") else ""
        if not token or len(found) >= _LISTED:
            return found, some, token


async def _used(services: UserServices, record: keys_pb2.KeyRecord, few: asyncio.Semaphore) -> int | None:
    if record.state == "revoked":
        # The list does not show the last use of revoked keys.
        return None
    async with few:
        return await _last_use(services, record.key.key_id)


async def _last_use(services: UserServices, key_id: str) -> int | None:
    request = usage_pb2.ListUsageRecordsRequest(key_id=key_id, page_size=1)
    newest = (await services.call("UsageService/ListUsageRecords", request)).items
    return milliseconds_of(newest[0].at) if newest else None


async def _workflow_choices(services: UserServices, chosen: Sequence[str]) -> list[tuple[str, str]]:
    """Returns every workflow as a choice, and chosen workflows that no longer exist."""
    request = ListWorkflowsRequest(page_size=_PAGE, include_inactive=True)
    choices: dict[str, str] = {}
    for workflow in await all_items(services, "WorkflowsService/ListWorkflows", request):
        status = WorkflowStatus.Name(workflow.status).removeprefix("WORKFLOW_STATUS_").lower()
        label = f"{workflow.name} ({workflow.workflow_id})"
        choices[workflow.workflow_id] = label if status == "active" else f"{label}, {status}"
    return [*choices.items(), *((each, each) for each in chosen if each not in choices)]


def _path(visit: Visit) -> str:
    return f"/keys/{quote(visit.path['key_id'], safe='')}"


_FIELDS: Final = ("address", "at", "route", "workflow_id")
_FORM: Final = "%Y-%m-%dT%H:%M"
_ANY: Final = "x"
_SERVICES_FAIL: Final = 500


async def show_trial(visit: Visit) -> PageResult:
    """Shows the form of a dry run; with a route, also the verdicts of the edge's checks and on the workflow."""
    asked = {name: visit.query.get(name, "").strip() for name in _FIELDS}
    record = await visit.services.call("KeysService/GetKey", GetKeyRequest(key_id=visit.path["key_id"]))
    now = now_ms()
    at_ms, problem = _time(asked["at"], now)
    found: list[Verdict] = []
    if asked["route"] and not problem:
        method, _, template = asked["route"].partition(" ")
        path = BASE + template.replace("{workflow_id}", quote(asked["workflow_id"] or _ANY, safe=""))
        deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
        call = TrialCall(method, path, asked["address"], at_ms)
        found = await verdicts(record, deployment, call, visit.try_call)
        if asked["workflow_id"] and found[-1].passed:
            found.append(await _workflow(visit, asked["workflow_id"], starts=is_start(method, path)))
    shown = {
        "key": key_details(record, now),
        "asked": {**asked, "at": asked["at"] or datetime.fromtimestamp(now / 1000, UTC).strftime(_FORM)},
        "problem": problem,
        "routes": route_choices(),
        "workflows": [("", "none"), *((each.workflow_id, each.name) for each in await every_workflow(visit))],
        "verdicts": found,
    }
    return View("keys/try.html", shown, status=400 if problem else 200)


def _time(text: str, now: int) -> tuple[int, str]:
    """Returns the time of a call, milliseconds in UTC, and the problem of its text."""
    try:
        at = datetime.strptime(text, _FORM).replace(tzinfo=UTC) if text else None
    except ValueError:
        return now, "must be a time such as 2026-09-24T10:15"
    return now if at is None else round(at.timestamp() * 1000), ""


async def _workflow(visit: Visit, workflow_id: str, *, starts: bool) -> Verdict:
    """Returns whether the service gives the key access to a workflow, and for a start whether it is ready."""
    request = GetWorkflowForKeyRequest(workflow_id=workflow_id, key_id=visit.path["key_id"])
    asks = "May the key start the workflow, and is it ready?" if starts else "May the key use the workflow?"
    try:
        workflow = await visit.services.call("WorkflowsService/GetWorkflowForKey", request)
    except Refusal as refusal:
        if refusal.status >= _SERVICES_FAIL:
            raise
        return Verdict(asks, False, refusal.message)
    reasons = " ".join(workflow.readiness.reasons) if starts else ""
    return Verdict(asks, not reasons, reasons)
