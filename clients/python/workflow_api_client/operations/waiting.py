"""Waits for the end of a run, or for an approval."""

from typing import Final

from workflow_api_client.core import Core
from workflow_api_client.decoding import decode
from workflow_api_client.exchange import Answer, Pause, Steps
from workflow_api_client.failures import TimedOutError
from workflow_api_client.generated import records, routes
from workflow_api_client.operations.pacing import PollPacer
from workflow_api_client.operations.reading import body_of

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})

_NOT_MODIFIED: Final = 304


def is_done(run: records.RunSummary) -> bool:
    """Returns whether a run has ended and its outputs can be read, redacted where its policy says so."""
    return run.status in TERMINAL and not is_being_swept(run)


def is_being_swept(run: records.RunSummary) -> bool:
    """Returns whether the outputs of an ended run are still being redacted."""
    manifest = getattr(run, "pii_redaction", None)
    if manifest is None or getattr(run, "data_purged_at", None) is not None:
        return False
    return any(stage.stage == "outputs" and stage.status == "pending" for stage in manifest.stages)


def wait(
    core: Core, run_id: str, timeout: float | None, *, or_approval: bool = False, begun: float | None = None
) -> Steps[records.Run]:
    """Returns the run once it is done, or with `or_approval` once it waits for a person.

    Raises:
        TimedOutError: `timeout` seconds passed since `begun`, a time of the clock, by default now.
    """
    deadline = None if timeout is None else (core.clock.now() if begun is None else begun) + timeout
    watch = RunWatch(core, run_id, deadline)
    try:
        # The first read is not held, because an earlier change would never end the wait.
        run = yield from watch.look(held=False)
        while not (is_done(run) or (or_approval and run.status == "waiting_for_approval")):
            run = yield from watch.look()
    except TimedOutError as error:
        raise TimedOutError(f"{run_id} was not done within {timeout:g} s.", run_id=run_id) from error.__cause__
    return run


class RunWatch:
    """Repeated reads of one run, by held calls that the service answers at a change.

    `changed` is True if the last read found a change.
    """

    def __init__(self, core: Core, run_id: str, deadline: float | None = None) -> None:
        self._core = core
        self._run_id = run_id
        self._deadline = deadline
        self._pace = PollPacer(core.clock, deadline)
        self._last: Answer | None = None
        self._pause = 0.0
        self.changed = False

    @property
    def seen(self) -> bool:
        """True once the run was read."""
        return self._last is not None

    def look(self, *, held: bool = True) -> Steps[records.Run]:
        """Reads the run, with `held` after a change or a while; returns it."""
        if self._pause:
            left = None if self._deadline is None else self._deadline - self._core.clock.now()
            yield Pause(self._pause if left is None else max(0.0, min(left, self._pause)))
        seconds = self._pace.begin(held=held)
        tag = self._last.headers.get("etag") if self._last else None
        answer = yield from self._core.call(
            routes.GET_RUN,
            {"run_id": self._run_id},
            query={"wait_seconds": seconds or None},
            headers={"If-None-Match": tag} if tag else {},
            deadline=self._deadline,
            held=seconds,
        )
        same = self._last is not None and self._last.content == answer.content
        self.changed = answer.status != _NOT_MODIFIED and not same
        self._pause = self._pace.pause_after(news=self.changed)
        if self.changed or self._last is None:
            self._last = answer
        return decode(records.Run, body_of(self._last))
