"""When a step that failed is tried again. Plain rules, no I/O. (docs/agents.md)."""

from typing import Final

from backend.workflows.readiness import Definition

LONGEST_WAIT_SECONDS: Final = 900.0


def wait_seconds(retry: Definition | None, failed: int, asked: float | None = None) -> float | None:
    """The wait after the `failed`th attempt, None after the last; at least what whoever failed `asked` for."""
    if retry is None or failed >= retry["attempts"]:
        return None
    seconds: float = retry["backoff_seconds"] * retry["multiplier"] ** (failed - 1)
    return min(max(seconds, asked or 0.0), LONGEST_WAIT_SECONDS)
