"""Tabs of a run's page but for its steps: their addresses, and the template contexts of results and events."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from console.paging import rows_from
from console.rendering import formatting
from console.rendering.text import beginning, sanitised, short
from console.run import bounds
from console.run.events import EventFilter, EventPage, events_page
from console.run.sentences import sentence
from console.visit import Visit
from workflow_api.v1.outputs_pb2 import ListOutputsResponse
from workflow_api.v1.previews_pb2 import GetSummaryPreviewRequest, SummaryPreview
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.runs_pb2 import ListRunEventsRequest, Run

SEQ: Final = re.compile(r"[0-9]{1,18}")
TABS: Final = ("steps", "results", "events", "inputs")
STATE: Final[Mapping[str, Sequence[str]]] = {
    "steps": ("step", "steps", "waits", "approvals", "children"),
    "results": ("step", "outputs"),
    "events": ("step", "segment", "after_seq", "kind", "of", "decisions"),
    "inputs": ("step",),
}
"""Query parameters of each tab; links within a tab keep the parameters that they do not change."""


def tab_of(query: Mapping[str, str]) -> str:
    """Returns the tab that an address asks for; addresses without a tab name it by the parameters of its lists."""
    asked = query.get("tab", "")
    if asked in TABS:
        return asked
    if any(query.get(name) for name in ("segment", "after_seq", "kind", "of", "decisions")):
        return "events"
    return "results" if query.get("outputs") else "steps"


def link_of(address: str, state: Mapping[str, str | int | None], anchor: str) -> str:
    """Returns the address of this page with query parameters that are neither None nor ""."""
    query = {name: value for name, value in state.items() if value not in {None, ""}}
    return address + (f"?{urlencode(query)}" if query else "") + (f"#{anchor}" if anchor else "")


async def events_of(visit: Visit, run_id: str, event_filter: EventFilter | None) -> EventPage:
    """Returns the page of events that is asked for; without a filter the segments alone."""
    if event_filter is None:
        request = ListRunEventsRequest(run_id=run_id, page_size=1)
        return EventPage(await visit.services.call("RunsService/ListRunEvents", request), None, None, None)
    asked = visit.query.get("after_seq", "")
    after_seq = int(asked) if SEQ.fullmatch(asked) else None
    return await events_page(visit.services, run_id, visit.query.get("segment", ""), after_seq, event_filter)


def event_rows(events: EventPage) -> Mapping[str, Any]:
    """Returns the context of a page of events: each with a sentence, and its data where that is short."""
    return {
        "events": events,
        "event_rows": [
            (
                event,
                short(sentence(event.type, event.step, event.data), bounds.LISTED),
                *beginning("" if event.data == "{}" else event.data, bounds.JSON),
            )
            for event in events.read.events
        ],
    }


def decision_rows(
    visit: Visit, decisions: Sequence[Decision], comments: Mapping[str, str], link: Callable[..., str]
) -> Mapping[str, Any]:
    """Returns the context of the decisions of a run, with their comments by approval."""
    rows = [(each, formatting.approval_badge(each.state), comments.get(each.approval_id, "")) for each in decisions]
    return {
        "decisions": rows_from(rows, visit.query.get("decisions", ""), bounds.DECISIONS),
        "href_of_decisions": lambda first: link("decisions", decisions=str(first)),
    }


async def results(
    visit: Visit, run: Run, outputs: ListOutputsResponse | None, link: Callable[..., str]
) -> Mapping[str, Any]:
    """Returns the context of the results of a run: summary and outputs; raises the Refusal of a service."""
    summary = await _summary(visit, run)
    html = sanitised(summary.html, below=3) if summary.HasField("html") else None
    if html is not None and len(html.encode()) > bounds.SUMMARY:
        html = None
    found = () if outputs is None else outputs.items
    return {
        "listed": rows_from(found, visit.query.get("outputs", ""), bounds.OUTPUTS),
        "href_of_outputs": lambda first: link("made", outputs=str(first)),
        "outputs_size": "" if outputs is None else formatting.size(outputs.total_bytes),
        "summary_html": html,
        "summary_cut": summary.cut,
    }


async def _summary(visit: Visit, run: Run) -> SummaryPreview:
    if not run.summary_markdown:
        return SummaryPreview()
    request = GetSummaryPreviewRequest(run_id=run.summary.run_id)
    found: SummaryPreview = await visit.services.call("PreviewsService/GetSummaryPreview", request)
    return found
