"""Checks commands and settings in files under deploy/ against the command line and the settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer.main

from backend.bootstrap import GRACE_SECONDS
from console.settings import ConsoleSettings
from deploy.cli.main import COMMANDS, command_line
from deploy.config.settings import Settings
from deploy.config.source import read_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"

# What a start may take for its end beside what settings give to calls and steps.
END_SECONDS = 10


def understood(arguments: Sequence[str]) -> str:
    """Returns the command that `workflow-api` runs with these arguments; fails where they are invalid."""
    assert arguments[0] in {module.name for module in COMMANDS}
    command = typer.main.get_command(command_line([arguments[0]])).commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], list(arguments[1:]))
    return arguments[0]


def settings_of(file: Path | None, environment: Mapping[str, str]) -> Settings:
    """Returns the settings that a process reads from this file and these variables, wherever the file is."""
    variables = {name: value for name, value in environment.items() if name != "WORKFLOW_API_CONFIG"}
    return read_settings(variables, config=file)


def drains(settings: Settings, command: str) -> float:
    """Returns how long a part may take to stop, in seconds."""
    calls, steps = settings.edge.drain_seconds, settings.runtime.drain_seconds
    both = calls + GRACE_SECONDS + steps
    console = ConsoleSettings().drain_seconds
    own = {"edge": calls, "console": console, "backend": GRACE_SECONDS, "worker": steps, "serve": both}
    return END_SECONDS + own[command]


def seconds(text: str) -> float:
    """Returns the seconds of a duration of compose."""
    assert text.endswith("s")
    return float(text.removesuffix("s"))


def pinned(image: str) -> bool:
    """Returns whether an image has a tag other than the moving ones."""
    _, colon, tag = image.rpartition(":")
    return bool(colon) and tag not in {"", "latest", "stable"}
