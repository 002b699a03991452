"""Starts child runs, for steps that name a workflow. Child runs take neither slots nor quota of their key."""

from typing import Final, NamedTuple

from backend.common.caches import RevisionedCache
from backend.common.deployment_terms import Capabilities
from backend.common.errors import ApiError
from backend.common.json_text import JsonObject
from backend.common.states import QUEUED, RunStatus
from backend.services.runs.change_records import NewEvent, log_change
from backend.services.runs.lifecycle import append_events
from backend.services.runs.start import sql
from backend.services.runs.start.new_run import new_run
from backend.services.runs.start.rules import ParentStep, ParsedStart, ValidatedInputs, validate_inputs
from backend.services.runs.start.start_group import count_recorded
from backend.services.workflows import sql as workflows_sql
from backend.services.workflows.resolved_workflow import ChildWorkflow, ResolvedWorkflow, load_workflow
from backend.services.workflows.rules import MOST_DEPTH
from backend.storage.database import Tx

MOST_CHILDREN: Final = 100
"""Most child runs of a run, including those of failed attempts."""


class ChildRefusedError(Exception):
    """A child run cannot be started; the text tells a person why."""


class NewChild(NamedTuple):
    """A child run to start, for a step of an executing segment or for an item of its fan-out.

    `run_id` is made once for each attempt, so that a repeated transaction finds the child that it has started.
    """

    run_id: str
    parent_run_id: str
    segment_id: str
    step: str
    item: int | None
    workflow: ChildWorkflow
    parameters: JsonObject
    at: int
    trace: tuple[str, str | None] | None


class ChildStarter:
    """Starts child runs for the runtime. Thread-safe."""

    def __init__(self, cache: RevisionedCache, capabilities: Capabilities) -> None:
        self._cache = cache
        self._capabilities = capabilities

    def resolve(self, tx: Tx, named: ChildWorkflow) -> ResolvedWorkflow:
        """Returns the workflow version that a child would execute.

        Raises:
            ChildRefusedError: the workflow or version does not exist, or cannot be started.
        """
        row = workflows_sql.get_by_name(tx, named.name)
        workflow = None
        if row is not None:
            workflow = load_workflow(self._cache, tx, self._capabilities, row.workflow_id, named.version)
        if workflow is None:
            raise ChildRefusedError(f"there is no workflow named '{named.name}'")
        if (refusal := workflow.refusal()) is not None:
            raise ChildRefusedError(f"workflow '{named.name}' cannot be started: {_words(refusal)}")
        return workflow

    def validate_inputs(self, child: NewChild, workflow: ResolvedWorkflow) -> ValidatedInputs:
        """Validates the parameters of a child; needs no transaction."""
        return validate_inputs(_start(child, workflow), workflow, self._capabilities.providers)

    def start(self, tx: Tx, child: NewChild, inputs: ValidatedInputs) -> None:
        """Writes a child's rows and its parent's event `child.started`, once; wakes launchers.

        Raises:
            ChildRefusedError: the parent is too deep or has too many children, or parameters do not fit; as `resolve`.
            SegmentEndedError: the parent's segment does not run any more.
        """
        if sql.run_exists(tx, child.run_id):
            return
        parent = sql.parent(tx, child.parent_run_id)
        if parent.depth >= MOST_DEPTH:
            raise ChildRefusedError(f"a run may start workflows at most {MOST_DEPTH} deep")
        if parent.children >= MOST_CHILDREN:
            raise ChildRefusedError(f"a run may start at most {MOST_CHILDREN} others")
        workflow = self.resolve(tx, child.workflow)
        if inputs.workflow is not workflow:
            inputs = self.validate_inputs(child, workflow)
        if isinstance(inputs.parameters, ApiError):
            raise ChildRefusedError(
                f"its parameters do not fit workflow '{child.workflow.name}': {_words(inputs.parameters)}"
            )
        start = _start(child, workflow)._replace(
            key_id=parent.key_id,
            client_reference=parent.client_reference,
            labels=parent.labels,
            triggered_by=parent.triggered_by,
            parent=ParentStep(child.parent_run_id, child.step, child.item, parent.depth + 1),
        )
        new = new_run(start, inputs, child.run_id)
        rows = sql.StartRows(runs=[new.run], steps=new.steps, segments=[new.segment])
        if child.trace is not None:
            rows.traces.append(sql.trace_row(child.run_id, child.trace))
        sql.add(tx, rows)
        data = {"run_id": child.run_id, "status": RunStatus.QUEUED.value, "item_index": child.item}
        append_events(tx, child.segment_id, child.at, [NewEvent("child.started", child.step, data)])
        tx.changes_run(child.run_id, parent.key_id)
        tx.announce(QUEUED)
        tx.after_commit(lambda: count_recorded([new.run]))
        log_change(
            tx,
            child.run_id,
            None,
            RunStatus.QUEUED,
            key_id=parent.key_id,
            workflow_id=workflow.workflow_id,
            segment_id=new.segment.segment_id,
        )


def _start(child: NewChild, workflow: ResolvedWorkflow) -> ParsedStart:
    return ParsedStart(
        key_id="",
        workflow_id=workflow.workflow_id,
        idempotency_key="",
        fingerprint="",
        version=workflow.version,
        parameters=child.parameters,
        policy_override=None,
        input_text=None,
        client_reference=None,
        labels="{}",
        triggered_by="",
        at=child.at,
        trace=child.trace,
    )


def _words(refusal: ApiError) -> str:
    """Returns the reasons and problems of a refusal as one text, or its message if it has none."""
    particulars = [*refusal.reasons, *(f"{name} {reason}" for name, reason in refusal.problems)]
    return "; ".join(particulars) if particulars else refusal.message
