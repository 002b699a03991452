"""When a step that failed is tried again (docs/agents.md)."""

from typing import Final

from backend.retry import Backoff
from backend.workflows.readiness import Definition

LONGEST_WAIT_SECONDS: Final = 900.0


def wait_seconds(retry: Definition | None, failed: int, asked: float | None = None) -> float | None:
    """Returns the wait after the `failed`th attempt, at least what its failure `asked` for; None after the last."""
    if retry is None or failed >= retry["attempts"]:
        return None
    backoff = Backoff(retry["backoff_seconds"], LONGEST_WAIT_SECONDS, retry["multiplier"])
    return min(max(backoff.delay(failed), asked or 0.0), LONGEST_WAIT_SECONDS)
