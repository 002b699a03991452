"""Shows the progress of a run's steps, as a table on a terminal, else as a line for each change; and their logs.

New lines of logs are shown as they are written, or the end of a failed attempt's log.
"""

import datetime as dt
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from deploy.cli.output.printing import Record
from deploy.cli.output.records import RawJson
from deploy.cli.output.terminal import duration_text, in_status_colour, is_terminal, printable, shows_colours
from deploy.client.backend import BackendClient
from deploy.failures import CommandError
from workflow_api.v1 import logs_pb2

if TYPE_CHECKING:
    from rich.live import Live


_SIGNS: Final = {
    "completed": "✓",
    "failed": "✗",
    "blocked": "✗",
    "skipped": "-",
    "cancelled": "-",
    "waiting_for_approval": "?",
}
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REFRESHES_A_SECOND: Final = 8
_STATUS_OF_EVENT: Final = {
    "step.started": "running",
    "step.completed": "completed",
    "step.failed": "failed",
    "step.skipped": "skipped",
    "approval.requested": "waiting_for_approval",
    "approval.decided": "completed",
}
_ENDED: Final = frozenset({"completed", "failed", "blocked", "skipped", "cancelled"})


@dataclass
class _StepView:
    """One step as shown: its start by this machine's clock and by its event, and its duration."""

    status: str = "pending"
    message: str = ""
    began: float | None = None
    began_at: dt.datetime | None = None
    seconds: float | None = None
    items_completed: int = 0
    items_failed: int = 0

    def on_item(self, kind: str, data: Record) -> None:
        """Takes up the end of an attempt of an item."""
        if kind == "step.item_completed":
            self.items_completed += 1
        elif data.get("retry_at") is None:
            self.items_failed += 1
        failed = f", {self.items_failed} failed" if self.items_failed else ""
        self.message = f"{self.items_completed} items completed{failed}"


