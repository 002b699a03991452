"""The page of what is kept for how long, and when something is removed next."""

from collections.abc import Mapping
from typing import Final

from console.rendering import formatting
from console.rendering.times import DAY_MS
from console.visit import PageResult, View, Visit
from contract.times import milliseconds_of
from workflow_api.v1.deployment_health_pb2 import GetRetentionRequest, Retention, RetentionSchedule

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "runs_erased": (
        "Data of finished runs",
        "Inputs, results, events, logs and outputs; the run itself stays, with its status and times.",
    ),
    "idempotency_records": (
        "Idempotency keys",
        "A start repeated with its key within that time is answered as before.",
    ),
    "usage_records": ("Single calls", "What the usage pages list as the newest calls and refusals."),
    "usage_hours": ("Counts of calls by the hour", "What the charts of usage are made of."),
    "audit_records": ("Audit trail", "Who did what and when."),
    "sessions": ("Sessions of people", "After that everybody signs in again."),
    "sign_in_tries": ("Failed sign-ins", "What guesses of passwords are counted by."),
    "agent_sources": ("Code of agents", "That no version of a workflow, nor the newest of an agent, uses."),
    "environment_locks": (
        "Locks of packages",
        "That no version of a workflow, nor the newest of an environment, uses.",
    ),
    "deleted_definitions": (
        "Deleted workflows and resources",
        "Of which no run, no version of a workflow and nothing published names a version.",
    ),
    "step_log_parts": ("Parts of logs", "That the stored log of a step has replaced."),
    "webhook_deliveries": ("Deliveries to webhooks", "With what is still to be delivered."),
}


async def show(visit: Visit) -> PageResult:
    """Shows every kind of data with the time for which it is kept."""
    found: Retention = await visit.services.call("DeploymentHealthService/GetRetention", GetRetentionRequest())
    rows = [(each, *_KINDS.get(each.name, (each.name, "")), _span(each)) for each in found.schedules]
    return View("deployment/retention.html", {"rows": rows, "retention": found})


def _span(schedule: RetentionSchedule) -> str:
    kept = milliseconds_of(schedule.kept)
    if kept % DAY_MS:
        return formatting.duration(kept)
    return "1 day" if kept == DAY_MS else f"{kept // DAY_MS:,} days"
