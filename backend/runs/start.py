"""Starting a run: every check and everything it leaves in one transaction. (DECISIONS.md, 4)."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from backend import json_text, metrics
from backend.clock import DAY_MS, utc_day
from backend.errors import ApiError
from backend.ids import new_id
from backend.interceptors import Caller
from backend.run_status import QUEUED
from backend.runs import start_store, wire
from backend.runs.admission import Case, Inputs, first_refusal, judge_inputs
from backend.runs.attempt import Attempt, read_attempt
from backend.runs.reach import find_run
from backend.runs.redaction_manifest import pending_manifest
from backend.runs.runtime_port import Runtime
from backend.services import Services
from backend.storage.database import ClaimedError, Tx, key_of
from backend.workflows.known_terms import load_terms
from backend.workflows.terms import WorkflowTerms
from workflow_api.v1 import errors_pb2, runs_pb2

RECORD_LIFE_MS: Final = DAY_MS
"""How long an idempotency key stays bound. (SPEC.md, Request and payload bounds)"""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Decided:
    """The run that a start comes to; `new` is its row where this start recorded it."""

    run_id: str
    new: Row | None = None


class Starts:
    """Starts runs. One start at a time decides on an idempotency key; the others hear that it is being decided."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._database = services.database
        self._clock = services.clock
        self._kept = services.kept
        self._providers = services.model_providers
        self._runtime = runtime

    def start(self, request: runs_pb2.StartRunRequest, caller: Caller) -> runs_pb2.StartRunResponse:
        """Starts a run, or answers the run that the same start made before.

        Raises:
            ApiError: a refusal of `admission.CHECKS`, `idempotency_conflict`, or `unauthorized` for a key that is gone.
        """
        attempt = read_attempt(request, caller.key_id, self._clock())
        inputs = self._inputs(attempt)
        try:
            decided = self._database.write(
                lambda tx: self._decide(tx, attempt, inputs),
                of=key_of(attempt.key_id),
                claim=claim_of(attempt.key_id, attempt.idempotency_key),
            )
        except ClaimedError:
            return self._while_being_decided(attempt)
        if decided.new is None:
            return self._replay(decided.run_id)
        return runs_pb2.StartRunResponse(run=wire.detail(SimpleNamespace(**decided.new)))

    def _inputs(self, attempt: Attempt) -> Inputs | None:
        """Judges the inputs before the transaction, which judges anew only where the terms changed meanwhile."""
        terms = self._database.snapshot(lambda tx: self._terms(tx, attempt))
        if terms is None or terms.refusal() is not None:
            return None
        return judge_inputs(attempt, terms, self._providers)

    def _terms(self, tx: Tx, attempt: Attempt) -> WorkflowTerms | None:
        return load_terms(self._kept, tx, self._providers, attempt.workflow_id, attempt.version)

    def _decide(self, tx: Tx, attempt: Attempt, inputs: Inputs | None) -> _Decided | ApiError:
        """Records a new run, or finds the one that exists.

        A refusal is returned, not raised, so that the binding of the idempotency key stays.
        """
        day = utc_day(attempt.at)
        facts = start_store.facts(tx, attempt.key_id, attempt.idempotency_key, day)
        if attempt.key_id and facts.key_id is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        bound = _is_bound(facts, attempt.at)
        if bound and facts.fingerprint != attempt.fingerprint:
            return ApiError(errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT)
        if bound and facts.run_id is not None:
            return _Decided(facts.run_id)
        terms = self._terms(tx, attempt)
        if terms is not None and terms.refusal() is None and (inputs is None or inputs.terms is not terms):
            inputs = judge_inputs(attempt, terms, self._providers)
        refusal = first_refusal(Case(attempt, facts, terms, inputs))
        run_id = new_id("run") if refusal is None else None
        if not bound or run_id is not None:
            start_store.bind(
                tx,
                attempt.key_id,
                attempt.idempotency_key,
                exists=facts.fingerprint is not None,
                fingerprint=attempt.fingerprint,
                run_id=run_id,
                first_used_at=facts.first_used_at if bound else attempt.at,
            )
        if run_id is None:
            return refusal  # type: ignore[return-value]  # there is no run id because there is a refusal
        assert terms is not None
        assert inputs is not None
        run = _new_run(run_id, attempt, terms, inputs)
        start_store.add_run(tx, run, _board(run_id, terms), new_id("seg"))
        if attempt.key_id:
            start_store.count_start(tx, attempt.key_id, day, first=facts.runs_started is None)
        tx.after_commit(metrics.RUNS_STARTED.add)
        tx.after_commit(self._runtime.wake)
        return _Decided(run_id, run)

    def _while_being_decided(self, attempt: Attempt) -> runs_pb2.StartRunResponse:
        record = self._database.read(lambda tx: start_store.record(tx, attempt.key_id, attempt.idempotency_key))
        if record is not None and _is_bound(record, attempt.at):
            if record.fingerprint != attempt.fingerprint:
                raise ApiError(errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT)
            if record.run_id is not None:
                return self._replay(record.run_id)
        raise ApiError(
            errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT,
            "The first request with this Idempotency-Key is still being processed.",
            retry_after=1,
        )

    def _replay(self, run_id: str) -> runs_pb2.StartRunResponse:
        row = self._database.read(lambda tx: find_run(tx, run_id, None))
        return runs_pb2.StartRunResponse(run=wire.detail(row), replayed=True)


def claim_of(key_id: str, idempotency_key: str) -> str:
    """What a start holds while it is being decided."""
    return f"start {key_id} {idempotency_key}"


def _is_bound(record: Any, at: int) -> bool:
    """Whether an idempotency record still holds: for 24 h from its first use."""
    return record.fingerprint is not None and at - record.first_used_at < RECORD_LIFE_MS


def _new_run(run_id: str, attempt: Attempt, terms: WorkflowTerms, inputs: Inputs) -> Row:
    assert isinstance(inputs.policy, dict)
    manifest = pending_manifest(run_id, inputs.policy)
    return dict.fromkeys(start_store.RUN_COLUMNS) | {
        "run_id": run_id,
        "key_id": attempt.key_id,
        "workflow_id": attempt.workflow_id,
        "workflow_name": terms.name,
        "version": terms.version,
        "status": QUEUED,
        "triggered_by": attempt.triggered_by,
        "created_at": attempt.at,
        "client_reference": attempt.client_reference,
        "labels": attempt.labels,
        "steps_total": len(terms.steps),
        "steps_completed": 0,
        "steps_failed": 0,
        "steps_skipped": 0,
        "approvals_pending": 0,
        "outputs_count": 0,
        "warnings": "[]",
        "parameters": json_text.write(inputs.parameters),
        "input_text": attempt.input_text,
        "max_run_hours": terms.max_run_hours,
        "result_schema_version": terms.result_schema_version,
        "pii_policy": json_text.write(inputs.policy),
        "pii_redaction": manifest,
        # With a policy, outputs stay closed from the beginning until the final sweep has passed them.
        "redaction_state": "none" if manifest is None else "pending",
    }


def _board(run_id: str, terms: WorkflowTerms) -> list[Row]:
    return [
        {
            "run_id": run_id,
            "position": position,
            "step": step.step,
            "name": step.name,
            "kind": step.kind,
            "status": "pending",
            "needs": json_text.write(step.needs),
            "agent_id": step.agent_id,
            "segment_id": None,
            "attempt": 0,
            "optional": int(step.optional),
            "started_at": None,
            "finished_at": None,
            "error_code": None,
            "error_message": None,
            "value": None,
        }
        for position, step in enumerate(terms.steps)
    ]
