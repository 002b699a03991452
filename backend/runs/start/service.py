"""Starts runs: all checks and all rows of a start in one transaction (contract 12).

A start is parsed (`parsed_start`), compared with its idempotency record (`idempotency`), judged (`admission`), turned
into rows (`new_run`) and written (`sql`).
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from backend import metrics, workflow_metrics
from backend.audit import sql as audit
from backend.caller import Caller
from backend.deferred import Deferred
from backend.errors import ApiError
from backend.log_events import RUN
from backend.run_status import RunStatus
from backend.runs import messages
from backend.runs.change_log import log_change, log_steps, message_of, run_fields
from backend.runs.run_lookup import find_run
from backend.runs.runtime_port import BegunSegment, Runtime
from backend.runs.start import idempotency, sql
from backend.runs.start.admission import Inputs, StartContext, first_refusal, judge_inputs
from backend.runs.start.new_run import NewRun, binding, new_run
from backend.runs.start.optimistic_start import OptimisticStart
from backend.runs.start.parsed_start import ParsedStart, parse_start
from backend.runs.start.sql import FactsRow
from backend.runs.start.start_group import StartGroup
from backend.runs.start.uploaded import take_uploads, uploaded_inputs
from backend.services import Services
from backend.storage.database import ClaimedError, Tx, key_of
from backend.storage.tables.runs import RunRow
from backend.workflows.parameters import judged_quickly
from backend.workflows.terms import WorkflowTerms
from backend.workflows.terms_cache import cached_terms, load_terms
from workflow_api.v1 import errors_pb2, runs_pb2

_QUICK_BYTES: Final = 2_048


class _Decision(NamedTuple):
    """The run that answers a start; `new` is its row where this start created it, None for a replay.

    `begun` is its first segment where that has begun.
    """

    run_id: str
    new: RunRow | None = None
    begun: BegunSegment | None = None


class Starts:
    """Starts runs. One start at a time decides on an idempotency key; others are refused while it does."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._database = services.database
        self._clock = services.clock
        self._cache = services.cache
        self._capabilities = services.capabilities
        self._runtime = runtime
        single_round_trip = services.database.single_round_trip
        self._optimistic = None if single_round_trip is None else OptimisticStart(single_round_trip, services.cache)

    def start(self, request: runs_pb2.StartRunRequest, caller: Caller) -> Deferred[runs_pb2.StartRunResponse]:
        """Starts a run, or answers with the run that the same start made before.

        Raises, at once or with the answer:
            ApiError: a refusal of `admission.CHECKS`, `idempotency_conflict`, or `unauthorized` for a key that is gone.
        """
        start = parse_start(request, caller.key_id, self._clock())
        inputs = self._judge_inputs(start)
        try:
            new = self._start_optimistically(start, inputs, caller.request_id)
        except ClaimedError:
            return Deferred.done(self._while_being_decided(start))
        if new is not None:
            return Deferred.done(_started(new))
        begun: list[BegunSegment] = []
        change = self._database.write_grouped(
            self._decide_all, (start, inputs, begun, caller), lock_key=key_of(start.key_id), claim=start.claim
        )
        change.add_done_callback(partial(_settle, begun))
        return Deferred(change, lambda change: self._answer(start, change))

    def begins_quickly(self, request: runs_pb2.StartRunRequest) -> bool:
        """Returns whether `start` reads nothing and judges the inputs in well under a millisecond."""
        if request.ByteSize() > _QUICK_BYTES:
            return False
        terms = cached_terms(self._cache, request.workflow_id, request.version if request.HasField("version") else None)
        return terms is not None and judged_quickly(terms.parameters)

    def _answer(self, start: ParsedStart, change: "Future[_Decision | ApiError]") -> runs_pb2.StartRunResponse:
        try:
            decided = change.result()
        except ClaimedError:
            return self._while_being_decided(start)
        if isinstance(decided, ApiError):
            raise decided
        return self._replay(decided.run_id) if decided.new is None else _started(decided.new)

    def _judge_inputs(self, start: ParsedStart) -> Inputs | None:
        """Checks the inputs before the transaction, which checks them again only if the terms have changed.

        None where it cannot, or where files were uploaded, which the transaction looks at.
        """
        if start.upload_id:
            return None
        terms = cached_terms(self._cache, start.workflow_id, start.version)
        if terms is None:
            terms = self._database.snapshot(lambda tx: self._load_terms(tx, start))
        if terms is None or terms.refusal() is not None:
            return None
        return judge_inputs(start, terms, self._capabilities.providers)

    def _start_optimistically(self, start: ParsedStart, inputs: Inputs | None, request_id: str) -> RunRow | None:
        new = None if self._optimistic is None or inputs is None else self._optimistic.start(start, inputs)
        if new is None:
            return None
        workflow_metrics.count_starts([new.run])
        metrics.RUNS_STARTED.add()
        if RUN.enabled():
            ids = (start.key_id, start.workflow_id, new.segment.segment_id, request_id)
            RUN.write(message_of(None, RunStatus.QUEUED), run_fields(new.run_id, None, RunStatus.QUEUED, *ids))
        self._runtime.wake()
        return new.run

    def _decide_all(
        self, tx: Tx, starts: Sequence[tuple[ParsedStart, Inputs | None, list[BegunSegment], Caller]]
    ) -> list[_Decision | ApiError]:
        """Decides starts one after the other, and writes what they leave."""
        group = StartGroup(tx, [start for start, *_ in starts])
        decided = [self._decide(group, *start) for start in starts]
        group.write()
        return decided

    def _decide(
        self,
        group: StartGroup,
        start: ParsedStart,
        inputs: Inputs | None,
        begun: list[BegunSegment],
        caller: Caller,
    ) -> _Decision | ApiError:
        """Records a new run, or finds the one that exists.

        A refusal is returned, not raised, so that the binding of the idempotency key stays. What people start is
        audited; a run of a key says itself whose it is.
        """
        # Of an attempt whose transaction was undone.
        for undone in begun:
            undone.settle(False)
        begun.clear()
        facts = group.facts(start)
        if start.key_id and facts.key_id is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        if self._optimistic is not None:
            self._optimistic.remember(start.key_id, facts)
        earlier = _earlier(facts, start)
        if earlier is not None:
            return earlier
        uploaded = uploaded_inputs(group.tx, start.upload_id, caller.actor, start.at) if start.upload_id else None
        if isinstance(uploaded, ApiError):
            return uploaded
        terms = self._load_terms(group.tx, start, facts.resource_revision)
        if terms is not None and terms.refusal() is None and (inputs is None or inputs.terms is not terms):
            inputs = judge_inputs(start, terms, self._capabilities.providers, uploaded)
        refusal = first_refusal(StartContext(start, facts, terms, inputs))
        bound = idempotency.is_bound(facts, start.at)
        first_used_at = (facts.first_used_at if bound else None) or start.at
        exists = facts.fingerprint is not None
        if refusal is not None:
            if not bound:
                group.bind(binding(start, None, first_used_at), exists=exists)
            return refusal
        assert inputs is not None
        new = new_run(start, inputs)
        group.bind(binding(start, new.run_id, first_used_at), exists=exists)
        group.admit(start, new.run_id)
        if uploaded is not None:
            take_uploads(group.tx, uploaded, new.run_id, caller.actor, start.at)
        # Files that were uploaded are copied first.
        segment = None if uploaded is not None else self._begin(new, inputs, begun, start.at)
        status = group.add(new, segment, start.at)
        if segment is None:
            group.tx.after_commit(self._runtime.wake)
        else:
            log_steps(group.tx, new.run_id, new.segment.segment_id, segment.events)
        log_change(
            group.tx,
            new.run_id,
            None,
            status,
            key_id=start.key_id,
            workflow_id=start.workflow_id,
            segment_id=new.segment.segment_id,
            request_id=caller.request_id,
        )
        if not start.key_id:
            _audit(group.tx, start, new.run, caller)
        return _Decision(new.run_id, new.run, segment)

    def _begin(self, new: NewRun, inputs: Inputs, begun: list[BegunSegment], at: int) -> BegunSegment | None:
        """Begins a new run's first segment where that can be; adds it to those that are settled at the end."""
        assert isinstance(inputs.parameters, dict)
        segment_id = new.segment.segment_id
        segment = self._runtime.begin_run(new.run, segment_id, new.steps, inputs.terms, inputs.parameters, at)
        if segment is not None:
            begun.append(segment)
        return segment

    def _load_terms(self, tx: Tx, start: ParsedStart, revision: int | None = None) -> WorkflowTerms | None:
        return load_terms(self._cache, tx, self._capabilities, start.workflow_id, start.version, revision=revision)

    def _while_being_decided(self, start: ParsedStart) -> runs_pb2.StartRunResponse:
        """Answers a start whose idempotency key another start is deciding on."""
        record = self._database.read(lambda tx: sql.record(tx, start.key_id, start.idempotency_key))
        if record is not None:
            conflict = idempotency.conflict(record, start)
            if conflict is not None:
                raise conflict
            replayed = idempotency.replayed_run(record, start)
            if replayed is not None:
                return self._replay(replayed)
        raise ApiError(
            errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT,
            "The first request with this Idempotency-Key is still being processed.",
            retry_after=1,
        )

    def _replay(self, run_id: str) -> runs_pb2.StartRunResponse:
        row = self._database.read(lambda tx: find_run(tx, run_id, None))
        return runs_pb2.StartRunResponse(run=messages.detail(row), replayed=True)


def _settle(begun: Sequence[BegunSegment], change: "Future[_Decision | ApiError]") -> None:
    """Settles what one start has begun, which may have been decided more than once."""
    decided = None if change.exception() is not None else change.result()
    held = decided.begun if isinstance(decided, _Decision) else None
    for segment in begun:
        segment.settle(segment is held)


def _earlier(facts: FactsRow, start: ParsedStart) -> _Decision | ApiError | None:
    """Returns the replay or the conflict that an earlier start with the same idempotency key leads to."""
    replayed = idempotency.replayed_run(facts, start)
    return idempotency.conflict(facts, start) or (None if replayed is None else _Decision(replayed))


def _audit(tx: Tx, start: ParsedStart, run: RunRow, caller: Caller) -> None:
    details: dict[str, object] = {"workflow_id": start.workflow_id, "version": run.version}
    if start.upload_id:
        details["upload_id"] = start.upload_id
    audit.record(tx, at=start.at, actor=caller.audit_name, action="run.started", target=run.run_id, details=details)


def _started(new: RunRow) -> runs_pb2.StartRunResponse:
    return runs_pb2.StartRunResponse(run=messages.detail(new))
