"""The logs of a run's steps: listed, read, and followed until the run ends."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from backend.errors import ApiError, invalid
from backend.logs import sql
from backend.logs.reading import LogReader
from backend.paging import Paging
from backend.run_status import TERMINAL
from backend.runs.run_lookup import find_logged
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.objects import ObjectStore
from contract.defaults import given_or_default
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, logs_pb2

FOLLOW_SECONDS: Final = 0.5
MOST_FOLLOWERS: Final = 16
"""Each holds one of the threads that other streams need too."""

_AGENT: Final = "agent"


@dataclass(frozen=True, slots=True)
class _Run:
    ended: bool
    steps: list[sql.LoggedStepRow]
    logs: list[sql.LogRow]


@dataclass(slots=True)
class Logs:
    """What steps print, for internal services only."""

    services: Services
    objects: ObjectStore
    _ended: threading.Event = field(default_factory=threading.Event)
    _followers: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_FOLLOWERS))

    def end(self) -> None:
        """Ends every stream that follows a run."""
        self._ended.set()

    def summaries(self, request: logs_pb2.ListRunLogsRequest) -> logs_pb2.ListRunLogsResponse:
        """Returns the logs of a run; raises ApiError as `Paging`, then as `find_logged`."""
        paging = Paging(self.services.cursors, request, of=request.run_id)
        rows = self._run(request.run_id).logs
        shown, token = paging.page_of(rows, lambda row: (row.began_at, row.step, row.attempt))
        return logs_pb2.ListRunLogsResponse(items=[_summary(row) for row in shown], next_page_token=token)

    def log(self, request: logs_pb2.GetRunLogRequest) -> logs_pb2.RunLog:
        """Returns the end of one log.

        Raises:
            ApiError: as `find_logged`, or `invalid_request` where there is no such step or attempt.
        """
        run = self._run(request.run_id)
        step = _step(run, request.step)
        attempt = _attempt(step, request.attempt) if request.HasField("attempt") else step.attempt
        answer = logs_pb2.RunLog(log=logs_pb2.RunLogSummary(step=step.step, attempt=attempt), attempts=step.attempt)
        row = next((row for row in run.logs if (row.step, row.attempt) == (step.step, attempt)), None)
        if row is None:
            return answer
        answer.log.CopyFrom(_summary(row))
        most = given_or_default(request, "tail_chars")
        text = ""
        for more in LogReader(self.services.database, self.objects).new_text(row):
            text += more
            if len(text) > 2 * most:
                answer.cut, text = True, text[-most:]
        answer.cut = answer.cut or len(text) > most
        answer.text = text[-most:]
        return answer

    def stream(
        self, request: logs_pb2.StreamRunLogsRequest, is_active: Callable[[], bool]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields logs of a run as text, with `follow` until it ends; raises as `log`, and where too many follow."""
        if request.HasField("attempt") and not request.HasField("step"):
            raise invalid("attempt", "must be given together with step")
        self._check(request, self._run(request.run_id))
        if not request.follow:
            yield from self._new(request, self._run(request.run_id), {})
            return
        if not self._followers.acquire(blocking=False):
            raise ApiError(
                errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE,
                f"{MOST_FOLLOWERS} logs are followed at this backend, and no more can be: ask again without follow.",
            )
        try:
            yield from self._followed(request, is_active)
        finally:
            self._followers.release()

    def _followed(
        self, request: logs_pb2.StreamRunLogsRequest, is_active: Callable[[], bool]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        readers: dict[tuple[str, int], LogReader] = {}
        while is_active() and not self._ended.is_set():
            try:
                run = self._run(request.run_id)
            except ApiError:
                # Its data was erased meanwhile.
                return
            yield from self._new(request, run, readers)
            if run.ended:
                return
            self._ended.wait(FOLLOW_SECONDS)

    def _new(
        self, request: logs_pb2.StreamRunLogsRequest, run: _Run, readers: dict[tuple[str, int], LogReader]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields what was printed since these readers have read."""
        for row in run.logs:
            if request.HasField("step") and row.step != request.step:
                continue
            if request.HasField("attempt") and row.attempt != request.attempt:
                continue
            reader = readers.setdefault((row.step, row.attempt), LogReader(self.services.database, self.objects))
            if row.problem is not None and not reader.whole:
                reader.whole = True
                yield logs_pb2.StreamRunLogsResponse(step=row.step, attempt=row.attempt, problem=row.problem)
            for text in reader.new_text(row):
                yield logs_pb2.StreamRunLogsResponse(step=row.step, attempt=row.attempt, text=text)

    def _check(self, request: logs_pb2.StreamRunLogsRequest, run: _Run) -> None:
        if not request.HasField("step"):
            return
        step = _step(run, request.step)
        # A follower may wait for an attempt that has not begun.
        if request.HasField("attempt") and not (request.follow and not run.ended):
            _attempt(step, request.attempt)

    def _run(self, run_id: str) -> _Run:
        def work(tx: Tx) -> _Run:
            state = find_logged(tx, run_id, None)
            return _Run(state.status in TERMINAL, sql.steps_of(tx, run_id), sql.logs_of(tx, run_id))

        return self.services.database.snapshot(work)


def _step(run: _Run, name: str) -> sql.LoggedStepRow:
    steps = {step.step: step for step in run.steps if step.kind == _AGENT}
    if name not in steps:
        raise invalid("step", f"must be one of the steps that agents carry out: {', '.join(steps) or 'there is none'}")
    return steps[name]


def _attempt(step: sql.LoggedStepRow, attempt: int) -> int:
    if attempt > step.attempt:
        known = f"at most {step.attempt}, for so many attempts" if step.attempt else "left out, for no attempt"
        raise invalid("attempt", f"must be {known} of step '{step.step}' have begun")
    return attempt


def _summary(row: sql.LogRow) -> logs_pb2.RunLogSummary:
    return logs_pb2.RunLogSummary(
        step=row.step,
        attempt=row.attempt,
        began_at=to_timestamp(row.began_at),
        ended_at=None if row.ended_at is None else to_timestamp(row.ended_at),
        size_bytes=row.size_bytes,
        problem=row.problem,
        last_part=row.last_seq,
    )
