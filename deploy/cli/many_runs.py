"""Changes many runs at once: `runs cancel`, `runs resume` and `runs erase` without a RUN_ID."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final, NamedTuple

import typer

from contract.fields import parse_enum_list, spellings
from contract.times import parse_date_time
from deploy.cli.options import read_option
from deploy.cli.output.printing import Form, TableColumn, print_json, print_table
from deploy.cli.output.terminal import is_terminal
from deploy.cli.run_start import workflow_definition
from deploy.client.backend import BackendClient
from deploy.failures import CommandError
from workflow_api.v1 import runs_pb2

OptionalRunId = Annotated[
    str | None, typer.Argument(metavar="[RUN_ID]", help="The run; without it, those that the options choose.")
]
ChosenWorkflow = Annotated[
    str, typer.Option("--workflow", metavar="WORKFLOW", help="Choose runs of this workflow, by id or name.")
]
ChosenStatus = Annotated[str, typer.Option("--status", metavar="A,B", help="Choose runs of these statuses.")]
CreatedAfter = Annotated[str, typer.Option("--created-after", metavar="TIME", help="Choose runs created after it.")]
CreatedBefore = Annotated[str, typer.Option("--created-before", metavar="TIME", help="Choose runs created before it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before many runs are changed.")]

_UNREACHABLE: Final = "runtime_unreachable"
_PAGE: Final = 100
_SPELLINGS: Final = spellings(runs_pb2.RunStatus.DESCRIPTOR)
_COLUMNS: Final = (
    TableColumn("RUN ID", "run_id", rank=0),
    TableColumn("WORKFLOW", "workflow_name", Form.TEXT, rank=2),
    TableColumn("STATUS", "status", Form.STATUS, rank=0),
)
_REFUSED: Final = (
    TableColumn("RUN ID", "run_id", rank=0),
    TableColumn("CODE", "code", rank=0),
    TableColumn("MESSAGE", "message", Form.TEXT, rank=1),
)


class RunSelection(NamedTuple):
    """The options that choose runs, as given."""

    workflow: str
    status: str
    created_after: str
    created_before: str

    def is_for_many(self, run_id: str | None) -> bool:
        """Returns whether options, and no argument, choose the runs."""
        if run_id is not None and any(self):
            raise typer.BadParameter("choose runs either by RUN_ID or by options", param_hint="RUN_ID")
        return run_id is None


class ManyRuns(NamedTuple):
    """A change of many runs.

    `verb` and `done` name the change; it is possible in `statuses`, and `usual` are the statuses chosen without
    `--status`. Refusals with a code of `nothing_to_do` count as no failure.
    """

    verb: str
    done: str
    statuses: tuple[runs_pb2.RunStatus.ValueType, ...]
    usual: tuple[runs_pb2.RunStatus.ValueType, ...]
    nothing_to_do: frozenset[str]

    def run(
        self,
        backend: BackendClient,
        choice: RunSelection,
        call: Callable[[str], str | None],
        *,
        takes: Callable[[str], bool] = lambda _: True,
        dry_run: bool,
        yes: bool,
        as_json: bool,
    ) -> None:
        """Changes each run that the options choose, and prints the number of changed runs and all refusals.

        `takes` leaves runs out before they are counted; `call` changes one run, and returns the id of a new run, or
        None. An unreachable backend or Ctrl-C ends the loop.

        Raises:
            CommandError: no option chooses runs, `--status` names an impossible status, or nobody has confirmed.
            typer.Exit: with 1 if a run was refused or not tried.
        """
        runs = [run for run in _chosen(backend, self._request(backend, choice)) if takes(run.run_id)]
        rows = [
            {"run_id": run.run_id, "workflow_name": run.workflow_name, "status": _SPELLINGS[run.status]} for run in runs
        ]
        if dry_run:
            if as_json:
                print_json({"runs": rows})
            else:
                print_table(rows, _COLUMNS, none="No run.")
            return
        if runs and not yes:
            self._confirm(len(runs), as_json=as_json)
        done: list[dict[str, str | None]] = []
        skipped: list[str] = []
        refused: list[dict[str, str]] = []
        with _counting(len(runs), quiet=as_json) as count:
            for number, run in enumerate(runs, 1):
                try:
                    new_id = call(run.run_id)
                    done.append({"run_id": run.run_id, "new_run_id": new_id} if new_id else {"run_id": run.run_id})
                except CommandError as failed:
                    if failed.code in self.nothing_to_do:
                        skipped.append(run.run_id)
                        continue
                    refused.append({"run_id": run.run_id, "code": failed.code, "message": failed.to_text()})
                    if failed.code == _UNREACHABLE:
                        break
                except KeyboardInterrupt:
                    break
                count(number)
        left = len(runs) - len(done) - len(skipped) - len(refused)
        if as_json:
            print_json({"done": done, "skipped": skipped, "refused": refused, "left": left})
        else:
            print(
                f"{len(done):,} {self.done}, {len(skipped):,} skipped, {len(refused):,} refused"
                + (f", {left:,} not tried." if left else ".")
            )
            if refused:
                print_table(refused, _REFUSED, none="")
        if refused or left:
            raise typer.Exit(1)

    def _request(self, backend: BackendClient, choice: RunSelection) -> runs_pb2.ListRunsRequest:
        if not any(choice):
            raise CommandError(
                f"Name the run to {self.verb}, or choose runs by --workflow, --status, --created-after or"
                " --created-before."
            )
        numbers = read_option("--status", partial(parse_enum_list, runs_pb2.RunStatus.DESCRIPTOR), choice.status)
        statuses = [runs_pb2.RunStatus.ValueType(number) for number in numbers or self.usual]
        wrong = [status for status in statuses if status not in self.statuses]
        if wrong:
            allowed = ", ".join(str(_SPELLINGS[status]) for status in self.statuses)
            raise typer.BadParameter(f"must be among {allowed}, not {_SPELLINGS[wrong[0]]}", param_hint="--status")
        workflow_id = None
        if choice.workflow:
            workflow_id = workflow_definition(backend, choice.workflow, None).workflow.workflow_id
        return runs_pb2.ListRunsRequest(
            status=statuses,
            workflow_id=workflow_id,
            created_after=read_option("--created-after", parse_date_time, choice.created_after),
            created_before=read_option("--created-before", parse_date_time, choice.created_before),
            page_size=_PAGE,
        )

    def _confirm(self, count: int, *, as_json: bool) -> None:
        runs = "1 run" if count == 1 else f"{count:,} runs"
        if as_json or not sys.stdin.isatty():
            raise CommandError(f"This would {self.verb} {runs}, and there is no terminal to ask at: give --yes.")
        print(f"{self.verb.capitalize()} {runs}? [y/n] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise CommandError("Nothing was changed.")


_ENDED: Final = (runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED)
_IN_FLIGHT: Final = (
    runs_pb2.RUN_STATUS_QUEUED,
    runs_pb2.RUN_STATUS_RUNNING,
    runs_pb2.RUN_STATUS_WAITING_FOR_APPROVAL,
)
CANCELLING: Final = ManyRuns("cancel", "cancelled or ending", _IN_FLIGHT, _IN_FLIGHT, frozenset({"already_terminal"}))
RESUMING: Final = ManyRuns("resume", "resumed", _ENDED[1:], _ENDED[1:2], frozenset({"already_purged"}))
"""Without `--status` only failed runs, because somebody meant to cancel a cancelled one."""
ERASING: Final = ManyRuns("erase", "erased", _ENDED, _ENDED, frozenset({"already_purged"}))


def _chosen(backend: BackendClient, request: runs_pb2.ListRunsRequest) -> Iterator[runs_pb2.RunSummary]:
    for page in backend.pages(backend.runs.ListRuns, request):
        yield from page.items


@contextmanager
def _counting(total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Shows the number of finished runs on a terminal."""
    shown = not quiet and is_terminal(sys.stderr)

    def count(number: int) -> None:
        if shown:
            print(f"\r{number:,} of {total:,}", end="", file=sys.stderr, flush=True)

    yield count
    if shown and total:
        print(file=sys.stderr)
