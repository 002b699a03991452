"""Page of the audit trail, with search by query parameters, and its export as CSV or JSON lines."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson

from console.forms.urlencoded import Problems, invalid, problems_of
from console.http.downloads import MESSAGE_SECONDS
from console.pages.workflows import every_workflow
from console.rendering.audit_sentences import SENTENCES, SentencePart, audit_sentence, person_of
from console.rendering.exports import CSV, JSON_LINES, head_of, lines_of
from console.rendering.times import DAY_MS, DAY_RULE, start_of_day
from console.visit import FileDownload, PageResult, View, Visit
from contract.channel import Messages
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.audit_pb2 import (
    AuditRecord,
    ExportAuditRecordsRequest,
    ExportAuditRecordsResponse,
    ListAuditRecordsRequest,
)
from workflow_api.v1.reviews_pb2 import ListAllDecisionsRequest, RunDecision

_INVALID: Final = 400
SIZES: Final = ("50", "100", "200")

ACTIONS: Final = tuple(sorted(SENTENCES))
"""Actions that the page suggests as filters; others can be typed."""

_MEDIA_TYPES: Final = {CSV: "text/csv", JSON_LINES: "application/jsonl"}
_FIELDS: Final = ("q", "actor", "action", "target", "from", "to", "size")
_SHOWN_AS: Final = {"search": "q", "until": "to"}
_DECISIONS: Final = frozenset({"approval.approved", "approval.rejected", "approval.expired"})
_MOST_DECISIONS: Final = 100
_TOO_LONG: Final = "must be less than 90 days before the end of the last day, or now where none is given"


class AuditLine(NamedTuple):
    """One audit record as a sentence, `person` and then `done`, with its details as text."""

    at_ms: int
    actor: str
    person: str
    action: str
    done: Sequence[SentencePart]
    target: str
    details: Mapping[str, str]


async def show(visit: Visit) -> PageResult:
    """Shows a page of audit records, newest first."""
    asked = _asked(visit)
    try:
        size = int(asked["size"]) if asked["size"] in SIZES else None
        cursor = visit.query.get("cursor", "")
        request = ListAuditRecordsRequest(**_search(asked), page_size=size, page_token=cursor)
        answer = await visit.services.call("AuditService/ListAuditRecords", request)
    except Refusal as refusal:
        return _view(asked, [], problems=_problems(refusal))
    following = {name: value for name, value in asked.items() if value} | {"cursor": answer.next_page_token}
    older = f"/audit?{urlencode(following)}" if answer.HasField("next_page_token") else ""
    names = await _names(visit, answer.items)
    return _view(asked, [_row(record, names) for record in answer.items], older=older)


async def export_csv(visit: Visit) -> PageResult:
    """Sends the records of the query as CSV."""
    return await _export(visit, CSV)


async def export_json_lines(visit: Visit) -> PageResult:
    """Sends the records of the query as JSON lines."""
    return await _export(visit, JSON_LINES)


async def _export(visit: Visit, form: str) -> PageResult:
    asked = _asked(visit)
    try:
        request = ExportAuditRecordsRequest(**_search(asked))
        messages = visit.services.stream("AuditService/ExportAuditRecords", request, MESSAGE_SECONDS)
        first = await anext(messages, ExportAuditRecordsResponse())
    except Refusal as refusal:
        if refusal.status != _INVALID:
            raise
        return _view(asked, [], problems=_problems(refusal))
    return FileDownload(_ExportLines(messages, first, form), f"audit.{form}", _MEDIA_TYPES[form])


class _ExportLines:
    """Parts of an export's download; the first message has been read."""

    def __init__(self, messages: Messages, first: Any, form: str) -> None:
        self._messages = messages
        self._first: Any = first
        self._form = form

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns this iterator."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the lines of the next message; the first part begins with the head."""
        first, self._first = self._first, None
        if first is not None:
            return (head_of(self._form) + lines_of(first, self._form)).encode()
        part: Any = await anext(self._messages)
        return lines_of(part, self._form).encode()

    async def aclose(self) -> None:
        """Ends the export."""
        await self._messages.aclose()


