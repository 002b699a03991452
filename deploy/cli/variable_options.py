"""Options `--vars` and `--var` of commands that read manifests, and the variables that they give."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output.terminal import printable
from deploy.cli.run_inputs import split_assignment
from deploy.client.variables import GivenVariables, read_variables, unused_warnings

VariableFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--vars",
        metavar="FILE",
        help="YAML or JSON file with values of `${vars.NAME}`, by name; repeatable, a later one wins.",
    ),
]
VariableOptions = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="K=V", help="Value of `${vars.K}`; wins over files; repeatable."),
]


def variable_assignments(variables: Sequence[str] | None) -> list[tuple[str, str]]:
    """Returns names and values of `--var` options; raises typer.BadParameter for an option without `=`."""
    return [split_assignment("--var", each) for each in variables or []]


def given_variables(files: Sequence[Path] | None, variables: Sequence[str] | None) -> GivenVariables:
    """Returns the variables of both options; raises as `read_variables`."""
    return read_variables(files or [], variable_assignments(variables))


def warn_of_unused(given: GivenVariables, used: Iterable[str]) -> None:
    """Prints a warning to standard error for each `--var` that no manifest uses."""
    for warning in unused_warnings(given.unused(used)):
        print(printable(warning), file=sys.stderr)
