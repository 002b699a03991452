"""Starts runs: all checks and all rows of a start in one transaction (contract 12).

A start is parsed, compared with its idempotency record and checked (`rules`), turned into rows (`new_run`) and
written (`start_group`, `sql`).
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from backend.common.clock import to_text, utc_day
from backend.common.errors import ApiError, invalid
from backend.common.principal import Principal
from backend.common.states import RunStatus
from backend.common.waits import Deferred
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.runs import interruptions, interruptions_sql, messages
from backend.services.runs.change_records import log_change, log_steps
from backend.services.runs.reads import find_run, find_state
from backend.services.runs.runtime_port import BegunSegment, Runtime
from backend.services.runs.start import sql
from backend.services.runs.start.new_run import NewRun, idempotency_record, new_run
from backend.services.runs.start.optimistic_start import OptimisticStart
from backend.services.runs.start.rules import (
    ParsedStart,
    Resumption,
    StartContext,
    ValidatedInputs,
    claim_of,
    earlier_run,
    first_refusal,
    is_bound,
    parse_start,
    validate_inputs,
)
from backend.services.runs.start.start_group import StartGroup, count_recorded
from backend.services.runs.start.uploaded import UploadedInputs, check_upload, take_uploads
from backend.services.workflows.resolved_workflow import ResolvedWorkflow, cached_workflow, load_workflow
from backend.storage.database import ClaimedError, Tx, key_of
from backend.storage.tables.runs import RunRow
from workflow_api.v1 import errors_pb2, runs_pb2

_QUICK_BYTES: Final = 2_048


class _StartDecision(NamedTuple):
    """The run that answers a start; `new` is its row, None for a replay.

    `begun` is its first segment, if that has begun.
    """

    run_id: str
    new: RunRow | None = None
    begun: BegunSegment | None = None


class RunStarter:
    """Starts runs. While one start decides on an idempotency key, other starts with that key are refused."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._database = services.database
        self._clock = services.clock
        self._cache = services.cache
        self._capabilities = services.capabilities
        self._runtime = runtime
        single_round_trip = services.database.single_round_trip
        self._optimistic = None if single_round_trip is None else OptimisticStart(single_round_trip, services.cache)

    def start(self, request: runs_pb2.StartRunRequest, caller: Principal) -> Deferred[runs_pb2.StartRunResponse]:
        """Starts a run, or returns the run of an earlier start with this idempotency key.

        Raises, at once or with the answer:
            ApiError: a refusal of the checks, `idempotency_conflict`, or `unauthorized` for a key that is gone.
        """
        return self.start_parsed(parse_start(request, caller.key_id, self._clock()), caller)

    def start_parsed(self, start: ParsedStart, caller: Principal) -> Deferred[runs_pb2.StartRunResponse]:
        """Starts a run as `start`, from a parsed start, which may come from a resume or a schedule."""
        inputs = self._validate_inputs(start)
        try:
            new = self._start_optimistically(start, inputs, caller.request_id)
        except ClaimedError:
            return Deferred.done(self._answer_undecided(start))
        if new is not None:
            return Deferred.done(_started(new))
        begun: list[BegunSegment] = []
        change = self._database.write_grouped(
            self._decide_all,
            (start, inputs, begun, caller),
            lock_key=key_of(start.key_id),
            claim=claim_of(start.key_id, start.idempotency_key),
        )
        change.add_done_callback(partial(_settle, begun))
        return Deferred(change, partial(self._answer, start))

    def refusal(self, start: ParsedStart, inputs: ValidatedInputs) -> ApiError | None:
        """Returns why a new start would be refused at the moment, or None; the start itself is checked once more."""
        day = utc_day(start.at)
        facts = self._database.read(lambda tx: sql.facts(tx, start.key_id, start.idempotency_key, day))
        if is_bound(facts, start.at) and facts.run_id is not None:
            return None
        return first_refusal(StartContext(start, facts, inputs.workflow, inputs))

    def fits_event_loop(self, request: runs_pb2.StartRunRequest) -> bool:
        """Returns whether `start` needs no read and validates the inputs in well under a millisecond."""
        if request.ByteSize() > _QUICK_BYTES:
            return False
        workflow = cached_workflow(
            self._cache, request.workflow_id, request.version if request.HasField("version") else None
        )
        return workflow is not None and workflow.validates_quickly

    def _answer(self, start: ParsedStart, change: "Future[_StartDecision | ApiError]") -> runs_pb2.StartRunResponse:
        try:
            decided = change.result()
        except ClaimedError:
            return self._answer_undecided(start)
        if isinstance(decided, ApiError):
            raise decided
        return self._replay(decided.run_id) if decided.new is None else _started(decided.new)

    def _validate_inputs(self, start: ParsedStart) -> ValidatedInputs | None:
        """Validates the inputs before the transaction, which repeats it only if the workflow has changed.

        Returns None if the workflow is missing or refuses starts, or if files were uploaded; then the transaction
        validates them.
        """
        if start.upload_id:
            return None
        workflow = cached_workflow(self._cache, start.workflow_id, start.version)
        if workflow is None:
            workflow = self._database.snapshot(lambda tx: self._load_workflow(tx, start))
        if workflow is None or workflow.refusal() is not None:
            return None
        return validate_inputs(start, workflow, self._capabilities.providers)

    def _start_optimistically(
        self, start: ParsedStart, inputs: ValidatedInputs | None, request_id: str
    ) -> RunRow | None:
        new = (
            None
            if self._optimistic is None or inputs is None or start.resumption or start.scheduled
            else self._optimistic.start(start, inputs)
        )
        if new is None:
            return None
        count_recorded([new.run])
        _log_start(None, start, new, RunStatus.QUEUED, request_id)
        self._runtime.wake()
        return new.run

    def _decide_all(
        self, tx: Tx, starts: Sequence[tuple[ParsedStart, ValidatedInputs | None, list[BegunSegment], Principal]]
    ) -> list[_StartDecision | ApiError]:
        """Decides starts one after the other, and writes their rows together."""
        group = StartGroup(tx, [start for start, *_ in starts])
        decided = [self._decide(group, *start) for start in starts]
        group.write()
        return decided

    def _decide(
        self,
        group: StartGroup,
        start: ParsedStart,
        inputs: ValidatedInputs | None,
        begun: list[BegunSegment],
        caller: Principal,
    ) -> _StartDecision | ApiError:
        """Adds a new run to the group, or finds the run of an earlier start.

        A refusal is returned, not raised, so that the idempotency record is committed. Starts by people are audited; a
        key's run has the key in its row.
        """
        # Segments of an earlier attempt, whose transaction was rolled back.
        for undone in begun:
            undone.settle(False)
        begun.clear()
        facts = group.facts(start)
        if start.key_id and facts.key_id is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        if self._optimistic is not None:
            self._optimistic.remember(start.key_id, facts)
        bound = is_bound(facts, start.at)
        earlier = earlier_run(facts, start.fingerprint) if bound else None
        if earlier is not None:
            return earlier if isinstance(earlier, ApiError) else _StartDecision(earlier)
        uploaded = check_upload(group.tx, start.upload_id, caller.actor, start.at) if start.upload_id else None
        if isinstance(uploaded, ApiError):
            return uploaded
        workflow = self._load_workflow(group.tx, start, facts.resource_revision)
        if workflow is not None and (inputs is None or inputs.workflow is not workflow) and workflow.refusal() is None:
            inputs = validate_inputs(start, workflow, self._capabilities.providers, uploaded)
        refusal = first_refusal(StartContext(start, facts, workflow, inputs))
        first_used_at = (facts.first_used_at if bound else None) or start.at
        exists = facts.fingerprint is not None
        if refusal is not None:
            if not bound:
                group.bind(idempotency_record(start, None, first_used_at), exists=exists)
            return refusal
        assert inputs is not None
        new = new_run(start, inputs)
        group.bind(idempotency_record(start, new.run.run_id, first_used_at), exists=exists)
        return self._admit(group, start, new, inputs, uploaded, begun, caller)

    def _admit(
        self,
        group: StartGroup,
        start: ParsedStart,
        new: NewRun,
        inputs: ValidatedInputs,
        uploaded: UploadedInputs | None,
        begun: list[BegunSegment],
        caller: Principal,
    ) -> _StartDecision:
        """Adds a new run to the group, and begins its first segment if this process has a free slot."""
        run_id = new.run.run_id
        if start.resumption is not None:
            _link(group.tx, start.resumption, new.run)
        if start.scheduled is not None:
            start.scheduled.admit(group.tx, run_id)
        if uploaded is not None:
            take_uploads(group.tx, uploaded, run_id, caller.actor, start.at)
        # Uploaded files, and files of reused steps, must be copied first.
        copies = uploaded is not None or start.resumption is not None
        segment = None if copies else self._begin(new, inputs, begun, start.at)
        status = group.add(start, new, segment)
        if segment is None:
            group.tx.after_commit(self._runtime.wake)
        else:
            log_steps(group.tx, run_id, new.segment.segment_id, segment.events)
        _log_start(group.tx, start, new, status, caller.request_id)
        if not start.key_id or start.resumption is not None:
            _audit(group.tx, start, new.run, caller)
        return _StartDecision(run_id, new.run, segment)

    def _begin(self, new: NewRun, inputs: ValidatedInputs, begun: list[BegunSegment], at: int) -> BegunSegment | None:
        """Begins a run's first segment if this process has a free slot, and adds it to `begun` for `_settle`."""
        assert isinstance(inputs.parameters, dict)
        segment_id = new.segment.segment_id
        segment = self._runtime.begin_run(new.run, segment_id, new.steps, inputs.workflow, inputs.parameters, at)
        if segment is not None:
            begun.append(segment)
        return segment

    def _load_workflow(self, tx: Tx, start: ParsedStart, revision: int | None = None) -> ResolvedWorkflow | None:
        return load_workflow(self._cache, tx, self._capabilities, start.workflow_id, start.version, revision=revision)

    def _answer_undecided(self, start: ParsedStart) -> runs_pb2.StartRunResponse:
        """Answers a start while another start decides on its idempotency key."""
        record = self._database.read(lambda tx: sql.record(tx, start.key_id, start.idempotency_key))
        earlier = earlier_run(record, start.fingerprint) if record is not None and is_bound(record, start.at) else None
        if isinstance(earlier, ApiError):
            raise earlier
        if earlier is not None:
            return self._replay(earlier)
        raise ApiError(
            errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT,
            "The first request with this Idempotency-Key is still being processed.",
            retry_after=1,
        )

    def _replay(self, run_id: str) -> runs_pb2.StartRunResponse:
        row = self._database.read(lambda tx: find_run(tx, run_id, None))
        return runs_pb2.StartRunResponse(run=messages.detail(row), replayed=True)


