"""The schema: every table of every service. A service writes its own tables and may read the others."""

from backend.storage.tables import (
    deployment,
    files,
    keys,
    model_usage,
    notifications,
    runs,
    schedules,
    segments,
    users,
    webhooks,
    workflows,
)

__all__ = [
    "deployment",
    "files",
    "keys",
    "model_usage",
    "notifications",
    "runs",
    "schedules",
    "segments",
    "users",
    "webhooks",
    "workflows",
]
