"""The form of a key's properties: its fields, and the requests made from them."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from google.protobuf.duration_pb2 import Duration

from console.forms.urlencoded import invalid, whole_number
from console.rendering.times import DAY_MS
from console.visit import Visit
from contract.fields import PRIORITIES, PRIORITY_SPELLINGS, SCOPE_SPELLINGS, SCOPES, default_value
from contract.times import duration_of, milliseconds_of
from workflow_api.v1.keys_pb2 import (
    AllowedHours,
    CreateKeyRequest,
    KeyPriority,
    KeyRecord,
    ScopeList,
    SourceAllowList,
    UpdateKeyRequest,
    WorkflowAccess,
)
from workflow_api.v1.options_pb2 import TIME_UNIT_DAYS, Scope

ALL: Final = "all"
LISTED: Final = "listed"

REPEATED_FIELDS: Final = frozenset({"scopes", "workflow_ids"})
"""Fields of the form that have several values."""

_NUMBERS: Final = ("expires_days", "rate_limit_rpm", "daily_run_quota", "max_concurrent_runs")
_COST: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_FIELDS: Final = {"expires_days": "lifetime"}
"""Request fields by form fields of another name."""


SCOPES_IN_WORDS: Final = {
    "workflows:read": "see workflows and their parameters",
    "runs:create": "start and cancel runs",
    "runs:read": "see runs, steps, events and approvals",
    "outputs:read": "fetch results and files",
    "runs:delete": "erase the data of ended runs, for good",
}
"""Explanations of scopes in the form of a key, by scope."""


class KeyForm(NamedTuple):
    """Values of the form's fields, as typed."""

    name: str
    description: str
    scopes: Sequence[str]
    workflows: str
    workflow_ids: Sequence[str]
    source_allow_list: str
    start_hour: str
    end_hour: str
    expires_days: str
    rate_limit_rpm: str
    daily_run_quota: str
    max_concurrent_runs: str
    daily_tokens: str
    daily_cost: str
    priority: str


class Properties(NamedTuple):
    """The values of the form as messages of the services."""

    name: str
    description: str
    scopes: Sequence[Scope.ValueType]
    workflow_access: WorkflowAccess
    source_allow_list: Sequence[str]
    allowed_hours: AllowedHours | None
    lifetime: Duration
    rate_limit_rpm: int
    daily_run_quota: int
    max_concurrent_runs: int
    daily_tokens: int | None
    daily_cost_microusd: int | None
    priority: KeyPriority.ValueType


def blank_form() -> KeyForm:
    """Returns the form of a new key, with the defaults of the contract."""
    fields = CreateKeyRequest.DESCRIPTOR.fields_by_name
    defaults = {name: str(default_value(fields[_FIELDS.get(name, name)])) for name in _NUMBERS}
    return KeyForm("", "", (), "", (), "", "", "", **defaults, daily_tokens="", daily_cost="", priority="normal")


def typed_form(visit: Visit) -> KeyForm:
    """Returns the form as it was submitted."""
    typed: dict[str, Any] = {name: visit.sent(name) for name in KeyForm._fields}
    typed |= {name: visit.form.get(name, ()) for name in REPEATED_FIELDS}
    return KeyForm(**typed)


def form_of(record: KeyRecord) -> KeyForm:
    """Returns the form with the current values of a key."""
    key = record.key
    hours = record.allowed_hours if record.HasField("allowed_hours") else None
    return KeyForm(
        name=key.name,
        description=record.description,
        scopes=[SCOPE_SPELLINGS[scope] for scope in key.scopes],
        workflows=LISTED if key.workflow_access.mode == WorkflowAccess.MODE_EXPLICIT else ALL,
        workflow_ids=list(key.workflow_access.workflow_ids),
        source_allow_list="\n".join(record.source_allow_list),
        start_hour="" if hours is None else str(hours.start_hour),
        end_hour="" if hours is None else str(hours.end_hour),
        expires_days=str(_days(record)),
        rate_limit_rpm=str(key.rate_limit_rpm),
        daily_run_quota=str(key.daily_run_quota),
        max_concurrent_runs=str(key.max_concurrent_runs),
        daily_tokens=str(record.daily_tokens) if record.HasField("daily_tokens") else "",
        daily_cost=_dollars(record.daily_cost_microusd) if record.HasField("daily_cost_microusd") else "",
        priority=PRIORITY_SPELLINGS[record.priority] or "normal",
    )


