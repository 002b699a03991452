"""The schema: every table of every service. A service writes its own tables and may read the others."""

from backend.storage.tables import (
    audit,
    deployment,
    keys,
    outputs,
    publishing,
    runs,
    segments,
    users,
    workers,
    workflows,
)

__all__ = ["audit", "deployment", "keys", "outputs", "publishing", "runs", "segments", "users", "workers", "workflows"]
