"""What a run is as far as this process knows, without asking the service."""

from typing import Any

from workflow_api_client.failures import RunFailedError, RunNotFinishedError
from workflow_api_client.generated import records
from workflow_api_client.operations.waiting import TERMINAL


class RunRecord:
    """A run as of the last answer about it; `record` has every field."""

    record: records.Run

    @property
    def id(self) -> str:
        """The run's id."""
        return self.record.run_id

    @property
    def status(self) -> records.RunStatus:
        """Where the run stands."""
        return self.record.status

    @property
    def is_finished(self) -> bool:
        """Whether the run has completed, failed or was cancelled."""
        return self.record.status in TERMINAL

    @property
    def result(self) -> Any:
        """The result of a completed run; None where it has none, or one that `fetch_result()` downloads for its size.

        Raises:
            RunNotFinishedError: the run has not ended.
            RunFailedError: it failed or was cancelled.
        """
        self._require_completed()
        return self.record.result

    @property
    def summary(self) -> str | None:
        """The summary that the run's result step wrote, in Markdown."""
        return self.record.summary_markdown

    @property
    def error(self) -> records.RunError | None:
        """Why the run failed."""
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
