"""`Run`, with events and outputs, for threads; the twin of `async_run.AsyncRun`."""

import json
from collections.abc import Generator
from os import PathLike
from pathlib import Path
from typing import Any

from workflow_api_client.core import Core
from workflow_api_client.drivers import SyncDriver
from workflow_api_client.generated import records, routes
from workflow_api_client.operations import outputs as operations
from workflow_api_client.operations.following import events
from workflow_api_client.operations.outputs import Report
from workflow_api_client.operations.reading import change, get
from workflow_api_client.operations.waiting import wait
from workflow_api_client.progress import reporter
from workflow_api_client.raw_response import RawRun
from workflow_api_client.run_record import RunRecord

Files = list[Path]


class Run(RunRecord):
    """A run: its last known state, and calls that follow, cancel or erase it."""

    def __init__(self, core: Core, driver: SyncDriver, record: records.Run) -> None:
        self._core = core
        self._driver = driver
        self.record = record
        self.outputs = Outputs(core, driver, record.run_id)

    @property
    def with_raw_response(self) -> RawRun:
        """The run's methods that return a `RawResponse`: status, headers, body and the parsed value."""
        return RawRun(self)

    def refresh(self, *, timeout: float | None = None) -> "Run":
        """Reads the run again; returns it."""
        self.record = self._driver.run(get(self._core.within(timeout), records.Run, routes.GET_RUN, self._path))
        return self

    def wait(self, timeout: float | None = None, *, or_approval: bool = False) -> "Run":
        """Waits until the run has ended and its outputs can be read; returns the run, also if it failed.

        With `or_approval` the wait ends also when the run waits for a person.

        Raises:
            TimedOutError: `timeout` seconds passed; the run goes on.
        """
        self.record = self._driver.run(wait(self._core, self.id, timeout, or_approval=or_approval))
        return self

    def stream(self, *, after: str | None = None) -> Generator[records.AnyEvent, None, None]:
        """Yields the run's events as they happen, from the first or after a known event's `id`, to the run's end.

        Each is of its type's class in `records`, as `StepFailedEvent`, or a plain `Event` if this release does not know
        the type.
        """
        return self.events(live=True, after=after)

    def events(self, *, live: bool = False, after: str | None = None) -> Generator[records.AnyEvent, None, None]:
        """Yields the run's events in order, each once; with `live` to the end of the run, as they happen.

        `after` is the `id` of the last known event.
        """
        return self._driver.iterate(events(self._core, self.id, live=live, after=after))

    def steps(self, *, timeout: float | None = None) -> list[records.Step]:
        """Returns the run's steps in the order of the workflow."""
        answer = self._driver.run(
            get(self._core.within(timeout), records.ListRunStepsResponse, routes.LIST_RUN_STEPS, self._path)
        )
        return answer.items

    def approvals(self, *, timeout: float | None = None) -> list[records.Approval]:
        """Returns the pending approvals of the run, which people decide, not callers."""
        route = routes.LIST_RUN_APPROVALS
        answer = self._driver.run(get(self._core.within(timeout), records.ListRunApprovalsResponse, route, self._path))
        return answer.items

    def pii_redaction(self, *, timeout: float | None = None) -> records.PiiRedaction:
        """Returns the counts of personal data that redaction found and replaced."""
        return self._driver.run(
            get(self._core.within(timeout), records.PiiRedaction, routes.GET_PII_REDACTION, self._path)
        )

    def fetch_result(self, *, timeout: float | None = None) -> Any:
        """Returns the result of a completed run; downloads a result that is too large for the run's record.

        Raises:
            RunNotFinishedError: the run has not ended.
            RunFailedError: the run failed or was cancelled.
        """
        if self.result is not None or self.record.result_json is None:
            return self.result
        return json.loads(self.outputs.read("result.json", timeout=timeout))

    def download_zip(
        self, path: str | PathLike[str], *, progress: bool | Report = False, timeout: float | None = None
    ) -> Path:
        """Writes all outputs as one zip, checked against the listed digests of its files; returns the zip's path."""
        operation = operations.download_zip(self._core.within(timeout), self.id, Path(path), reporter(progress))
        return self._driver.run(operation)

    def cancel(self, reason: str | None = None, *, timeout: float | None = None) -> records.CancelRunResponse:
        """Requests the cancellation of the run.

        Raises:
            AlreadyTerminalError: the run has ended.
        """
        kind, route = records.CancelRunResponse, routes.CANCEL_RUN
        return self._driver.run(change(self._core.within(timeout), kind, route, self._path, {"reason": reason}))

    def erase(self, reason: str | None = None, *, timeout: float | None = None) -> records.EraseRunDataResponse:
        """Erases the inputs, outputs and other data of an ended run for good.

        Raises:
            RunNotTerminalError: the run has not ended.
            AlreadyPurgedError: the run was erased before.
        """
        kind, route = records.EraseRunDataResponse, routes.ERASE_RUN_DATA
        return self._driver.run(change(self._core.within(timeout), kind, route, self._path, {"reason": reason}))

    @property
    def _path(self) -> dict[str, str]:
        return {"run_id": self.id}


class Outputs:
    """Output files of a finished run."""

    def __init__(self, core: Core, driver: SyncDriver, run_id: str) -> None:
        self._core = core
        self._driver = driver
        self._run_id = run_id

    def list(self, *, timeout: float | None = None) -> list[records.Output]:
        """Returns the outputs by path."""
        return self._driver.run(operations.list_outputs(self._core.within(timeout), self._run_id))

    def get(self, path: str, *, timeout: float | None = None) -> records.Output:
        """Returns the record of one output by its path.

        Raises:
            OutputNotFoundError: the run has no output with this path.
        """
        return self._driver.run(operations.find(self._core.within(timeout), self._run_id, path))

    def read(
        self, path: str | records.Output, *, begin: int = 0, end: int | None = None, timeout: float | None = None
    ) -> bytes:
        """Returns the bytes of one output, by path or record, checked against the listed digest.

        With `begin` or `end`, offsets in bytes, only the bytes between are fetched, without a check by digest.

        Raises:
            OutputNotFoundError: the run has no output with this path.
            UseBundleError: the output is too large for this call; `download` takes it from the zip.
            ValueError: `begin` is no offset before `end` and within the output.
        """
        operation = operations.read(self._core.within(timeout), self._run_id, path, begin, end)
        return self._driver.run(operation)

    def download(
        self, folder: str | PathLike[str], *, progress: bool | Report = False, timeout: float | None = None
    ) -> Files:
        """Writes every output below a folder; returns the files.

        Complete files are kept, partial files are continued, and every file is checked against the listed digest. With
        `progress=True` a line on standard error shows the progress; a function is called with a `Progress`.
        """
        operation = operations.download(self._core.within(timeout), self._run_id, Path(folder), reporter(progress))
        return self._driver.run(operation)
