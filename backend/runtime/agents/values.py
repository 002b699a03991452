"""The bound on the nesting of a step's values."""

from backend.runtime.agents.base import StepFailed
from backend.sandbox.inside.nesting import deeper_than


def require_levels(payload: bytes, most: int, what: str) -> None:
    """Refuses JSON text that is nested too deep to be parsed, here or by callers.

    Raises:
        StepFailed: it is nested deeper than `most` levels; `what` names it.
    """
    if deeper_than(payload, most):
        raise too_deep(what, most)


def too_deep(what: str, most: int) -> StepFailed:
    """Returns the failure of a step whose value is nested deeper than `most` levels."""
    return StepFailed("InvalidResult", f"{what} is nested more than {most} levels deep")
