"""docs/command-line.md lists every command and option."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize(("name", "command"), list(leaves()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_is_documented(name: str, command: Any) -> None:
    assert f"`workflow-api {name}" in DOCUMENT or f"| `{name}" in DOCUMENT
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert "--json" in options
    undocumented = {
        option for option in options - SHARED if f"{option} " not in DOCUMENT and f"{option}`" not in DOCUMENT
    }
    assert not undocumented
