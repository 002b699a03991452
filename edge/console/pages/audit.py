"""The page of the audit trail."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson

from contract.times import milliseconds_of, to_timestamp
from edge.console.problems import Problems, invalid, problems_of
from edge.console.times import DAY_MS, start_of_day
from edge.console.visit import ADMINISTRATORS, Answered, Page, View, Visit
from edge.errors import Refusal
from workflow_api.v1.audit_pb2 import AuditRecord, ListAuditRecordsRequest

SIZES: Final = ("50", "100", "200")

_FIELDS: Final = ("target", "from", "to", "size")
_TOO_LONG: Final = "must be less than 90 days before the end of the last day, or now where none is given"


class AuditRow(NamedTuple):
    """One audit record, with its details as text."""

    at_ms: int
    actor: str
    action: str
    target: str
    details: Mapping[str, str]


async def show(visit: Visit) -> Answered:
    """Shows a page of audit records, newest first."""
    asked = {name: visit.query.get(name, "").strip() for name in _FIELDS}
    try:
        request = _request(asked, visit.query.get("cursor", ""))
        answer = await visit.services.call("AuditService/ListAuditRecords", request)
    except Refusal as refusal:
        found = problems_of(refusal)
        # The service's words for a window speak of fields that the page does not show.
        problems = {"from": _TOO_LONG} if "since" in found else found
        return _view(asked, [], problems=problems)
    following = {name: value for name, value in asked.items() if value} | {"cursor": answer.next_page_token}
    older = f"/audit?{urlencode(following)}" if answer.HasField("next_page_token") else ""
    return _view(asked, [_row(record) for record in answer.items], older=older)


def _request(asked: Mapping[str, str], cursor: str) -> ListAuditRecordsRequest:
    days: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name in ("from", "to"):
        if asked[name]:
            try:
                days[name] = start_of_day(asked[name])
            except ValueError:
                problems[name] = "must be a day such as 2026-09-24"
    if problems:
        raise invalid(problems)
    return ListAuditRecordsRequest(
        target=asked["target"] or None,
        since=to_timestamp(days["from"]) if "from" in days else None,
        # The last day belongs to the window.
        until=to_timestamp(days["to"] + DAY_MS) if "to" in days else None,
        page_size=int(asked["size"]) if asked["size"] in SIZES else None,
        page_token=cursor,
    )


def _view(asked: Mapping[str, str], rows: list[AuditRow], *, older: str = "", problems: Problems | None = None) -> View:
    context = {
        "asked": asked,
        "sizes": [(size, f"{size} a page") for size in SIZES],
        "rows": rows,
        "older": older,
        "problems": problems or {},
        "elsewhere": {name: why for name, why in (problems or {}).items() if name not in _FIELDS},
    }
    return View("audit/list.html", context, status=400 if problems else 200)


def _row(record: AuditRecord) -> AuditRow:
    return AuditRow(milliseconds_of(record.at), record.actor, record.action, record.target, _details(record.details))


def _details(details: str) -> Mapping[str, str]:
    """Returns the details of a record by name, each as text; JSON that is no object is returned under an empty name."""
    read: Any = orjson.loads(details) if details else {}
    if not isinstance(read, dict):
        return {"": details}
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in read.items()}


PAGES: Final[tuple[Page, ...]] = (Page("GET", "/audit", ADMINISTRATORS, show),)