def _asked(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name, "").strip() for name in _FIELDS}


def _problems(refusal: Refusal) -> Problems:
    found = problems_of(refusal)
    # The service's message about the window names fields that the page does not show.
    return {"from": _TOO_LONG} if "since" in found else {_SHOWN_AS.get(name, name): why for name, why in found.items()}


def _search(asked: Mapping[str, str]) -> dict[str, Any]:
    """Returns the search fields of a request."""
    days: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name in ("from", "to"):
        if asked[name]:
            try:
                days[name] = start_of_day(asked[name])
            except ValueError:
                problems[name] = DAY_RULE
    if problems:
        raise invalid(problems)
    return {
        **{name: asked[name] or None for name in ("actor", "action", "target")},
        "search": asked["q"],
        "since": to_timestamp(days["from"]) if "from" in days else None,
        # The window includes the last day.
        "until": to_timestamp(days["to"] + DAY_MS) if "to" in days else None,
    }


def _view(
    asked: Mapping[str, str], rows: list[AuditLine], *, older: str = "", problems: Problems | None = None
) -> View:
    given = {name: value for name, value in asked.items() if value}
    context = {
        "asked": asked,
        "actions": ACTIONS,
        "filtered": bool(given.keys() - {"size"}),
        "here": urlencode(given),
        "exported": urlencode({name: value for name, value in given.items() if name != "size"}),
        "link": partial(_link, given),
        "sizes": [(size, f"{size} a page") for size in SIZES],
        "rows": rows,
        "older": older,
        "problems": problems or {},
        "elsewhere": {name: why for name, why in (problems or {}).items() if name not in _FIELDS},
    }
    return View("audit/list.html", context, status=400 if problems else 200)


def _link(given: Mapping[str, str], **changed: str) -> str:
    """Returns the address of the newest records with changed filters."""
    return f"/audit?{urlencode({**given, **changed})}"


class _Names(NamedTuple):
    """Names of workflows and titles of approvals, by the ids in records."""

    workflows: Mapping[str, str]
    decisions: Mapping[str, RunDecision]

    def of(self, record: AuditRecord, details: Mapping[str, Any]) -> dict[str, str]:
        """Returns the names that the sentence of a record has besides its details."""
        if (decision := self.decisions.get(record.target)) is not None:
            about = {"title": decision.decision.title, "workflow": decision.workflow_name, "comment": decision.comment}
            return {name: value for name, value in about.items() if value}
        workflow = self.workflows.get(str(details.get("workflow_id", "")))
        return {"workflow": workflow} if workflow else {}


async def _names(visit: Visit, records: Sequence[AuditRecord]) -> _Names:
    """Reads the names for the ids in records, where the person may read them and they are not erased.

    The trail itself does not keep titles and comments, which go with the data of their run.
    """
    workflows: dict[str, str] = {}
    if any(record.action == "run.started" for record in records):
        workflows = {each.workflow_id: each.name for each in await every_workflow(visit)}
    decided = [milliseconds_of(record.at) for record in records if record.action in _DECISIONS]
    if not decided:
        return _Names(workflows, {})
    request = ListAllDecisionsRequest(
        page_size=_MOST_DECISIONS,
        decided_since=to_timestamp(min(decided)),
        decided_before=to_timestamp(max(decided) + 1),
    )
    found = await visit.services.call("ReviewsService/ListAllDecisions", request)
    return _Names(workflows, {each.decision.approval_id: each for each in found.items})


def _row(record: AuditRecord, names: _Names) -> AuditLine:
    read: Any = orjson.loads(record.details) if record.details else {}
    # JSON that is no object is shown under an empty name.
    details = read if isinstance(read, dict) else {"": record.details}
    return AuditLine(
        at_ms=milliseconds_of(record.at),
        actor=record.actor,
        person=person_of(record.actor),
        action=record.action,
        done=audit_sentence(record.action, record.target, {**details, **names.of(record, details)}),
        target=record.target,
        details={
            name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in details.items()
        },
    )
