"""Texts of notifications: names, ids, states and a link; never inputs, results, errors of agents or comments."""

import json
from collections.abc import Mapping
from string import Template
from typing import Final, NamedTuple

from backend.services.notifications.rules import NotificationEvent
from backend.services.notifications.sql import ClaimedNotificationRow
from backend.settings import NotificationTarget

TEST_EVENT: Final = "test"
_MOST_SUBJECT: Final = 200
_STATUS: Final[Mapping[str, str]] = {
    NotificationEvent.RUN_FAILED: "failed",
    NotificationEvent.RUN_WAITING: "waiting_for_approval",
    NotificationEvent.SCHEDULE_SKIPPED: "skipped",
    NotificationEvent.SCHEDULE_FAILED: "failed",
}


class NotificationText(NamedTuple):
    """A message as it is sent; its id is one for all attempts and targets."""

    message_id: str
    subject: str
    text: str


def text_of(
    row: ClaimedNotificationRow, target: NotificationTarget, step: str | None, deployment: str, console_url: str | None
) -> NotificationText:
    """Fills the templates of a target."""
    details: Mapping[str, str] = {} if row.details is None else json.loads(row.details)
    values = {
        "deployment": deployment,
        "event": row.event,
        "workflow": row.workflow_name or "",
        "run_id": row.run_id or "",
        "schedule": details.get("schedule", ""),
        "step": step or "",
        "status": _STATUS.get(row.event, ""),
    }
    values["summary"] = details.get("message") or _summary(values, details.get("reason", ""))
    values["link"] = "" if console_url is None else f"{console_url}{_page(row)}"
    subject = " ".join(Template(target.subject).substitute(values).split())[:_MOST_SUBJECT]
    return NotificationText(row.message_id, subject, Template(target.text).substitute(values).strip())


def test_text(message_id: str, deployment: str) -> NotificationText:
    """Returns a message by which a person sees that a target works."""
    summary = f"A test message of deployment {deployment}: notifications arrive here."
    return NotificationText(message_id, f"[{deployment}] Test of notifications", summary)


def _summary(values: Mapping[str, str], reason: str) -> str:
    at_step = f" at step {values['step']}" if values["step"] else ""
    match values["event"]:
        case NotificationEvent.RUN_FAILED:
            return f"Run {values['run_id']} of workflow {values['workflow']} failed{at_step}."
        case NotificationEvent.RUN_WAITING:
            return f"Run {values['run_id']} of workflow {values['workflow']} waits for an approval{at_step}."
        case NotificationEvent.SCHEDULE_SKIPPED:
            return f"Schedule {values['schedule']} of workflow {values['workflow']} skipped a start ({reason})."
        case _:
            return f"Schedule {values['schedule']} of workflow {values['workflow']} could not start a run ({reason})."


def _page(row: ClaimedNotificationRow) -> str:
    if row.run_id is not None:
        return f"/runs/{row.run_id}"
    return "/deployment/health" if row.workflow_id is None else f"/workflows/{row.workflow_id}"
