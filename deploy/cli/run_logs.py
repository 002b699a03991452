"""`workflow-api runs logs`: the logs of a run's steps, and the messages of their models."""

from typing import Annotated, Final

import typer

from deploy.cli.option_names import option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, RunId
from deploy.cli.output.printing import print_json_line
from deploy.cli.output.records import record_of
from deploy.cli.output.terminal import printable
from deploy.client.backend import connected
from workflow_api.v1 import logs_pb2

FOLLOW_SECONDS: Final = 24 * 3600.0
LOG_OPTIONS: Final = {"run_id": "RUN_ID", "step": "--step", "attempt": "--attempt"}


def logs(
    run_id: RunId,
    step: Annotated[str | None, typer.Option("--step", metavar="STEP", help="Only of this step.")] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", help="Only of this attempt of the step, from 1.")
    ] = None,
    model: Annotated[
        bool, typer.Option("--model", help="The messages of models in place of logs, of agents that keep them.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run ends.")] = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show what the steps of a run print, and the tracebacks of failures, also while they run.

    With --json every part of a log is a JSON object on a line of its own.
    """
    if attempt is not None and step is None:
        raise typer.BadParameter("is of a step: name it with --step", param_hint="--attempt")
    request = logs_pb2.StreamRunLogsRequest(run_id=run_id, step=step, attempt=attempt, follow=follow, transcript=model)
    nothing = "No messages of a model are kept." if model else "Nothing was printed."
    printer = LogPrinter(headings=attempt is None, nothing=nothing)
    with option_names(LOG_OPTIONS), connected(grpc) as backend:
        for part in backend.stream(backend.logs.StreamRunLogs, request, FOLLOW_SECONDS if follow else None):
            if as_json:
                print_json_line(record_of(part))
            else:
                printer.print(part)
    if not as_json:
        printer.end()


class LogPrinter:
    """Prints parts of logs, with a heading whenever the log changes."""

    def __init__(self, *, headings: bool, nothing: str = "Nothing was printed.") -> None:
        self._headings = headings
        self._nothing = nothing
        self._log: tuple[str, int] | None = None
        self._in_line = False

    def print(self, part: logs_pb2.StreamRunLogsResponse) -> None:
        """Prints one part, with control characters except tabs escaped."""
        log = part.step, part.attempt
        if self._headings and log != self._log:
            self._end_line()
            if self._log is not None:
                print()
            print(f"==> {part.step}, attempt {part.attempt} <==", flush=True)
        self._log = log
        if part.HasField("problem"):
            self._end_line()
            print(printable(part.problem), flush=True)
            return
        text = part.text.replace("\r\n", "\n")
        print("\t".join(printable(piece, lines=True) for piece in text.split("\t")), end="", flush=True)
        self._in_line = not text.endswith("\n")

    def end(self) -> None:
        """Ends the last line; prints a note if no step has printed anything."""
        self._end_line()
        if self._log is None:
            print(self._nothing)

    def _end_line(self) -> None:
        if self._in_line:
            print(flush=True)
            self._in_line = False