def _settle(begun: Sequence[BegunSegment], change: "Future[_StartDecision | ApiError]") -> None:
    """Executes the segment of the committed attempt of a start, and releases segments of rolled-back attempts."""
    decided = None if change.exception() is not None else change.result()
    held = decided.begun if isinstance(decided, _StartDecision) else None
    for segment in begun:
        segment.settle(segment is held)


def _log_start(tx: Tx | None, start: ParsedStart, new: NewRun, status: RunStatus, request_id: str) -> None:
    log_change(
        tx,
        new.run.run_id,
        None,
        status,
        key_id=start.key_id,
        workflow_id=start.workflow_id,
        segment_id=new.segment.segment_id,
        request_id=request_id,
    )


def _audit(tx: Tx, start: ParsedStart, run: RunRow, caller: Principal) -> None:
    details: dict[str, object] = {"workflow_id": start.workflow_id, "version": run.version}
    if start.upload_id:
        details["upload_id"] = start.upload_id
    if start.resumption is not None:
        details["resumed_from"] = start.resumption.run_id
    if start.scheduled is not None:
        details["schedule"] = start.scheduled.schedule
        if start.scheduled.due_at is not None:
            details["due_at"] = to_text(start.scheduled.due_at)
    audit.record(tx, at=start.at, actor=caller.audit_name, action="run.started", target=run.run_id, details=details)


def _link(tx: Tx, resumption: Resumption, run: RunRow) -> None:
    """Links an ended run with the run that resumes it.

    Raises:
        ApiError: `already_purged` if its data was erased meanwhile, `invalid_request` if another run resumed it.
    """
    if not sql.set_resumed_by(tx, resumption.run_id, run.run_id, again=resumption.again):
        ended = find_state(tx, resumption.run_id, None)
        if ended.data_purged_at is not None:
            purged_at = to_text(ended.data_purged_at)
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_PURGED, metadata={"data_purged_at": purged_at})
        raise _taken_over()
    if not resumption.interrupted:
        interruptions_sql.settle(tx, resumption.run_id, None)
    elif not interruptions.follow(tx, resumption.run_id, run.run_id, run.created_at):
        raise _taken_over()
    tx.changes_run(resumption.run_id, run.key_id)


def _taken_over() -> ApiError:
    return invalid("run_id", "must be of a run that no run has taken over from; one did meanwhile")


def _started(new: RunRow) -> runs_pb2.StartRunResponse:
    return runs_pb2.StartRunResponse(run=messages.detail(new))
