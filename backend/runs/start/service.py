"""Starting a run: every check and everything it leaves in one transaction. (DECISIONS.md, 4)."""

from dataclasses import dataclass
from typing import Final

from backend import metrics
from backend.clock import DAY_MS, utc_day
from backend.errors import ApiError
from backend.rpc.interceptors import Caller
from backend.runs import messages
from backend.runs.run_lookup import find_run
from backend.runs.runtime_port import Runtime
from backend.runs.start import optimistic_start_sql, sql
from backend.runs.start.admission import Inputs, StartContext, first_refusal, judge_inputs
from backend.runs.start.new_run import Row, binding, new_run
from backend.runs.start.optimistic_start import OptimisticStart
from backend.runs.start.parsed_start import ParsedStart, parse_start
from backend.services import Services
from backend.storage.database import ClaimedError, Tx, key_of
from backend.storage.tables.runs import RunRow
from backend.workflows.terms import WorkflowTerms
from backend.workflows.terms_cache import cached_terms, load_terms
from workflow_api.v1 import errors_pb2, runs_pb2

RECORD_LIFE_MS: Final = DAY_MS
"""How long an idempotency key stays bound. (SPEC.md, Request and payload bounds)"""


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
        self._cache = services.cache
        self._providers = services.model_providers
        self._runtime = runtime
        self._optimistic_start = OptimisticStart()

    def start(self, request: runs_pb2.StartRunRequest, caller: Caller) -> runs_pb2.StartRunResponse:
        """Starts a run, or answers the run that the same start made before.

        Raises:
            ApiError: a refusal of `admission.CHECKS`, `idempotency_conflict`, or `unauthorized` for a key that is gone.
        """
        parsed_start = parse_start(request, caller.key_id, self._clock())
        inputs = self._inputs(parsed_start)
        try:
            decided = self._start_optimistically(parsed_start, inputs) or self._database.write(
                lambda tx: self._decide(tx, parsed_start, inputs),
                lock_key=key_of(parsed_start.key_id),
                claim=claim_of(parsed_start.key_id, parsed_start.idempotency_key),
            )
        except ClaimedError:
            return self._while_being_decided(parsed_start)
        if isinstance(decided, ApiError):
            raise decided
        if decided.new is None:
            return self._replay(decided.run_id)
        return runs_pb2.StartRunResponse(run=messages.detail(RunRow(**decided.new)))

    def _inputs(self, parsed_start: ParsedStart) -> Inputs | None:
        """Judges the inputs before the transaction, which judges anew only where the terms changed meanwhile."""
        terms = cached_terms(self._cache, parsed_start.workflow_id, parsed_start.version)
        if terms is None:
            terms = self._database.snapshot(lambda tx: self._terms(tx, parsed_start))
        if terms is None or terms.refusal() is not None:
            return None
        return judge_inputs(parsed_start, terms, self._providers)

    def _terms(self, tx: Tx, parsed_start: ParsedStart, revision: int | None = None) -> WorkflowTerms | None:
        return load_terms(
            self._cache, tx, self._providers, parsed_start.workflow_id, parsed_start.version, revision=revision
        )

    def _start_optimistically(self, parsed_start: ParsedStart, inputs: Inputs | None) -> _Decided | None:
        """Starts a run in one round trip where all is as the last start of the key met it; None where it is not.

        It is judged by the same checks as any other, by facts that the database then finds to hold.
        """
        single_round_trip, facts = self._database.single_round_trip, self._optimistic_start.of(parsed_start.key_id)
        if single_round_trip is None or facts is None or inputs is None:
            return None
        known = cached_terms(self._cache, parsed_start.workflow_id, parsed_start.version, facts.resource_revision)
        if known is not inputs.terms or first_refusal(StartContext(parsed_start, facts, known, inputs)) is not None:
            return None
        new = new_run(parsed_start, inputs)
        facts, started = optimistic_start_sql.start(
            single_round_trip,
            facts,
            new,
            binding(parsed_start, new.run_id, parsed_start.at),
            utc_day(parsed_start.at),
            lock_key=key_of(parsed_start.key_id),
            claim=claim_of(parsed_start.key_id, parsed_start.idempotency_key),
        )
        self._optimistic_start.met(parsed_start.key_id, facts)
        # Its own run it meets where the connection was lost after it was started.
        if not started and facts.run_id != new.run_id:
            return None
        metrics.RUNS_STARTED.add()
        self._runtime.wake()
        return _Decided(new.run_id, new.run)

    def _decide(self, tx: Tx, parsed_start: ParsedStart, inputs: Inputs | None) -> _Decided | ApiError:
        """Records a new run, or finds the one that exists.

        A refusal is returned, not raised, so that the binding of the idempotency key stays.
        """
        day = utc_day(parsed_start.at)
        facts = sql.facts(tx, parsed_start.key_id, parsed_start.idempotency_key, day)
        if parsed_start.key_id and facts.key_id is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        if self._database.single_round_trip is not None:
            self._optimistic_start.met(parsed_start.key_id, facts)
        bound = _is_bound(facts, parsed_start.at)
        if bound and facts.fingerprint != parsed_start.fingerprint:
            return ApiError(errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT)
        if bound and facts.run_id is not None:
            return _Decided(facts.run_id)
        terms = self._terms(tx, parsed_start, facts.resource_revision)
        if terms is not None and terms.refusal() is None and (inputs is None or inputs.terms is not terms):
            inputs = judge_inputs(parsed_start, terms, self._providers)
        refusal = first_refusal(StartContext(parsed_start, facts, terms, inputs))
        first_used_at = (facts.first_used_at if bound else None) or parsed_start.at
        exists = facts.fingerprint is not None
        if refusal is not None:
            if not bound:
                sql.bind(tx, binding(parsed_start, None, first_used_at), exists=exists)
            return refusal
        assert inputs is not None
        new = new_run(parsed_start, inputs)
        sql.bind(tx, binding(parsed_start, new.run_id, first_used_at), exists=exists)
        sql.add_run(tx, new.run, new.board, new.segment)
        if parsed_start.key_id:
            sql.count_start(tx, parsed_start.key_id, day, first=facts.runs_started is None)
        tx.after_commit(metrics.RUNS_STARTED.add)
        tx.after_commit(self._runtime.wake)
        return _Decided(new.run_id, new.run)

    def _while_being_decided(self, parsed_start: ParsedStart) -> runs_pb2.StartRunResponse:
        record = self._database.read(lambda tx: sql.record(tx, parsed_start.key_id, parsed_start.idempotency_key))
        if record is not None and _is_bound(record, parsed_start.at):
            if record.fingerprint != parsed_start.fingerprint:
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
        return runs_pb2.StartRunResponse(run=messages.detail(row), replayed=True)


def claim_of(key_id: str, idempotency_key: str) -> str:
    """What a start holds while it is being decided."""
    return f"start {key_id} {idempotency_key}"


def _is_bound(record: sql.FactsRow | sql.RecordRow, at: int) -> bool:
    """Whether an idempotency record still holds: for 24 h from its first use."""
    return record.first_used_at is not None and at - record.first_used_at < RECORD_LIFE_MS
