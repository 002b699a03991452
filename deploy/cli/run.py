"""`workflow-api run`: one run of a workflow in a file, without a server."""

import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deploy.cli.following.follower import APPROVE, answer_from
from deploy.cli.local.local_files import changed_files
from deploy.cli.option_names import START_OPTIONS, option_names
from deploy.cli.options import Config, Json
from deploy.cli.output.terminal import printable
from deploy.cli.run_inputs import InputText, Params, split_assignment
from deploy.cli.variable_options import VariableFiles, VariableOptions, variable_assignments
from deploy.config.settings import Settings
from deploy.config.source import read_settings
from deploy.failures import CommandError
from deploy.garbage import collection_paused
from deploy.serve.lifecycle import prepare_process

if TYPE_CHECKING:
    from deploy.cli.local.local_runs import LocalRuns

INTERRUPTED: Final = 130
_DEFAULT_LEVEL: Final = Settings().log_level


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML files with the workflow.")],
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="Which workflow, where the files have several.")
    ] = "",
    input_text: InputText = None,
    param: Params = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="K=DIR", help="A folder as the objects of an s3_prefix parameter; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the files that it leaves.")
    ] = None,
    approve: Annotated[
        str,
        typer.Option("--approve", metavar="|".join(APPROVE), help="How approvals are decided; ask is at the terminal."),
    ] = APPROVE[0],
    logs: Annotated[
        bool, typer.Option("--logs/--no-logs", help="Show what steps print as they do, or only where one fails.")
    ] = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Run again whenever a file changes, until interrupted.")
    ] = False,
    variable_files: VariableFiles = None,
    variables: VariableOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Run a workflow here, without a server, in a deployment of its own that is gone afterwards.

    Steps run in the same sandbox and under the same rules as in a service. The result is printed to standard output,
    everything else to standard error. Exits with 1 unless the run completed with a result that fits its schema.
    """
    answer = answer_from(approve, as_json=as_json)
    folders = {name: Path(folder) for name, folder in (split_assignment("--input", each) for each in inputs or [])}
    assignments = variable_assignments(variables)
    for name, folder in folders.items():
        if not folder.is_dir():
            raise typer.BadParameter(f"{name}: {folder} is no folder", param_hint="--input")
        if not any(path.is_file() for path in folder.rglob("*")):
            raise typer.BadParameter(f"{name}: the folder {folder} holds no file", param_hint="--input")
    if out is not None:
        # A run may take long, and its data go with the deployment.
        check_writable("--out", out)
    settings = read_settings(os.environ, config=config)
    if settings.log_level == _DEFAULT_LEVEL:
        # The command itself reports what a service would log as warnings.
        settings = replace(settings, log_level="error")
    former_umask = os.umask(0)
    prepare_process(settings, "run")

    try:
        _end_as_interrupted()
        with option_names(START_OPTIONS), ExitStack() as stack:
            with collection_paused():
                # Imported late, because a mistake in the options need not wait for heavy imports.
                from deploy.serve.early_sandbox import early_sandbox

                open_sandbox = stack.enter_context(early_sandbox(settings.runtime.sandbox))

                from deploy.cli.local.local_runs import LocalRuns, RunOptions

                options = RunOptions(
                    workflow,
                    param or [],
                    input_text,
                    folders,
                    out,
                    answer,
                    logs,
                    as_json,
                    former_umask,
                    variable_files or [],
                    assignments,
                )
                names = [str(file) for file in files]
                runs = stack.enter_context(LocalRuns(settings, names, options, open_sandbox))
            completed = _run_and_watch(runs) if watch else runs.run()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if not completed:
        raise typer.Exit(1)


def check_writable(option: str, folder: Path) -> None:
    """Checks that `folder`, or the nearest existing folder above it, can be written to; creates nothing.

    Raises:
        typer.BadParameter: it cannot be written to, or is a file.
    """
    place = folder.absolute()
    nearest = next(each for each in (place, *place.parents) if os.path.lexists(each))
    if not nearest.is_dir():
        raise typer.BadParameter(f"{folder} cannot be written: {nearest} is no folder", param_hint=option)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{folder} cannot be written: {nearest} allows no new files", param_hint=option)


def _end_as_interrupted() -> None:
    """Makes SIGTERM and SIGHUP, unless ignored, end the run like an interrupt, so that none of its data stay."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _run_and_watch(runs: "LocalRuns") -> bool:
    """Runs again after each change, until an interrupt; a mistake in a file waits for the next change too."""
    for _ in changed_files(runs.watched):
        try:
            runs.run()
        except CommandError as failed:
            failed.options = START_OPTIONS
            print(printable(failed.to_text(), lines=True), file=sys.stderr)
        print("\nWaiting for a change; Ctrl-C ends.", file=sys.stderr, flush=True)
    return True
