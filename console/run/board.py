"""Steps of a run: graph, timeline and selected step, with the approvals that wait, as the template context of a tab."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from console.approvals import reviews_of
from console.paging import rows_from
from console.rendering import dag, formatting
from console.rendering.dag import MOST_STEPS, step_window
from console.rendering.times import now_ms
from console.run import bounds
from console.run.step import item_logs, selected_step, step_view
from console.run.timeline import FOLD_WIDTH, Spans, timeline
from console.visit import Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.run_lists_pb2 import ChildRun, ListChildRunsRequest
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_FAILED,
    STEP_KIND_WORKFLOW,
    STEP_STATUS_PENDING,
    PendingApproval,
    Run,
    Step,
)

BAND: Final = 3
"""Columns of steps beside each other, so that their texts can be read beside the selected step."""

FOLDED: Final[Mapping[str, bool]] = {"folded": True, "full": False}
"""Values of the query's `waits`; without it the timeline decides."""

_REVIEW_SECONDS: Final = 0.5
"""Time for which the page waits for the material of an approval, which its own page shows later."""
_LEGEND: Final = (
    ("good", "completed"),
    ("busy", "running"),
    ("warn", "waiting for a person"),
    ("bad", "failed or blocked"),
    ("pending", "not begun"),
    ("", "skipped or cancelled"),
)


async def board(
    visit: Visit,
    run: Run,
    steps: Sequence[Step],
    spans: Spans,
    link: Callable[..., str],
    *,
    pending: Sequence[PendingApproval],
    decisions: Sequence[Decision],
    logs: Collection[str],
) -> Mapping[str, Any]:
    """Returns the context of the steps of a run; `logs` names steps that printed. Raises the Refusal of a service."""
    run_id = run.summary.run_id
    asked, asked_window = visit.query.get("step", ""), visit.query.get("steps", "")
    chosen = selected_step(asked, steps) if asked or not asked_window else None
    most = MOST_STEPS if len(steps) <= MOST_STEPS else bounds.STEPS
    window = step_window(steps, asked_window, chosen.step if chosen else "", lambda each: each.step, most)
    step = selected_step(asked or (chosen.step if chosen else ""), window.steps)
    most_spans = min(bounds.SPANS, bounds.SPANS_OF_ALL // max(1, len(window.steps)))
    drawn = {name: of_step[-most_spans:] for name, of_step in spans.items()}
    folded = FOLDED.get(visit.query.get("waits", ""))
    bars = timeline(run.summary, window.steps, drawn, now_ms(), folded)
    # A backend of an older release does not know the filter.
    waiting = [each for each in pending if each.run_id == run_id]
    approvals = rows_from(waiting, visit.query.get("approvals", ""), bounds.APPROVALS)
    selected, (children, token), ready = await asyncio.gather(
        _selected(visit, run, step, spans, decisions),
        _children(visit, run_id, step),
        _ready(visit, approvals.items),
    )
    rows = [None, *map(_row, window.steps)]
    classes = {_css_class(each) for each in window.steps}
    return {
        "window": window,
        "href_of_step": lambda name: link("step", step=name, children=""),
        "href_of_window": lambda number: link("steps", steps=str(number), step="", children=""),
        "href_of_approvals": lambda first: link("approvals", approvals=str(first)),
        "approvals": approvals,
        "ready": ready,
        "drawing": dag.draw([_node(each) for each in window.steps], BAND),
        "legend": [(css_class, words) for css_class, words in _LEGEND if css_class in classes],
        "timeline": bars,
        "fold_width": FOLD_WIDTH,
        "bars_of_steps": list(zip(rows, bars.rows, strict=True)),
        "selected": selected,
        "children": [_child(each) for each in children],
        "children_first": link("step", children="") if visit.query.get("children") else "",
        "children_next": link("step", step=step.step, children=token) if step and token else "",
        "item_logs": [] if step is None else item_logs(run_id, step.step, logs),
    }


async def _ready(visit: Visit, pending: Sequence[PendingApproval]) -> frozenset[str]:
    """Returns the approvals whose material has been prepared, among those that can be decided on the run's page."""
    decided_here = [
        each.approval.approval_id
        for each in pending
        if not (each.excluded or each.HasField("form_schema") or each.HasField("tool_call"))
    ]
    reviews = await reviews_of(visit.services, decided_here, _REVIEW_SECONDS)
    return frozenset(each.pending.approval.approval_id for each in reviews if not each.preparing)


async def _selected(
    visit: Visit, run: Run, step: Step | None, spans: Spans, decisions: Sequence[Decision]
) -> Mapping[str, Any] | None:
    if step is None:
        return None
    return await step_view(visit, run, step, spans.get(step.step, ()), decisions)


async def _children(visit: Visit, run_id: str, step: Step | None) -> tuple[Sequence[ChildRun], str]:
    """Returns a page of the runs that a step started, its failed ones first, and the token of the next page."""
    if step is None or step.kind != STEP_KIND_WORKFLOW:
        return (), ""
    request = ListChildRunsRequest(
        run_id=run_id, step=step.step, page_size=bounds.CHILDREN, page_token=visit.query.get("children", "")
    )
    try:
        answer = await visit.services.call("RunListsService/ListChildRuns", request)
    except Refusal as refusal:
        if refusal.code != "invalid_request" or not request.page_token:
            raise
        # The address names a page of another step.
        request.page_token = ""
        answer = await visit.services.call("RunListsService/ListChildRuns", request)
    # A backend of an older release does not know the filter.
    found = [each for each in answer.items if each.step == step.step]
    found.sort(key=lambda each: (each.run.status != RUN_STATUS_FAILED, each.item_index))
    return found, answer.next_page_token if answer.HasField("next_page_token") else ""


def _child(child: ChildRun) -> Mapping[str, Any]:
    lasted = formatting.duration(milliseconds_of(child.run.duration)) if child.run.HasField("duration") else ""
    return {"child": child, "badge": formatting.run_badge(child.run.status), "lasted": lasted}


def _row(step: Step) -> Mapping[str, Any]:
    return {
        "step": step,
        "badge": formatting.step_badge(step.status),
        "lasted": formatting.duration(milliseconds_of(step.duration)) if step.HasField("duration") else "",
    }


def _node(step: Step) -> dag.Node:
    badge = formatting.step_badge(step.status)
    return dag.Node(step.step, step.name or step.step, tuple(step.needs), badge.text, _css_class(step))


def _css_class(step: Step) -> str:
    return "pending" if step.status == STEP_STATUS_PENDING else formatting.step_badge(step.status).kind
