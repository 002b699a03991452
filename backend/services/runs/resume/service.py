"""Resumes runs: decides which steps a new run reuses, and starts the run for the same API key."""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.errors import ApiError, invalid
from backend.common.json_text import JsonObject
from backend.common.principal import Principal
from backend.common.states import RunStatus
from backend.services.dependencies import Services
from backend.services.runs import messages
from backend.services.runs import sql as runs_sql
from backend.services.runs.interruptions_sql import DueRow
from backend.services.runs.reads import hide_inputs, require_finished, run_not_found
from backend.services.runs.resume import sql
from backend.services.runs.resume.rules import EndedRun, EndedStep, NewVersion, StepDecision, decide_steps
from backend.services.runs.start import sql as start_sql
from backend.services.runs.start.rules import (
    ParsedStart,
    Resumption,
    ValidatedInputs,
    earlier_run,
    is_bound,
    parse_start,
    validate_inputs,
)
from backend.services.runs.start.service import RunStarter
from backend.services.runs.start.uploaded import UploadedInputs, count_uploads
from backend.services.uploads import sql as uploads_sql
from backend.services.uploads.rules import is_uploaded
from backend.services.uploads.staging import Uploads
from backend.services.workflows import sql as workflows_sql
from backend.services.workflows.pii_policy import FIELDS, Policy
from backend.services.workflows.resolved_workflow import WORKFLOW, ResolvedWorkflow, load_workflow
from backend.storage.database import Tx
from backend.storage.tables.runs import RunRow
from workflow_api.v1 import errors_pb2, runs_pb2

_UPLOADED = "uploaded"
_SERVICE: Final = "system"


class _ResumeRows(NamedTuple):
    """The rows that a resume reads: the run, its steps and uploads, and the old and the new workflow version."""

    run: RunRow
    steps: Sequence[sql.ReusableStepRow]
    uploaded: UploadedInputs | None
    before: ResolvedWorkflow
    now: ResolvedWorkflow
    ended_children: Mapping[str, frozenset[tuple[str, int]]]
    new_children: Mapping[str, tuple[str, int]]


class _ResumePlan(NamedTuple):
    """A validated resume: the start of the new run, without uploaded files, and a decision for each step."""

    start: ParsedStart
    inputs: ValidatedInputs
    version: int
    decisions: Sequence[StepDecision]
    upload_id: str | None
    resumed_by: str | None


