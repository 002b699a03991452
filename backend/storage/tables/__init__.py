"""The schema: every table of every service. A service writes its own tables and may read the others."""

from backend.storage.tables import (
    audit,
    deployment,
    environments,
    keys,
    outputs,
    processes,
    publishing,
    runs,
    segments,
    step_logs,
    uploads,
    users,
    webhooks,
    workers,
    workflows,
)

__all__ = [
    "audit",
    "deployment",
    "environments",
    "keys",
    "outputs",
    "processes",
    "publishing",
    "runs",
    "segments",
    "step_logs",
    "uploads",
    "users",
    "webhooks",
    "workers",
    "workflows",
]
