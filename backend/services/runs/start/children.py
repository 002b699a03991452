"""Starts children: runs of steps that name a workflow. They take neither slots nor quota of their key."""

from typing import Final, NamedTuple

from backend.common.caches import RevisionedCache
from backend.common.deployment_terms import Capabilities
from backend.common.errors import ApiError
from backend.common.json_text import JsonObject
from backend.common.states import QUEUED, RunStatus
from backend.services.runs.change_records import NewEvent, log_change
from backend.services.runs.lifecycle import append_events
from backend.services.runs.start import children_sql, sql
from backend.services.runs.start.new_run import new_run
from backend.services.runs.start.rules import Inputs, ParentStep, ParsedStart, judge_inputs
from backend.services.runs.start.start_group import count_recorded
from backend.services.workflows import sql as workflows_sql
from backend.services.workflows.resolved_workflow import ChildWorkflow, ResolvedWorkflow, load_workflow
from backend.services.workflows.rules import MOST_DEPTH
from backend.storage.database import Tx

MOST_CHILDREN: Final = 100
"""Most children of a run, those included that were started for an attempt that failed."""


class ChildRefusedError(Exception):
    """A child cannot be started; the text says why, for a person."""


class NewChild(NamedTuple):
    """A child to start for a step, or for an item of it, of a segment that executes.

    `run_id` is made once for each attempt: a change that is made again finds the run that it has started.
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
    """Starts children, as the runtime of the parent does. Thread-safe."""

    def __init__(self, cache: RevisionedCache, capabilities: Capabilities) -> None:
        self._cache = cache
        self._capabilities = capabilities

    def terms(self, tx: Tx, workflow: ChildWorkflow) -> ResolvedWorkflow:
        """Returns the version that a child would run.

        Raises:
            ChildRefusedError: there is none, or it cannot be started.
        """
        row = workflows_sql.get_by_name(tx, workflow.name)
        terms = None
        if row is not None:
            terms = load_workflow(self._cache, tx, self._capabilities, row.workflow_id, workflow.version)
        if terms is None:
            raise ChildRefusedError(f"there is no workflow named '{workflow.name}'")
        if (refusal := terms.refusal()) is not None:
            raise ChildRefusedError(f"workflow '{workflow.name}' cannot be started: {_words(refusal)}")
        return terms

    def judge(self, child: NewChild, terms: ResolvedWorkflow) -> Inputs:
        """Judges the parameters of a child; needs no transaction."""
        return judge_inputs(_start(child, terms), terms, self._capabilities.providers)

    def start(self, tx: Tx, child: NewChild, inputs: Inputs) -> None:
        """Records a child, and `child.started` of its parent, once; wakes launchers.

        Raises:
            ChildRefusedError: its parent is too deep, or has too many; as `terms`; or its parameters do not fit.
            SegmentEndedError: the parent's segment does not run any more.
        """
        if children_sql.exists(tx, child.run_id):
            return
        parent = children_sql.parent(tx, child.parent_run_id)
        if parent.depth >= MOST_DEPTH:
            raise ChildRefusedError(f"a run may start workflows at most {MOST_DEPTH} deep")
        if parent.children >= MOST_CHILDREN:
            raise ChildRefusedError(f"a run may start at most {MOST_CHILDREN} others")
        terms = self.terms(tx, child.workflow)
        if inputs.terms is not terms:
            inputs = self.judge(child, terms)
        if isinstance(inputs.parameters, ApiError):
            raise ChildRefusedError(
                f"its parameters do not fit workflow '{child.workflow.name}': {_words(inputs.parameters)}"
            )
        start = _start(child, terms)._replace(
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
            workflow_id=terms.workflow_id,
            segment_id=new.segment.segment_id,
        )


def _start(child: NewChild, terms: ResolvedWorkflow) -> ParsedStart:
    return ParsedStart(
        key_id="",
        workflow_id=terms.workflow_id,
        idempotency_key="",
        fingerprint="",
        version=terms.version,
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
    """Returns what a refusal says, with its particulars."""
    particulars = [*refusal.reasons, *(f"{name} {reason}" for name, reason in refusal.problems)]
    return "; ".join(particulars) if particulars else refusal.message
