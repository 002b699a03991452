"""Page of a step's log, or of the messages of its model: the end, lines found, download, and live updates."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from console.addresses import run_address
from console.http.downloads import MESSAGE_SECONDS, MessageParts
from console.paging import all_items
from console.rendering import formatting
from console.rendering.text import beginning, ending
from console.visit import FileDownload, PageEvents, PageResult, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.logs_pb2 import GetRunLogRequest, ListRunLogsRequest, RunLog, RunLogSummary, StreamRunLogsRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

OF: Final = "of"
MODEL: Final = "model"
"""Value of the query's `of` that asks for the messages of the model in place of the log."""

END_CHARS: Final = 60_000
"""Most characters of a log that a page shows; the first page shows its end."""

_READ_CHARS: Final = rules_of(GetRunLogRequest.DESCRIPTOR.fields_by_name["tail_chars"]).maximum
_SHOWN_BYTES: Final = 85_000
_SKIPPED: Final = re.compile(r"[1-9][0-9]{0,6}")
_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,8}")
_PAGE: Final = 1_000
POLL_SECONDS: Final = 1.0
"""Seconds between two reads of the log."""
_NO_ATTEMPT: Final = View("runs/missing.html", {"message": "An attempt is a whole number from 1."}, status=404)
_REFUSED: Final = frozenset({"run_not_found", "not_found", "invalid_request"})

MOST_SOUGHT_CHARS: Final = 200

_MOST_LINES: Final = 250
_MOST_LINE_CHARS: Final = 300
_BEFORE_CHARS: Final = 80
_MOST_MARKS: Final = 20
"""Most matches that are marked in one line."""


async def latest_logs(visit: Visit, run_id: str) -> dict[str, RunLogSummary]:
    """Returns the latest attempt's log of each step that has printed; empty for people who may not read logs."""
    if not visit.may("LogsService/ListRunLogs"):
        return {}
    logs = await _logs(visit, run_id)
    return {log.step: log for log in sorted(logs, key=lambda log: log.attempt)}


async def show(visit: Visit) -> PageResult:
    """Shows the log or transcript of a step's attempt, by default the latest: its end, or earlier text.

    The query's `before` is the number of characters left out at the end.
    """
    run_id, step = visit.path["run_id"], visit.path["step"]
    asked, before = visit.query.get("attempt", ""), visit.query.get("before", "")
    skipped = min(int(before), _READ_CHARS - 1) if _SKIPPED.fullmatch(before) else 0
    if asked and not _ATTEMPT.fullmatch(asked):
        return _NO_ATTEMPT
    transcript = _of_model(visit)
    request = GetRunLogRequest(run_id=run_id, step=step, attempt=int(asked) if asked else None, transcript=transcript)
    sought = visit.query.get("q", "").strip()[:MOST_SOUGHT_CHARS]
    if not sought:
        request.tail_chars = min(skipped + END_CHARS, _READ_CHARS)
    try:
        run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
        found: RunLog = await visit.services.call("LogsService/GetRunLog", request)
    except Refusal as refusal:
        if refusal.code not in _REFUSED:
            raise
        problems = refusal.details if isinstance(refusal.details, list) else []
        message = "; ".join(f"{problem['name']} {problem['reason']}" for problem in problems) or refusal.message
        return View("runs/missing.html", {"message": message}, status=404)
    ended = formatting.RUN_STATUSES.get(run.summary.status) in formatting.ENDED
    address = f"{run_address(run_id)}/logs/{quote(step, safe='')}"
    wraps = visit.query.get("wrap") != "no"
    skipped = min(skipped, len(found.text))
    before_skipped = "" if sought else found.text[: len(found.text) - skipped]
    text, cut = ending(before_skipped, END_CHARS, _SHOWN_BYTES)
    shown = (
        (OF, MODEL if transcript else ""),
        ("attempt", asked),
        ("before", str(skipped) if skipped else ""),
        ("q", sought),
        ("wrap", "" if wraps else "no"),
    )
    query = {name: value for name, value in shown if value}
    return View(
        "runs/log.html",
        {
            "run": run,
            "found": found,
            "log": found.log,
            "here": address,
            "transcript": transcript,
            "of_model": f"{OF}={MODEL}",
            "text": text,
            "earlier": str(skipped + len(text)) if (cut or found.cut) and skipped + len(text) < _READ_CHARS else "",
            "later": str(max(0, skipped - END_CHARS)) if skipped else "",
            "beginning_left_out": cut or found.cut,
            "sought": sought,
            "matches": matching_lines(found.text, sought) if sought else None,
            "wraps": wraps,
            "link": partial(_link, address, query),
            "attempts": range(1, found.attempts + 1) if found.attempts > 1 else (),
            "size": formatting.size(found.log.size_bytes) if found.log.HasField("size_bytes") else "",
            "stream": ""
            if ended or sought or skipped
            else f"{address}/stream?{urlencode({**query, 'seen': _version_token(found.log)})}",
        },
    )