class RunResumer:
    """Resumes runs of any key, for people."""

    def __init__(self, services: Services, starter: RunStarter, uploads: Uploads) -> None:
        self._services = services
        self._starter = starter
        self._uploads = uploads

    def resume(self, request: runs_pb2.ResumeRunRequest, caller: Principal) -> runs_pb2.ResumeRunResponse:
        """Starts a run that resumes an ended one; with `dry_run`, only answers which steps it would reuse.

        Raises:
            ApiError: `run_not_found`, `run_not_terminal`, `already_purged`; `invalid_request` if the run completed, its
                key is revoked or expired, or there is no step `from_step`; otherwise as a start.
        """
        if not request.dry_run and not request.idempotency_key:
            raise invalid("idempotency_key", "is required, unless dry_run is true")
        if (replayed := self._replay(request)) is not None:
            hide_inputs(replayed.run, caller)
            return replayed
        plan = self._plan(request, caller)
        answer = runs_pb2.ResumeRunResponse(
            reused=[one.step for one in plan.decisions if one.why is None],
            executed=[
                runs_pb2.ExecutedStep(step=one.step, why=one.why) for one in plan.decisions if one.why is not None
            ],
            version=plan.version,
            resumed_by=plan.resumed_by,
        )
        if request.dry_run:
            return answer
        started = self._start(plan, caller)
        answer.run.CopyFrom(started.run)
        hide_inputs(answer.run, caller)
        answer.replayed = started.replayed
        return answer

    def follow(self, interrupted: DueRow) -> str:
        """Starts the run that resumes an interrupted one automatically, of its version; returns the new run's id.

        Raises:
            ApiError: as `resume`.
        """
        caller = Principal(None, _SERVICE, "")
        request = runs_pb2.ResumeRunRequest(run_id=interrupted.run_id, version=interrupted.version)
        plan = self._plan(request, caller)
        assert plan.start.resumption is not None
        start = plan.start._replace(
            idempotency_key=f"interrupted {interrupted.run_id}",
            triggered_by=interrupted.triggered_by,
            resumption=plan.start.resumption._replace(interrupted=True),
        )
        return self._start(plan._replace(start=start), caller).run.summary.run_id

    def _start(self, plan: _ResumePlan, caller: Principal) -> runs_pb2.StartRunResponse:
        """Starts the new run with a copy of the uploaded files; expires the copy if no new run was started."""
        upload_id = ""
        if plan.upload_id is not None:
            # A start that is refused, which may be tried again for an hour, must not copy the files each time.
            if (refusal := self._starter.refusal(plan.start, plan.inputs)) is not None:
                raise refusal
            upload_id = self._uploads.copy(plan.upload_id, caller.actor)
        started = None
        try:
            deferred = self._starter.start_parsed(plan.start._replace(upload_id=upload_id), caller)
            wait([deferred.change])
            started = deferred.answer(deferred.change)
        finally:
            if upload_id and (started is None or started.replayed):
                self._uploads.expire(upload_id)
        return started

    def _replay(self, request: runs_pb2.ResumeRunRequest) -> runs_pb2.ResumeRunResponse | None:
        """Returns the answer of an earlier call with this idempotency key, or None; raises as `earlier_run`."""
        if request.dry_run:
            return None

        def work(tx: Tx) -> runs_pb2.ResumeRunResponse | None:
            ended = _require_run(tx, request.run_id)
            record = start_sql.record(tx, ended.key_id, _own_key(request))
            if record is None or not is_bound(record, self._services.clock()):
                return None
            started = earlier_run(record, _fingerprint(request))
            if isinstance(started, ApiError):
                raise started
            if started is None:
                return None
            run = _require_run(tx, started)
            steps = runs_sql.steps_of(tx, started)
            return runs_pb2.ResumeRunResponse(
                run=messages.detail(run),
                reused=[step.step for step in steps if step.reused_from is not None],
                executed=[
                    runs_pb2.ExecutedStep(step=step.step, why="It was not reused.")
                    for step in steps
                    if step.reused_from is None
                ],
                version=run.version,
                replayed=True,
            )

        return self._services.database.snapshot(work)

    def _plan(self, request: runs_pb2.ResumeRunRequest, caller: Principal) -> _ResumePlan:
        services = self._services
        at = services.clock()
        found = services.database.snapshot(lambda tx: self._find(tx, request, caller, at))
        refusal = found.now.refusal()
        if refusal is not None:
            raise refusal
        assert found.now.version is not None
        start = _new_start(request, found, at)
        inputs = validate_inputs(start, found.now, services.capabilities.providers, found.uploaded)
        for validated in (inputs.parameters, inputs.policy):
            if isinstance(validated, ApiError):
                raise validated
        assert isinstance(inputs.parameters, dict)
        assert isinstance(inputs.policy, dict)
        ended = EndedRun(
            run_id=found.run.run_id,
            workflow=found.before,
            steps={
                row.step: EndedStep(
                    row.status,
                    row.files_count,
                    row.outputs_stored + row.shared_stored,
                    found.ended_children.get(row.step, frozenset()),
                )
                for row in found.steps
            },
            parameters=_comparable(json_text.parse(found.run.parameters or "{}")),
            policy=json_text.parse(found.run.pii_policy),
        )
        new = NewVersion(found.now, _comparable(inputs.parameters), inputs.policy, found.new_children)
        decisions = decide_steps(ended, new, request.from_step if request.HasField("from_step") else None)
        reused = frozenset(one.step for one in decisions if one.why is None)
        items_reused = frozenset(one.step for one in decisions if one.items_reused)
        upload_id = None if found.uploaded is None else found.uploaded.upload_id
        resumption = Resumption(found.run.run_id, reused, request.again, items_reused)
        return _ResumePlan(
            start._replace(resumption=resumption), inputs, found.now.version, decisions, upload_id, found.run.resumed_by
        )

    def _find(self, tx: Tx, request: runs_pb2.ResumeRunRequest, caller: Principal, at: int) -> _ResumeRows:
        run = _require_run(tx, request.run_id)
        _require_resumable(tx, run, at, again=request.again or request.dry_run)
        version = request.version if request.HasField("version") else None
        before, now = (
            load_workflow(self._services.cache, tx, self._services.capabilities, run.workflow_id, each)
            for each in (run.version, version)
        )
        if before is None or now is None or not _sees(caller, run.workflow_id):
            raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
        upload_id = uploads_sql.of_run(tx, run.run_id)
        uploaded = None if upload_id is None else count_uploads(tx, upload_id)
        steps = sql.steps_of(tx, run.run_id)
        return _ResumeRows(run, steps, uploaded, before, now, _ended_children(tx, run, steps), _new_children(tx, now))


def _ended_children(tx: Tx, run: RunRow, steps: Sequence[sql.ReusableStepRow]) -> dict[str, frozenset[tuple[str, int]]]:
    """Returns the workflow versions of each step's child runs; a reused step's are from the run that executed it."""
    of_runs = {step.reused_from or run.run_id: None for step in steps if step.kind == WORKFLOW}
    found = {run_id: sql.child_versions(tx, run_id) for run_id in of_runs}
    return {
        step.step: frozenset(
            (row.workflow_id, row.version)
            for row in found[step.reused_from or run.run_id]
            if row.parent_step == step.step
        )
        for step in steps
        if step.kind == WORKFLOW
    }


