"""Base of `Run` and `AsyncRun`: the last known state of a run, read without calls."""

from typing import Any

from workflow_api_client.failures import RunFailedError, RunNotFinishedError
from workflow_api_client.generated import records
from workflow_api_client.operations.waiting import TERMINAL


class RunRecord:
    """A run as of the service's last answer; `record` has every field."""

    record: records.Run

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.run_id

    @property
    def status(self) -> records.RunStatus:
        """The run's status."""
        return self.record.status

    @property
    def is_finished(self) -> bool:
        """True once the run has completed, failed or was cancelled."""
        return self.record.status in TERMINAL

    @property
    def result(self) -> Any:
        """The result of a completed run; None without one, or if it is so large that `fetch_result()` must download it.

        Raises:
            RunNotFinishedError: the run has not ended.
            RunFailedError: the run failed or was cancelled.
        """
        self._require_completed()
        return self.record.result

    @property
    def summary(self) -> str | None:
        """The summary from the run's result step, in Markdown."""
        return self.record.summary_markdown

    @property
    def error(self) -> records.RunError | None:
        """The error of a failed run."""
        return self.record.error

    def __repr__(self) -> str:
        """Returns id, workflow and status."""
        return f"<{type(self).__name__} {self.id} of {self.record.workflow_name!r}: {self.status}>"

    def _require_completed(self) -> None:
        if self.status not in TERMINAL:
            raise RunNotFinishedError(f"{self.id} is {self.status}.")
        if self.status != "completed":
            error = self.record.error
            raise RunFailedError(error.code if error else self.status, error.message if error else None)
