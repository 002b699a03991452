"""Evaluates the expressions of a run's steps: conditions, lists of fan-outs, and parameters of children."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.json_text import JsonMapping, JsonValue
from backend.resources.redaction.confined_redactor import RedactionError
from backend.resources.schemas.expression_scope import Expected, ExpressionError, Scope, Values
from backend.runtime.execution import retries, sql
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_outcomes import StepFailure
from backend.runtime.run_redaction import RunRedaction
from backend.services.runs.redaction_manifest_sql import StageCounts
from backend.services.workflows.resolved_workflow import ResolvedStep, ResolvedWorkflow
from backend.storage.database import Tx

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_SUMMARY: Final = 2_000
"""Most characters of an approval's summary that people see."""
EXPRESSION_ERROR: Final = "ExpressionError"
"""Type of the failure of a step whose expression gave no value."""


class Expressions:
    """The expressions of one run, evaluated in confined processes; used on the engine's loop.

    `parameters` are the run's parameters as steps see them, swept under a PII policy.
    """

    def __init__(self, context: SegmentContext, claimed: ClaimedSegment, parameters: JsonMapping) -> None:
        self._context = context
        self._claimed = claimed
        self._parameters = parameters
        self._run: Mapping[str, JsonValue] | None = None

    async def evaluate(
        self,
        step: ResolvedStep,
        expressions: Sequence[tuple[str, Expected]],
        *,
        item: JsonValue = None,
        item_index: int | None = None,
    ) -> list[JsonValue] | StepFailure:
        """Returns the values of a step's expressions, or the failure of the step where one has an error.

        `item` and `item_index` are set for an item of a fan-out.
        """
        try:
            return await self._evaluate(
                step,
                lambda scope, values, needs, halt: self._context.schemas.evaluate(
                    expressions, scope, values, needs, owner=self._claimed.key_id, halt=halt
                ),
                item,
                item_index,
            )
        except ExpressionError as error:
            failure = StepFailure(EXPRESSION_ERROR, str(error), final=True)
            return await sweep_failure(self._context, self._claimed.redaction, failure)
        except Exception:  # noqa: BLE001 - only this step fails, whatever the cause
            _LOG.exception("An expression of step %s of run %s", step.step, self._claimed.run_id)
            return StepFailure("InternalError", "an expression of the step could not be evaluated", final=True)

    async def items(self, step: ResolvedStep, most_bytes: int) -> list[str]:
        """Returns the items of a fan-out as JSON texts.

        Raises:
            ExpressionError: its expression gave no list, or more items or bytes than allowed.
            OSError: the expression could not be evaluated.
        """
        assert step.fan_out is not None
        source, most = step.fan_out.items, step.fan_out.max_items
        return await self._evaluate(
            step,
            lambda scope, values, needs, halt: self._context.schemas.items(
                source, scope, values, needs, most=most, most_bytes=most_bytes, owner=self._claimed.key_id, halt=halt
            ),
        )

    async def _evaluate(
        self,
        step: ResolvedStep,
        work: Callable[[Scope, Values, Mapping[str, str], threading.Event], T],
        item: JsonValue = None,
        item_index: int | None = None,
    ) -> T:
        context, claimed = self._context, self._claimed
        if self._run is None:
            self._run = await retries.DATABASE.run(
                lambda: context.read(partial(_run_values, run_id=claimed.run_id)), f"Reading run {claimed.run_id}"
            )
        values = Values(parameters=self._parameters, needs={}, run=self._run, item=item, item_index=item_index or 0)
        scope = scope_of(claimed.workflow, step, item=item_index is not None)
        needs = claimed.step_states.value_texts(step.step)
        return await retries.RESOURCE.run(
            lambda: context.in_cancellable_thread(lambda halt: work(scope, values, needs, halt)),
            f"Evaluating an expression of step {step.step} of run {claimed.run_id}",
        )

    async def condition(self, step: ResolvedStep) -> bool | StepFailure:
        """Returns whether the condition of a step is true, or the failure of the step where it gave no value."""
        assert step.when is not None
        given = await self.evaluate(step, [(step.when, Expected.CONDITION)])
        return given if isinstance(given, StepFailure) else bool(given[0])

    async def summary(self, step: ResolvedStep) -> str | StepFailure:
        """Returns the evaluated summary of an approval, swept for personal data, or the failure of the step."""
        assert step.approval is not None
        assert step.approval.summary is not None
        given = await self.evaluate(step, [(step.approval.summary, Expected.VALUE)])
        if isinstance(given, StepFailure):
            return given
        text = given[0] if isinstance(given[0], str) else json_text.write(given[0])
        redaction = self._claimed.redaction
        if redaction is not None and (stage := redaction.message_stage) is not None:
            try:
                text, counts = await self._context.in_cancellable_thread(lambda halt: redaction.value(text, halt))
            except RedactionError as error:
                return StepFailure("RedactionFailed", f"the summary could not be swept: {error}", final=True)
            self._claimed.step_states.changes.redacted.append(StageCounts(stage, counts))
        return str(text)[:LONGEST_SUMMARY]


async def sweep_failure(context: SegmentContext, redaction: RunRedaction | None, failure: StepFailure) -> StepFailure:
    """Returns a step's failure with its message swept, because the message may quote personal data."""
    if redaction is None or (stage := redaction.message_stage) is None:
        return failure
    try:
        message, counts = await context.in_cancellable_thread(lambda halt: redaction.value(failure.message, halt))
    except RedactionError as error:
        why = f"why the step failed could not be swept for personal data: {error}"
        return StepFailure("RedactionFailed", why, final=True)
    return StepFailure(failure.type, str(message), final=True, redacted=[StageCounts(stage, counts)])


def scope_of(workflow: ResolvedWorkflow, step: ResolvedStep, *, item: bool = False) -> Scope:
    """Returns the names that expressions of a step may use; `item` adds the names of a fan-out's item."""
    return Scope(
        parameters={each["name"]: each["type"] for each in workflow.parameters},
        nullable=[each["name"] for each in workflow.parameters],
        needs=step.needs,
        item=item,
    )


def _run_values(tx: Tx, run_id: str) -> Mapping[str, JsonValue]:
    run = sql.run_facts(tx, run_id)
    return {
        "run_id": run.run_id,
        "created_at": to_text(run.created_at),
        "triggered_by": run.triggered_by,
        "client_reference": run.client_reference,
        "labels": json_text.parse(run.labels),
        "version": run.version,
    }
