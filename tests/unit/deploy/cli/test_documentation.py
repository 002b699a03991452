"""docs/command-line.md lists every command and option."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from deploy.cli.main import COMMANDS, command_line

DOCUMENT = (Path(__file__).parents[4] / "docs" / "command-line.md").read_text(encoding="utf-8")
SHARED = {"--json", "--grpc", "--help", "--config", "--data", "--http"}


def leaves() -> Iterator[tuple[str, Any]]:
    root: Any = typer.main.get_command(command_line([module.name for module in COMMANDS]))
    groups = list(root.commands.items())
    while groups:
        name, command = groups.pop(0)
        if hasattr(command, "commands"):
            groups.extend((f"{name} {verb}", below) for verb, below in command.commands.items())
        else:
            yield name, command


def test_every_command_is_documented_with_its_options() -> None:
    assert {name: missing for name, command in leaves() if (missing := undocumented(name, command))} == {}


def test_every_command_can_answer_in_json() -> None:
    assert [name for name, command in leaves() if "--json" not in options_of(command)] == []


def undocumented(name: str, command: Any) -> list[str]:
    """Returns the name of a command and its options, as far as the page lacks them."""
    named = f"`workflow-api {name}" in DOCUMENT or f"| `{name}" in DOCUMENT
    missing = [
        option
        for option in options_of(command) - SHARED
        if f"{option} " not in DOCUMENT and f"{option}`" not in DOCUMENT
    ]
    return missing if named else [name, *missing]


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
