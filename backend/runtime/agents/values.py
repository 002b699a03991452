"""The bound on the nesting of what a step sends."""

from backend.runtime.agents.base import StepFailed
from backend.sandbox.inside.nesting import deeper_than


def require_levels(payload: bytes, most: int, what: str) -> None:
    """Refuse JSON text that is nested too deep to be parsed, or read by others.

    Raises:
        StepFailed: it is; `what` names it.
    """
    if deeper_than(payload, most):
        raise too_deep(what, most)


def too_deep(what: str, most: int) -> StepFailed:
    """The failure of a step that left a value nested deeper than `most` levels."""
    return StepFailed("InvalidResult", f"{what} is nested more than {most} levels deep")
