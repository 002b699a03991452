"""The `workflow-api` command: its subcommands, and the place where failures are printed and become exit codes."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Final

import typer

from deploy.cli.option_values import PlainCommand, PlainGroup
from deploy.cli.output.terminal import print_failure
from deploy.failures import CommandError
from deploy.garbage import pause_collection, resume_collection

SUCCEEDED: Final = 0
FAILED: Final = 1
LINE_VARIABLE: Final = "_WORKFLOW_API_COMPLETE"
"""Holds a command line up to the cursor; then what may come next is printed, a line each."""


@dataclass(frozen=True)
class CommandModule:
    """A module under `deploy.cli` whose `command` is a function, or a Typer with commands below it."""

    name: str
    help: str

    def load(self) -> Callable[..., None] | typer.Typer:
        """Imports the module and returns its `command`."""
        command: Callable[..., None] | typer.Typer = import_module(f"deploy.cli.{self.name}").command
        return command


COMMANDS: Final = (
    CommandModule("serve", "Serve everything by one command."),
    CommandModule("run", "Run a workflow from a file here, without a server."),
    CommandModule("edge", "Serve only the HTTP API, with a backend in another process."),
    CommandModule("console", "Serve only the web console, with a backend in another process."),
    CommandModule("backend", "Serve only the gRPC services and the runtime."),
    CommandModule("worker", "Execute runs from the queue of the backends."),
    CommandModule("health", "Check whether a backend or an edge serves."),
    CommandModule("doctor", "Check settings and what a part needs, and say what to do."),
    CommandModule("backup", "Back up the embedded database with its objects, while the service runs."),
    CommandModule("restore", "Restore a backup into a data folder."),
    CommandModule("apply", "Apply manifests: agents, connectors, environments, knowledge graphs, workflows."),
    CommandModule("delete", "Delete a workflow, agent, environment, connector or knowledge graph."),
    CommandModule("validate", "Check manifests without a server."),
    CommandModule("redact", "Show what a PII policy would find and replace in files."),
    CommandModule("schema", "Print JSON Schemas for editors."),
    CommandModule("workflows", "List, show, activate and deactivate workflows; go back to a version."),
    CommandModule("agents", "List and show agents, and download their code."),
    CommandModule("environments", "List and show environments, and build their packages."),
    CommandModule("connectors", "List, show and test connectors."),
    CommandModule("graphs", "List, show and query knowledge graphs."),
    CommandModule("keys", "Create, list, change, rotate, revoke and delete API keys."),
    CommandModule("webhooks", "Set up webhooks of keys, and see what was delivered to them."),
    CommandModule("approvals", "List, show, approve and reject pending approvals."),
    CommandModule("runs", "Start, list, show, follow, cancel and erase runs; fetch their outputs and logs."),
    CommandModule("users", "Add, list and disable people who sign in to the console, and reset passwords."),
    CommandModule("audit", "List who changed what, and when."),
    CommandModule("completion", "Print a script for completion in bash, zsh or fish."),
    CommandModule("deployment", "Show and change the deployment record."),
)


def main() -> None:
    """Runs the process's command line and exits with its code."""
    pause_collection()
    # gRPC's core would print failures to standard error, which we also get as exceptions.
    os.environ["GRPC_VERBOSITY"] = "NONE"
    for stream in (sys.stdout, sys.stderr):
        # A terminal's encoding may lack a character of the data.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are text streams here
    line = os.environ.get(LINE_VARIABLE)
    sys.exit(run(sys.argv[1:]) if line is None else _complete(line))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line.

    Returns:
        0 on success, 1 when the command failed, 2 when it was misused, 130 when it was interrupted.
    """
    as_json = "--json" in arguments
    try:
        code = command_line(arguments[:1])(list(arguments), prog_name="workflow-api", standalone_mode=False)
    except CommandError as failed:
        failure, code = failed, FAILED
    except typer.TyperException as misuse:
        failure, code = CommandError(misuse.format_message(), code="invalid_request"), misuse.exit_code
    else:
        return code if isinstance(code, int) else SUCCEEDED
    print_failure(failure, as_json=as_json)
    return code


def _complete(line: str) -> int:
    """Prints what may come next on a command line, for the scripts of `workflow-api completion`."""
    from deploy.cli.completing.candidates import completions

    for value, text in completions(line, lambda name: command_line([name])):
        print(f"{value}\t{text}" if text else value)
    return SUCCEEDED


def command_line(wanted: Sequence[str]) -> typer.Typer:
    """Builds the command line with the `wanted` commands; of the others only the help is known.

    Importing every command would delay each command, and the help, by the import of gRPC.
    """
    # Without markup mode typer leaves rich out of help and errors, which halves the start of the command.
    app = typer.Typer(
        cls=PlainGroup,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for module in COMMANDS:
        command = module.load() if module.name in wanted else _not_imported
        if isinstance(command, typer.Typer):
            for below in command.registered_commands:
                below.cls = PlainCommand
            app.add_typer(command, name=module.name, cls=PlainGroup, help=module.help, no_args_is_help=True)
        else:
            app.command(module.name, cls=PlainCommand, help=module.help)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(metadata.version("workflow-api"))
        raise typer.Exit


def _root(
    *,
    version: Annotated[  # noqa: ARG001 - its callback acts on it
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the release and exit.")
    ] = False,
) -> None:
    """Serve the Programmatic Workflow API and administer one deployment of it."""
    # Its module and the command line's are imported now.
    resume_collection()


def _not_imported() -> None:
    raise AssertionError("only the first argument names a command")
