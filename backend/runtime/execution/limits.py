"""The limits that an execution environment sets for a step (contract 22.6)."""

from typing import Final

from backend.sandbox import Limits
from backend.settings import OutputLimits
from backend.workflows.manifests.defaults import DEFAULT_ENVIRONMENT
from backend.workflows.readiness import Definition
from backend.workflows.terms import StepTerms


def limits_of(environment: Definition, outputs: OutputLimits) -> Limits:
    """Returns the limits of a step in this environment, its output files included."""
    return Limits(
        environment["memory_mb"],
        environment["timeout_seconds"],
        environment["workspace_mb"],
        # An environment that was applied before there was the field has no network.
        environment.get("network", "none"),
        outputs,
    )


def memory_of(step: StepTerms) -> int:
    """Returns the megabytes that a step holds while it runs; a model's work runs in no sandbox and needs none."""
    if step.agent is None or step.agent["type"] != "python":
        return 0
    return int(step.environment["memory_mb"])


DEFAULT_LIMITS: Final = limits_of(DEFAULT_ENVIRONMENT, OutputLimits())