def _new_children(tx: Tx, workflow: ResolvedWorkflow) -> dict[str, tuple[str, int]]:
    """Returns the workflow version, by id and number, that each step would start as a child run."""
    found = {}
    for step in workflow.steps:
        row = None if step.child is None else workflows_sql.get_by_name(tx, step.child.name)
        if row is not None and step.child is not None:
            found[step.step] = (row.workflow_id, step.child.version or row.active_version or row.newest_version)
    return found


def _require_run(tx: Tx, run_id: str) -> RunRow:
    run = runs_sql.run(tx, run_id, None)
    if run is None:
        raise run_not_found(run_id, None)
    return run


def _sees(caller: Principal, workflow_id: str) -> bool:
    return caller.workflow_ids is None or workflow_id in caller.workflow_ids


def _require_resumable(tx: Tx, run: RunRow, at: int, *, again: bool) -> None:
    if run.parent_run_id is not None:
        raise invalid("run_id", f"must be of a run that no other run started; resume {run.parent_run_id}")
    require_finished(run)
    if run.data_purged_at is not None:
        raise ApiError(
            errors_pb2.ERROR_REASON_ALREADY_PURGED,
            "The run's data was erased, so nothing can take over from it.",
            metadata={"data_purged_at": to_text(run.data_purged_at)},
        )
    if run.status == RunStatus.COMPLETED:
        raise invalid("run_id", f"must be of a run that failed or was cancelled; {run.run_id} completed")
    if run.resumed_by is not None and not again:
        message = f"must be of a run that no run has taken over from, unless again is true; {run.resumed_by} has"
        raise invalid("run_id", message)
    if run.key_id:
        key = sql.key(tx, run.key_id)
        ended = "deleted" if key is None else "revoked" if key.revoked_at is not None else "expired"
        if key is None or key.revoked_at is not None or at >= key.expires_at:
            raise invalid("run_id", f"must be of a run whose key is valid; key {run.key_id} is {ended}")


def _new_start(request: runs_pb2.ResumeRunRequest, found: _ResumeRows, at: int) -> ParsedStart:
    """Returns the start of the new run: inputs of the ended run, overridden by parameters of the request."""
    run, declared = found.run, {each["name"] for each in found.now.parameters}
    before: JsonObject = json_text.parse(run.parameters or "{}")
    parameters = {name: value for name, value in before.items() if name in declared and not is_uploaded(value)}
    if request.HasField("parameters"):
        parameters |= _parse_parameters(request.parameters)
    tightened = _tightened(json_text.parse(run.pii_policy), found.before.pii_policy or {}, found.now.pii_policy or {})
    labels: dict[str, str] = json_text.parse(run.labels)
    start = parse_start(
        runs_pb2.StartRunRequest(
            workflow_id=run.workflow_id,
            idempotency_key=_own_key(request),
            parameters=json_text.write(parameters),
            input_text=run.input_text,
            client_reference=run.client_reference,
            labels=labels,
            pii_policy_override=json_text.write(tightened) if tightened else None,
            version=found.now.version,
            triggered_by=runs_pb2.TRIGGERED_BY_CONSOLE,
        ),
        run.key_id or None,
        at,
    )
    return start._replace(fingerprint=_fingerprint(request))


def _parse_parameters(text: str) -> JsonObject:
    """Returns the parsed parameters of a request; as at a start, refuses NaN and other text that is no JSON."""
    try:
        given: JsonObject = json_text.parse(text)
        json_text.canonical(given).encode()
    except (ValueError, RecursionError):
        raise invalid("parameters", "must be JSON") from None
    return given


def _tightened(policy: Policy, before: Policy, now: Policy) -> Policy:
    """Returns the policy fields that the run's start had tightened, if they also tighten the new version's policy."""
    # With a policy that is off, an override of the mode may set any other field.
    is_off = now["mode"] == "off"
    return {
        name: value
        for name, value in policy.items()
        if value not in (before.get(name), now.get(name))
        and ((is_off and name != "mode") or FIELDS[name].tightens(now[name], value))
    }


def _own_key(request: runs_pb2.ResumeRunRequest) -> str:
    """Returns the idempotency key with a prefix, so that it differs from all keys that callers send."""
    return f"resume {request.idempotency_key}"


def _fingerprint(request: runs_pb2.ResumeRunRequest) -> str:
    given = runs_pb2.ResumeRunRequest()
    given.CopyFrom(request)
    given.ClearField("idempotency_key")
    if given.HasField("parameters"):
        # As at a start, spelling does not matter, and empty parameters equal absent ones.
        given.parameters = json_text.canonical(_parse_parameters(given.parameters))
        if given.parameters == "{}":
            given.ClearField("parameters")
    return hashlib.sha256(b"resume " + given.SerializeToString(deterministic=True)).hexdigest()


def _comparable(parameters: JsonObject) -> JsonObject:
    """Returns parameters with a placeholder for uploaded files, because each run has another copy of them."""
    return {name: _UPLOADED if is_uploaded(value) else value for name, value in parameters.items()}
