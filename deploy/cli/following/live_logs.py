"""What the steps of a run print, shown while the run is followed."""

import time
from dataclasses import dataclass, field
from typing import Final

from deploy.cli.following.run_progress import RunProgress
from deploy.client.backend import Backend
from workflow_api.v1 import logs_pb2

_SECONDS: Final = 0.1
_MOST_OF_CUT: Final = 20_000
_Attempt = tuple[str, int]


@dataclass
class LiveLogs:
    """Shows new lines of a run's logs above its steps, each after the name of its step."""

    backend: Backend
    run_id: str
    progress: RunProgress
    _seen: dict[_Attempt, logs_pb2.RunLogSummary] = field(default_factory=dict)
    _shown: dict[_Attempt, int] = field(default_factory=dict)
    _next: float = 0.0

    def show_sometimes(self) -> None:
        """Shows what is new, if that was not asked for a moment ago."""
        if time.monotonic() >= self._next:
            self.show()

    def show(self) -> None:
        """Shows what is new: whole lines, and of an attempt that has ended the last one too."""
        request = logs_pb2.ListRunLogsRequest(run_id=self.run_id)
        for log in self.backend.call(self.backend.logs.ListRunLogs, request).items:
            attempt = log.step, log.attempt
            if self._seen.get(attempt) != log:
                self._seen[attempt] = log
                self._show(attempt)
        self._next = time.monotonic() + _SECONDS

    def _show(self, attempt: _Attempt) -> None:
        request = logs_pb2.GetRunLogRequest(run_id=self.run_id, step=attempt[0], attempt=attempt[1])
        found = self.backend.call(self.backend.logs.GetRunLog, request)
        text = f"{found.log.problem}\n" if found.log.HasField("problem") else found.text
        new = text[self._shown.get(attempt, 0) :]
        if found.cut:
            # The service does not say what is left out, only the end is certain.
            new = f"…\n{text[-_MOST_OF_CUT:]}" if found.log.HasField("ended_at") else ""
        elif not found.log.HasField("ended_at"):
            new = new[: new.rfind("\n") + 1]
        if new:
            self._shown[attempt] = self._shown.get(attempt, 0) + len(new)
            lines = new.removesuffix("\n").split("\n")
            self.progress.write("\n".join(f"{attempt[0]} | {line}" for line in lines))
