"""LogsService over gRPC: logs and transcripts of a run's steps, listed, read, and followed until the run ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import grpc

from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.common.states import RUN_TERMINAL
from backend.services.dependencies import Services
from backend.services.logs import sql
from backend.services.runs.reads import find_logged
from backend.storage.database import Database, Tx
from backend.storage.objects import ObjectStore
from contract.fields import given_or_default
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, logs_pb2, logs_pb2_grpc

CUT: Final = "\n[a part of the log is cut here]\n"

_PARTS_OF_A_READ: Final = 8


@dataclass(slots=True)
class LogReader:
    """Incremental reader of one log: each call of `new_text` continues where the last one stopped."""

    database: Database
    objects: ObjectStore
    texts: sql.AttemptTexts = sql.LOGS
    after: int = 0
    complete: bool = False
    """True once the log was read to its end."""

    def new_text(self, row: sql.LogRow) -> Iterator[str]:
        """Yields, in parts of bounded size, the text printed since the last call; `row` is the log's present state.

        Raises:
            OSError, EOFError: the store failed.
        """
        if self.complete:
            return
        if row.size_bytes is not None and not self.after:
            yield from self._read_object(row)
        else:
            yield from self._read_parts(row)
        self.complete = row.ended_at is not None

    def _read_object(self, row: sql.LogRow) -> Iterator[str]:
        try:
            opened = self.objects.open_range(self.texts.key(row.run_id, row.step, row.attempt), 0, row.size_bytes or 0)
        except KeyError:
            # An erasure came between the row and the object.
            return
        rest = b""
        with closing(opened) as blocks:
            for block in blocks:
                data = rest + block
                # No character is longer than four bytes.
                end = max(data.rfind(b"\n") + 1, len(data) - 4)
                while end < len(data) and data[end] & 0xC0 == 0x80:
                    end -= 1
                rest = data[end:]
                yield data[:end].decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _read_parts(self, row: sql.LogRow) -> Iterator[str]:
        while True:
            parts = self.database.read(
                lambda tx: self.texts.parts_after(tx, row.run_id, row.step, row.attempt, self.after, _PARTS_OF_A_READ)
            )
            for part in parts:
                yield (CUT if part.seq > self.after + 1 else "") + part.text
                self.after = part.seq
            if len(parts) < _PARTS_OF_A_READ:
                return


FOLLOW_SECONDS: Final = 0.5
MOST_FOLLOWERS: Final = 16
"""Most followers at once: each holds one of the threads that other streams need too."""

_AGENT: Final = "agent"


@dataclass(frozen=True, slots=True)
class _LoggedRun:
    ended: bool
    steps: list[sql.LoggedStepRow]
    logs: list[sql.LogRow]
    transcripts: list[sql.LogRow]


@dataclass(slots=True)
class Logs:
    """Lists, reads and follows the logs of steps, for internal callers only."""

    services: Services
    objects: ObjectStore
    _ended: threading.Event = field(default_factory=threading.Event)
    _followers: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_FOLLOWERS))

    def end(self) -> None:
        """Ends every stream that follows a run."""
        self._ended.set()

    def summaries(self, request: logs_pb2.ListRunLogsRequest) -> logs_pb2.ListRunLogsResponse:
        """Returns the logs or transcripts of a run; raises ApiError as `Paging`, then as `find_logged`."""
        of = f"{request.run_id}/transcripts" if request.transcript else request.run_id
        paging = Paging(self.services.cursors, request, of=of)
        run = self._read_run(request.run_id)
        rows = run.transcripts if request.transcript else run.logs
        shown, token = paging.page_of(rows, lambda row: (row.began_at, row.step, row.attempt))
        return logs_pb2.ListRunLogsResponse(items=[_summary(row) for row in shown], next_page_token=token)

    def log(self, request: logs_pb2.GetRunLogRequest) -> logs_pb2.RunLog:
        """Returns the end of one log.

        Raises:
            ApiError: as `find_logged`; `invalid_request` if the step or attempt does not exist.
        """
        run = self._read_run(request.run_id)
        step = _require_step(run, request.step, one=True)
        attempt = _check_attempt(step, request.attempt) if request.HasField("attempt") else step.attempt
        answer = logs_pb2.RunLog(log=logs_pb2.RunLogSummary(step=step.step, attempt=attempt), attempts=step.attempt)
        answer.has_transcript = _row(run.transcripts, step.step, attempt) is not None
        row = _row(run.transcripts if request.transcript else run.logs, step.step, attempt)
        if row is None:
            return answer
        answer.log.CopyFrom(_summary(row))
        most = given_or_default(request, "tail_chars")
        text = ""
        for more in LogReader(self.services.database, self.objects, _texts(request)).new_text(row):
            text += more
            if len(text) > 2 * most:
                answer.cut, text = True, text[-most:]
        answer.cut = answer.cut or len(text) > most
        answer.text = text[-most:]
        return answer

    def stream(
        self, request: logs_pb2.StreamRunLogsRequest, is_active: Callable[[], bool]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields logs of a run as text, with `follow` until its end; raises as `log`, or for too many followers."""
        if request.HasField("attempt") and not request.HasField("step"):
            raise invalid("attempt", "must be given together with step")
        self._check(request, self._read_run(request.run_id))
        if not request.follow:
            yield from self._new_texts(request, self._read_run(request.run_id), {})
            return
        if not self._followers.acquire(blocking=False):
            raise ApiError(
                errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE,
                f"{MOST_FOLLOWERS} logs are followed at this backend, and no more can be: ask again without follow.",
            )
        try:
            yield from self._follow(request, is_active)
        finally:
            self._followers.release()

    def _follow(
        self, request: logs_pb2.StreamRunLogsRequest, is_active: Callable[[], bool]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        readers: dict[tuple[str, int], LogReader] = {}
        while is_active() and not self._ended.is_set():
            try:
                run = self._read_run(request.run_id)
            except ApiError:
                # The run's data was erased meanwhile.
                return
            yield from self._new_texts(request, run, readers)
            if run.ended:
                return
            self._ended.wait(FOLLOW_SECONDS)

    def _new_texts(
        self, request: logs_pb2.StreamRunLogsRequest, run: _LoggedRun, readers: dict[tuple[str, int], LogReader]
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields the text written since `readers` last read, and adds readers of new texts."""
        for row in run.transcripts if request.transcript else run.logs:
            if request.HasField("step") and request.step not in (row.step, step_of(row.step)):
                continue
            if request.HasField("attempt") and row.attempt != request.attempt:
                continue
            reader = readers.setdefault(
                (row.step, row.attempt), LogReader(self.services.database, self.objects, _texts(request))
            )
            if row.problem is not None and not reader.complete:
                reader.complete = True
                yield logs_pb2.StreamRunLogsResponse(step=row.step, attempt=row.attempt, problem=row.problem)
            for text in reader.new_text(row):
                yield logs_pb2.StreamRunLogsResponse(step=row.step, attempt=row.attempt, text=text)

    def _check(self, request: logs_pb2.StreamRunLogsRequest, run: _LoggedRun) -> None:
        if not request.HasField("step"):
            return
        step = _require_step(run, request.step)
        # A follower may wait for an attempt that has not begun.
        if request.HasField("attempt") and not (request.follow and not run.ended):
            _check_attempt(step, request.attempt)

    def _read_run(self, run_id: str) -> _LoggedRun:
        def work(tx: Tx) -> _LoggedRun:
            state = find_logged(tx, run_id, None)
            return _LoggedRun(
                state.status in RUN_TERMINAL,
                sql.steps_of(tx, run_id),
                sql.LOGS.rows_of(tx, run_id),
                sql.TRANSCRIPTS.rows_of(tx, run_id),
            )

        return self.services.database.snapshot(work)


def step_of(name: str) -> str:
    """Returns the step of a log, which is named `<step>`, or `<step>/<index>` for an item of a fan-out."""
    return name.partition("/")[0]


def _require_step(run: _LoggedRun, name: str, *, one: bool = False) -> sql.LoggedStepRow:
    """Returns a step, or an item of a fan-out, with its attempts; with `one`, refuses a whole fan-out.

    Raises:
        ApiError: `invalid_request`, the step or item does not exist.
    """
    steps = {step.step: step for step in run.steps if step.kind == _AGENT}
    step = steps.get(step_of(name))
    if step is None:
        raise invalid("step", f"must be one of the steps that agents carry out: {', '.join(steps) or 'there is none'}")
    index = name.partition("/")[2]
    if name == step.step:
        if one and step.items_total is not None:
            raise invalid("step", f"must name one of its {step.items_total} items, each with a log, as '{name}/0'")
        return step
    total = step.items_total or 0
    if not (index.isascii() and index.isdecimal() and str(int(index)) == index and int(index) < total):
        raise invalid("step", f"must be '{step.step}', or with an index an item of it, of which it has {total}")
    attempts = [row.attempt for row in (*run.logs, *run.transcripts) if row.step == name]
    return step._replace(step=name, attempt=max(attempts, default=1))


def _check_attempt(step: sql.LoggedStepRow, attempt: int) -> int:
    if attempt > step.attempt:
        known = f"at most {step.attempt}, for so many attempts" if step.attempt else "left out, for no attempt"
        raise invalid("attempt", f"must be {known} of step '{step.step}' have begun")
    return attempt


def _row(rows: list[sql.LogRow], step: str, attempt: int) -> sql.LogRow | None:
    return next((row for row in rows if (row.step, row.attempt) == (step, attempt)), None)


def _texts(request: logs_pb2.GetRunLogRequest | logs_pb2.StreamRunLogsRequest) -> sql.AttemptTexts:
    return sql.TRANSCRIPTS if request.transcript else sql.LOGS


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


class LogsServicer(logs_pb2_grpc.LogsServiceServicer):
    """Shows people the logs of steps."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def ListRunLogs(
        self, request: logs_pb2.ListRunLogsRequest, context: grpc.ServicerContext
    ) -> logs_pb2.ListRunLogsResponse:
        """Returns the list of a run's logs."""
        return self._logs.summaries(request)

    def GetRunLog(self, request: logs_pb2.GetRunLogRequest, context: grpc.ServicerContext) -> logs_pb2.RunLog:
        """Returns the end of one log, as printed so far."""
        return self._logs.log(request)

    def StreamRunLogs(
        self, request: logs_pb2.StreamRunLogsRequest, context: grpc.ServicerContext
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields logs as text; for a caller who follows, until the run ends."""
        yield from self._logs.stream(request, context.is_active)
