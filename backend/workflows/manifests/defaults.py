"""What an environment is that a manifest says nothing of."""

from collections.abc import Mapping
from typing import Any, Final

DEFAULT_ENVIRONMENT: Final[Mapping[str, Any]] = {
    "memory_mb": 2_048,
    "timeout_seconds": 900,
    "workspace_mb": 512,
    "network": "none",
    "status": "active",
    "python": None,
}
"""Environment of a step that names none, or one that does not exist."""