@dataclass
class RunProgress:
    """Display of the steps of one run, by handle, in the order of the definition; fed with the run's events."""

    steps: Sequence[str]
    quiet: bool = False
    _shown: dict[str, _StepView] = field(default_factory=dict)
    _live: "Live | None" = None

    def __post_init__(self) -> None:
        self._shown = {step: _StepView() for step in self.steps}

    @contextmanager
    def shown(self) -> Iterator["RunProgress"]:
        """Shows the steps on standard error while the context lasts, and leaves their last state there."""
        if is_terminal(sys.stderr) and not self.quiet:
            self._live = self._new_live()
            self._live.start()
        try:
            yield self
        finally:
            if self._live is not None:
                self._live.stop()
                self._live = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspends the display, so that a question can be asked on the terminal."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                self._live = self._new_live()
                self._live.start()

    def write(self, text: str) -> None:
        """Prints lines above the steps."""
        if self.quiet:
            return
        text = printable(text, lines=True)
        if self._live is None:
            print(text, file=sys.stderr, flush=True)
            return
        from rich.text import Text

        self._live.console.print(Text(text), soft_wrap=True)

    def on_event(self, event: Record) -> None:
        """Updates the display by one event of the run."""
        step, kind = event.get("step"), event["type"]
        shown = self._shown.get(step or "")
        if shown is None:
            if kind == "warning":
                self.write(f"warning: {_message(event['data'])}")
            return
        if kind == "step.progress":
            shown.message = _message(event["data"])
            if self._live is None:
                self._line(str(step), "", shown.message)
            return
        if kind in {"step.item_completed", "step.item_failed"}:
            shown.on_item(kind, _data(event["data"]))
            if self._live is None and kind == "step.item_failed":
                data = _data(event["data"])
                self._line(str(step), "", f"item {data.get('item_index')} failed: {data.get('message')}")
            return
        status = _STATUS_OF_EVENT.get(kind)
        if status is None:
            return
        if kind == "approval.decided" and _data(event["data"]).get("decision") == "rejected":
            status = "blocked"
        at = dt.datetime.fromisoformat(event["at"]) if event.get("at") else None
        if status in _ENDED:
            shown.seconds = (at - shown.began_at).total_seconds() if at and shown.began_at else None
        else:
            shown.began, shown.began_at, shown.seconds = time.monotonic(), at, None
        self._change(str(step), shown, status, _remark(kind, event["data"], at))

    def on_steps(self, steps: Sequence[Record]) -> None:
        """Updates the display by the service's steps, some of which have no event."""
        for record in steps:
            shown = self._shown.get(record["step"])
            if shown is not None and shown.status != record["status"] and record["status"] != "pending":
                if record["duration_ms"] is not None:
                    shown.seconds = record["duration_ms"] / 1_000
                self._change(record["step"], shown, record["status"], "")

    def _change(self, step: str, shown: _StepView, status: str, message: str) -> None:
        shown.status, shown.message = status, message
        if self._live is None:
            took = "" if shown.seconds is None else duration_text(shown.seconds * 1_000)
            self._line(step, status, "  ".join(part for part in (took, message) if part))

    def _line(self, step: str, status: str, rest: str) -> None:
        if self.quiet:
            return
        width = max(map(len, self.steps))
        colours = shows_colours(sys.stderr)
        painted = in_status_colour(f"{status:9}", status, colours=colours)
        line = f"{printable(f'{step:{width}}')}  {painted}  {printable(rest)}"
        print(line.rstrip(), file=sys.stderr, flush=True)

    def _new_live(self) -> "Live":
        from rich.console import Console
        from rich.live import Live

        return Live(
            get_renderable=self._table,
            console=Console(stderr=True, highlight=False),
            refresh_per_second=_REFRESHES_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _table(self) -> Any:
        from rich.text import Text

        now = time.monotonic()
        width = max(map(len, self.steps))
        text = Text(no_wrap=True, overflow="ellipsis")
        for number, (step, shown) in enumerate(self._shown.items()):
            sign = _SIGNS.get(shown.status, "·")
            if shown.status == "running":
                sign = _SPINNER[int(now * _REFRESHES_A_SECOND) % len(_SPINNER)]
            seconds = shown.seconds
            if seconds is None and shown.began is not None:
                seconds = now - shown.began
            took = "" if seconds is None else duration_text(round(seconds, 1) * 1_000)
            style = {"✓": "green", "✗": "red", "?": "yellow", "·": "dim", "-": "dim"}.get(sign, "cyan")
            text.append("\n" if number else "")
            text.append(f"{sign} ", style=style)
            text.append(f"{printable(step):{width}}  ")
            text.append(f"{shown.status.replace('_', ' '):12}", style=style)
            text.append(f" {took:>10}  {printable(shown.message)}".rstrip(), style="dim")
        return text


def _remark(kind: str, data: Any, at: dt.datetime | None) -> str:
    """Returns the remark behind a step's status: its failure and next try, or the number of the attempt."""
    about = _data(data)
    attempt = about.get("attempt")
    if kind == "step.started" and isinstance(attempt, int) and attempt > 1:
        return f"attempt {attempt}"
    if kind != "step.failed":
        return ""
    retry_at = about.get("retry_at")
    if at is None or not isinstance(retry_at, str) or not isinstance(attempt, int):
        return _message(data)
    pause = dt.datetime.fromisoformat(retry_at) - at
    return f"attempt {attempt + 1} in {duration_text(pause.total_seconds() * 1_000)}: {_message(data)}"


def _message(data: Any) -> str:
    """Returns the message in an event's data, on one line."""
    found = _data(data).get("message")
    return " ".join(str(found).split()) if found else ""


def _data(data: Any) -> dict[str, Any]:
    """Returns an event's data, empty if they cannot be read."""
    if isinstance(data, RawJson):
        try:
            data = data.value()
        except ValueError:
            return {}
    return data if isinstance(data, dict) else {}


_SECONDS: Final = 0.1
_MOST_OF_CUT: Final = 20_000
_Attempt = tuple[str, int]

FAILED = "step.failed"
_MOST_CHARACTERS = 20_000


@dataclass
class LiveLogs:
    """Shows new lines of a run's logs above its steps, each after the name of its step."""

    backend: BackendClient
    run_id: str
    progress: RunProgress
    _seen: dict[_Attempt, logs_pb2.RunLogSummary] = field(default_factory=dict)
    _shown: dict[_Attempt, int] = field(default_factory=dict)
    _next: float = 0.0

    def show_if_due(self) -> None:
        """Shows new lines, unless it did so a moment ago."""
        if time.monotonic() >= self._next:
            self.show()

    def show(self) -> None:
        """Shows new whole lines, and the last line of an attempt that has ended."""
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
            # The service does not say which lines it left out; only the end is certain.
            new = f"…\n{text[-_MOST_OF_CUT:]}" if found.log.HasField("ended_at") else ""
        elif not found.log.HasField("ended_at"):
            new = new[: new.rfind("\n") + 1]
        if new:
            self._shown[attempt] = self._shown.get(attempt, 0) + len(new)
            lines = new.removesuffix("\n").split("\n")
            self.progress.write("\n".join(f"{attempt[0]} | {line}" for line in lines))


def log_lines(backend: BackendClient, run_id: str, event: Record) -> list[str]:
    """Returns the end of the log of an event's failed attempt; nothing if it cannot be read."""
    request = logs_pb2.GetRunLogRequest(
        run_id=run_id, step=event["step"], attempt=event["data"].value()["attempt"], tail_chars=_MOST_CHARACTERS
    )
    try:
        log = backend.call(backend.logs.GetRunLog, request)
    except CommandError:
        # A person who may start runs may lack the right to read their logs.
        return []
    text = log.log.problem or log.text.rstrip("\n")
    return (["…"] if log.cut else []) + (text.split("\n") if text else [])


def show_log(backend: BackendClient, run_id: str, event: Record, progress: RunProgress) -> None:
    """Shows the end of the log of an event's failed attempt."""
    progress.write("\n".join(f"{event['step']} | {line}" for line in log_lines(backend, run_id, event)))