def create_request(form: KeyForm) -> CreateKeyRequest:
    """Returns the request to create the key that the form describes.

    Raises:
        Refusal: `invalid_request` where a field cannot be read; the backend checks the values.
    """
    return CreateKeyRequest(**read(form)._asdict())


def edit_request(record: KeyRecord, form: KeyForm) -> UpdateKeyRequest:
    """Returns the request that changes a key to the form's values, with only the fields that differ.

    Raises:
        Refusal: As `create_request`.
    """
    wanted = read(form)
    present = read(form_of(record))
    changed: dict[str, Any] = {
        name: value for name, value in wanted._asdict().items() if value != getattr(present, name)
    }
    if "scopes" in changed:
        changed["scopes"] = ScopeList(scopes=wanted.scopes)
    if "source_allow_list" in changed:
        changed["source_allow_list"] = SourceAllowList(ranges=wanted.source_allow_list)
    if "allowed_hours" in changed and wanted.allowed_hours is None:
        changed["clear_allowed_hours"] = True
    for name in ("daily_tokens", "daily_cost_microusd"):
        if changed.get(name, 0) is None:
            changed[f"clear_{name}"] = True
    return UpdateKeyRequest(key_id=record.key.key_id, **changed)


def read(form: KeyForm) -> Properties:
    """Returns the properties that a form describes.

    Raises:
        Refusal: As `create_request`.
    """
    typed = {name: whole_number(getattr(form, name)) for name in _NUMBERS}
    numbers = {name: number for name, number in typed.items() if number is not None}
    problems = {name: "must be a whole number" for name in _NUMBERS if name not in numbers}
    unknown = [text for text in form.scopes if text not in SCOPES]
    if unknown:
        problems["scopes"] = f"must be among: {', '.join(SCOPES)}"
    if form.workflows not in {ALL, LISTED}:
        problems["workflow_access"] = "must be chosen: all workflows, or only these"
    if form.workflows == ALL and form.workflow_ids:
        problems["workflow_access"] = "must be only these while any is ticked below"
    if form.workflows == LISTED and not form.workflow_ids:
        problems["workflow_access"] = "must be all workflows while none is ticked below"
    hours = _hours(form, problems)
    tokens = whole_number(form.daily_tokens) if form.daily_tokens else None
    if form.daily_tokens and tokens is None:
        problems["daily_tokens"] = "must be a whole number, or nothing for no limit"
    if form.daily_cost and not _COST.fullmatch(form.daily_cost):
        problems["daily_cost_microusd"] = "must be US dollars with at most 6 decimals, or nothing for no limit"
    # A form of an earlier release has no such field.
    priority = PRIORITIES.get(form.priority or "normal")
    if priority is None:
        problems["priority"] = f"must be among: {', '.join(PRIORITIES)}"
    if problems or priority is None:
        raise invalid(problems)
    days = numbers.pop("expires_days")
    listed = form.workflows == LISTED
    mode = WorkflowAccess.MODE_EXPLICIT if listed else WorkflowAccess.MODE_ALL_ACTIVE
    return Properties(
        name=form.name,
        description=form.description,
        scopes=sorted({SCOPES[text] for text in form.scopes}),
        workflow_access=WorkflowAccess(mode=mode, workflow_ids=form.workflow_ids if listed else ()),
        source_allow_list=[line.strip() for line in form.source_allow_list.splitlines() if line.strip()],
        allowed_hours=hours,
        lifetime=duration_of(days, TIME_UNIT_DAYS),
        **numbers,
        daily_tokens=tokens,
        daily_cost_microusd=int(Decimal(form.daily_cost).scaleb(6)) if form.daily_cost else None,
        priority=priority,
    )


def _dollars(microusd: int) -> str:
    """Returns an amount as the form takes it: `2.5`."""
    return f"{Decimal(microusd).scaleb(-6).normalize():f}"


def _hours(form: KeyForm, problems: dict[str, str]) -> AllowedHours | None:
    if not form.start_hour and not form.end_hour:
        return None
    start, end = whole_number(form.start_hour), whole_number(form.end_hour)
    if start is None or end is None:
        problems["allowed_hours"] = "must have both hours from 0 to 23, or neither"
        return None
    return AllowedHours(start_hour=start, end_hour=end)


def _days(record: KeyRecord) -> int:
    return (milliseconds_of(record.key.expires_at) - milliseconds_of(record.created_at)) // DAY_MS
