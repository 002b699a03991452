"""Secrets of an attempt of a step: read anew for each attempt, and audited by name."""

from collections.abc import Sequence
from typing import Final

from backend.common.json_text import JsonObject
from backend.common.secret_scrubbing import SHORTEST_PART
from backend.common.secrets import SecretError, Secrets
from backend.resources.models import SECRET_UNAVAILABLE
from backend.runtime.agents import StepFailed
from backend.runtime.execution import retries
from backend.runtime.execution.segment_context import SegmentContext
from backend.services.audit import sql as audit
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.services.workflows.rules import secrets_of
from backend.storage.database import Tx

ACTOR: Final = "system"
USED: Final = "secret.used"
LARGEST_BYTES: Final = 8_192
ALL_BYTES: Final = 16_384
"""Most bytes of all secrets of a step: the search for them in its outputs takes memory for each."""


async def step_secrets(
    context: SegmentContext, run_id: str, step: ResolvedStep, attempt: int, item_index: int | None
) -> dict[str, str]:
    """Returns the values of the secrets that the step's agent names, after an audit record of their names.

    Raises:
        StepFailed: a secret is missing, cannot be read, or is too short or too long.
    """
    names = () if step.agent is None else secrets_of(step.agent)
    return await audited_values(context, run_id, step, names, attempt, item_index) if names else {}


async def audited_values(
    context: SegmentContext,
    run_id: str,
    step: ResolvedStep,
    names: Sequence[str],
    attempt: int,
    item_index: int | None,
) -> dict[str, str]:
    """Returns the values of secrets that the step's agent needs; which ones is audited before. Raises as above."""
    try:
        values = await context.in_thread(lambda: read_values(context.secrets, names))
    except SecretError as error:
        raise StepFailed(SECRET_UNAVAILABLE, str(error), final=True) from None
    details: JsonObject = {"step": step.step, "attempt": attempt, "agent": step.agent_name, "secrets": list(names)}
    if item_index is not None:
        details["item_index"] = item_index
    at = context.clock()

    def record(tx: Tx) -> None:
        tx.keeps_caches_valid = True
        audit.record(tx, at=at, actor=ACTOR, action=USED, target=run_id, details=details)

    await retries.DATABASE.run(
        lambda: context.in_thread(lambda: context.database.write(record)),
        f"The audit record of step {step.step} of run {run_id}",
    )
    return values


def read_values(secrets: Secrets, names: Sequence[str]) -> dict[str, str]:
    """Returns the values of secrets by name.

    Raises:
        SecretError: a secret cannot be read, is too short or too long for a step.
    """
    values = {name: secrets.get(name) for name in names}
    for name, value in values.items():
        if len("".join(value.split())) < SHORTEST_PART:
            raise SecretError(
                f"the secret '{name}' has fewer than {SHORTEST_PART} characters: it could not be told from other text "
                "in logs and outputs, so no step gets it"
            )
        if len(value.encode(errors="surrogatepass")) > LARGEST_BYTES:
            raise SecretError(
                f"the secret '{name}' has more than {LARGEST_BYTES:,} bytes, which is too many for a step"
            )
    if sum(len(value.encode(errors="surrogatepass")) for value in values.values()) > ALL_BYTES:
        raise SecretError(f"the secrets of the agent have more than {ALL_BYTES:,} bytes together")
    return values