async def download(visit: Visit) -> PageResult:
    """Sends the whole log of a step's attempt, by default the latest."""
    run_id, step, asked = visit.path["run_id"], visit.path["step"], visit.query.get("attempt", "")
    if asked and not _ATTEMPT.fullmatch(asked):
        return _NO_ATTEMPT
    transcript = _of_model(visit)
    request = GetRunLogRequest(
        run_id=run_id, step=step, attempt=int(asked) if asked else None, tail_chars=1, transcript=transcript
    )
    try:
        found: RunLog = await visit.services.call("LogsService/GetRunLog", request)
    except Refusal as refusal:
        if refusal.code not in _REFUSED:
            raise
        return View("runs/missing.html", {"message": refusal.message}, status=404)
    attempt = found.log.attempt
    wanted = StreamRunLogsRequest(run_id=run_id, step=step, attempt=attempt, transcript=transcript)
    messages = visit.services.stream("LogsService/StreamRunLogs", wanted, MESSAGE_SECONDS)
    parts = MessageParts(messages, lambda message: (message.text or message.problem).encode())
    name = f"{run_id}-{step}-{attempt}{'-model.txt' if transcript else '.log'}"
    return FileDownload(parts, name, "text/plain")


async def stream(visit: Visit) -> PageResult:
    """Streams updates of a log; the query names the part that the page shows."""
    return PageEvents(_updates(visit))


class MatchingLine(NamedTuple):
    """A matching line: its number from 1, and its parts, alternately other text and the searched text."""

    number: int
    parts: Sequence[str]


class LogMatches(NamedTuple):
    """The first matching lines, and the number of all."""

    lines: Sequence[MatchingLine]
    total: int


def matching_lines(text: str, sought: str) -> LogMatches:
    """Returns the first lines of `text` that contain `sought`, ignoring case, each cut around its first match."""
    pattern = re.compile(f"({re.escape(sought)})", re.IGNORECASE)
    lines: list[MatchingLine] = []
    total = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.search(line)
        if match is None:
            continue
        total += 1
        if len(lines) < _MOST_LINES:
            part, _ = beginning(line[max(0, match.start() - _BEFORE_CHARS) :], _MOST_LINE_CHARS)
            lines.append(MatchingLine(number, pattern.split(part, _MOST_MARKS)))
    return LogMatches(lines, total)


async def _updates(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    """Yields an update whenever the step has printed or begun another attempt, until the run has ended."""
    run_id, step, asked = visit.path["run_id"], visit.path["step"], visit.query.get("attempt", "")
    seen = visit.query.get("seen", "")
    while True:
        try:
            run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
            logs = [log for log in await _logs(visit, run_id, transcript=_of_model(visit)) if log.step == step]
        except Refusal as refusal:
            if refusal.code not in _REFUSED:
                raise
            yield "reload", refusal.code
            return
        shown = [log for log in logs if not asked or str(log.attempt) == asked]
        now = _version_token(shown[-1] if shown else RunLogSummary())
        if now != seen:
            yield "refresh", now
            seen = now
        if formatting.RUN_STATUSES.get(run.summary.status) in formatting.ENDED:
            return
        await asyncio.sleep(POLL_SECONDS)


def _link(address: str, state: Mapping[str, str], **changed: str) -> str:
    query = {name: value for name, value in {**state, **changed}.items() if value}
    return address + (f"?{urlencode(query)}" if query else "")


def _of_model(visit: Visit) -> bool:
    return visit.query.get(OF) == MODEL


async def _logs(visit: Visit, run_id: str, *, transcript: bool = False) -> list[Any]:
    request = ListRunLogsRequest(run_id=run_id, page_size=_PAGE, transcript=transcript)
    return await all_items(visit.services, "LogsService/ListRunLogs", request)


def _version_token(log: RunLogSummary) -> str:
    """Returns a token that is new after each part or attempt, and at the log's end."""
    return (
        f"{log.attempt if log.last_part or log.HasField('began_at') else 0}-{log.last_part}-{log.HasField('ended_at')}"
    )
