"""The `workflow-api` command: its table of subcommands, and the conversion of failures to messages and exit codes."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

from deploy.cli.output.terminal import print_failure, printable
from deploy.failures import CommandError
from deploy.garbage import pause_collection, resume_collection

SUCCEEDED: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
LINE_VARIABLE: Final = "_WORKFLOW_API_COMPLETE"
"""Variable with a command line up to the cursor; if set, candidates for completion are printed, a line each."""

_KINDS: Final = (str, bool, Path, int)
"""Types of values that typer does not convert."""

_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True)
class CommandModule:
    """A command: a function of a module under `deploy.cli`, or a Typer with commands below it.

    `module` is empty if the module has the command's name and a function `command`; in a module of several commands
    each function is called `NAME_command`.
    """

    name: str
    help: str
    module: str = ""

    def load(self) -> Callable[..., None] | typer.Typer:
        """Imports the module and returns its `command`."""
        attribute = f"{self.name}_command" if self.module else "command"
        module = import_module(f"deploy.cli.{self.module or self.name}")
        command: Callable[..., None] | typer.Typer = getattr(module, attribute)
        return command


COMMANDS: Final = (
    CommandModule("serve", "Serve everything by one command."),
    CommandModule("run", "Run a workflow from a file here, without a server."),
    CommandModule("edge", "Serve only the HTTP API, with a backend in another process.", "parts"),
    CommandModule("console", "Serve only the web console, with a backend in another process.", "parts"),
    CommandModule("backend", "Serve only the gRPC services and the runtime.", "parts"),
    CommandModule("worker", "Execute runs that backends dispatch.", "parts"),
    CommandModule("health", "Check whether a backend or an edge serves."),
    CommandModule("doctor", "Check settings and what a part needs, and say what to do."),
    CommandModule("backup", "Back up the embedded database with its objects, while the service runs.", "backups"),
    CommandModule("restore", "Restore a backup into a data folder.", "backups"),
    CommandModule(
        "apply", "Apply manifests: agents, connectors, environments, knowledge graphs, workflows.", "manifests"
    ),
    CommandModule("diff", "Print what `apply` would change.", "manifests"),
    CommandModule("delete", "Delete a workflow, agent, environment, connector or knowledge graph.", "manifests"),
    CommandModule("sets", "List the sets that own workflows and resources."),
    CommandModule("validate", "Check manifests without a server.", "manifests"),
    CommandModule("export", "Write all definitions as files that can be applied again."),
    CommandModule("redact", "Show what a PII policy would find and replace in files."),
    CommandModule("schema", "Print JSON Schemas for editors.", "manifests"),
    CommandModule("workflows", "List, show, activate and deactivate workflows; go back to a version."),
    CommandModule("agents", "List and show agents, and download their code.", "resources"),
    CommandModule("environments", "List and show environments, and build their packages."),
    CommandModule("connectors", "List, show and test connectors.", "resources"),
    CommandModule("graphs", "List, show and query knowledge graphs."),
    CommandModule("keys", "Create, list, change, rotate, revoke and delete API keys."),
    CommandModule("webhooks", "Set up webhooks of keys, and see what was delivered to them."),
    CommandModule("approvals", "List, show, approve and reject pending approvals."),
    CommandModule("runs", "Start, list, show, follow, cancel and erase runs; fetch their outputs and logs."),
    CommandModule("schedules", "List, pause, resume and trigger schedules; cancel planned starts."),
    CommandModule("users", "Add, list and disable people who sign in to the console, and reset passwords."),
    CommandModule("audit", "List who changed what, and when."),
    CommandModule("completion", "Print a script for completion in bash, zsh or fish."),
    CommandModule("deployment", "Show and change the deployment record."),
)


def main() -> None:
    """Runs the process's command line and exits with its code."""
    pause_collection()
    # gRPC's core would also print failures, which are raised as exceptions, to standard error.
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
    except (UnicodeEncodeError, TypeError):
        wrong = next((each for each in arguments if not _is_text(each)), None)
        if wrong is None:
            raise
        failure = CommandError(f"The argument {printable(wrong)} must be UTF-8.", code="invalid_request")
        code = MISUSED
    else:
        return code if isinstance(code, int) else SUCCEEDED
    print_failure(failure, as_json=as_json)
    return code


def _is_text(argument: str) -> bool:
    """Returns whether an argument is UTF-8; Python has a lone surrogate for each other byte."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def command_line(wanted: Sequence[str]) -> typer.Typer:
    """Builds the command line with the `wanted` commands, and only the help of the others.

    Importing every command would delay each command, and the help, by the import of gRPC.
    """
    # Without markup mode typer does not import rich for help and errors, which halves the start of the command.
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
            _keep_plain(command)
            app.add_typer(command, name=module.name, cls=PlainGroup, help=module.help, no_args_is_help=True)
        else:
            app.command(module.name, cls=PlainCommand, help=module.help)(command)
    return app


def _keep_plain(command: typer.Typer) -> None:
    for below in command.registered_commands:
        below.cls = PlainCommand
    for group in command.registered_groups:
        group.cls = PlainGroup
        if group.typer_instance is not None:
            _keep_plain(group.typer_instance)


class PlainCommand(TyperCommand):
    """A command whose texts, flags and paths are not converted.

    typer converts every value by pydantic, whose import takes a tenth of the start of a service. A text needs no
    conversion, and the code that uses a path checks it. typer converts lists, and numbers, which must fit an integer
    field; the protos carry further bounds.
    """

    def get_params(self, ctx: Any) -> Any:
        """Returns the parameters with `--help`."""
        return _unconverted(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A command with subcommands, whose own options are not converted."""

    def get_params(self, ctx: Any) -> Any:
        """Returns the parameters with `--help`."""
        return _unconverted(super().get_params(ctx))


class _Unconverted:
    """Replaces typer's conversion of one value; leaves values of other kinds than _KINDS to typer."""

    def __init__(self, kind: type, convert: Callable[[], Any]) -> None:
        self._kind = kind
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None or (isinstance(value, self._kind) and self._kind is not int):
            return value
        if self._kind is Path:
            return Path(value)
        converted = self._convert().coerce(value, param=param, ctx=ctx)
        if self._kind is int and not -_LARGEST <= converted <= _LARGEST:
            raise BadParameter(f"{value} is out of range: at most {_LARGEST:,}, at least -{_LARGEST:,}.", ctx, param)
        return converted


def _complete(line: str) -> int:
    """Prints candidates for the end of a command line, for the scripts of `workflow-api completion`."""
    from deploy.cli.completion import completions

    for value, text in completions(line, lambda name: command_line([name])):
        print(f"{value}\t{text}" if text else value)
    return SUCCEEDED


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
    # The command's module and the command line's are imported now.
    resume_collection()


def _not_imported() -> None:
    raise AssertionError("only the first argument names a command")


def _unconverted(parameters: list[Any]) -> list[Any]:
    """Replaces the conversion of parameters, for which typer, which makes the parameters, has no hook."""
    for parameter in parameters:
        kind, convert = parameter.type_descriptor.annotation, parameter.get_runtime_param
        one = parameter.nargs == 1 and not getattr(parameter, "multiple", False)
        if one and kind in _KINDS and not isinstance(convert, partial):
            parameter.get_runtime_param = partial(_Unconverted, kind, convert)
    return parameters
