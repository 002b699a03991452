"""What files under deploy/ say of our own command and settings, held against both."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer.main

from backend.bootstrap import GRACE_SECONDS
from deploy.cli.main import COMMANDS, command_line
from deploy.config.settings import Settings
from deploy.config.source import read_settings
from edge.console.settings import ConsoleSettings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"

# What a start may take for its end beside what settings give to calls and steps.
END_SECONDS = 10


def understood(arguments: Sequence[str]) -> str:
    """The command that `workflow-api` with these arguments is; fails where they are none."""
    assert arguments[0] in {module.name for module in COMMANDS}
    command = typer.main.get_command(command_line([arguments[0]])).commands[arguments[0]]  # type: ignore[attr-defined]
    command.make_context(arguments[0], list(arguments[1:]))
    return arguments[0]


def settings_of(file: Path | None, environment: Mapping[str, str]) -> Settings:
    """The settings that a process reads from this file and these variables; the file need not be in its place."""
    variables = {name: value for name, value in environment.items() if name != "WORKFLOW_API_CONFIG"}
    return read_settings(variables, config=file)


def drains(settings: Settings, command: str) -> float:
    """How long a part may take to end, in seconds."""
    calls, steps = settings.edge.drain_seconds, settings.runtime.drain_seconds
    both = calls + GRACE_SECONDS + steps
    console = ConsoleSettings().drain_seconds
    own = {"edge": calls, "console": console, "backend": GRACE_SECONDS, "worker": steps, "serve": both}
    return END_SECONDS + own[command]


def seconds(text: str) -> float:
    """A duration as compose writes it."""
    assert text.endswith("s")
    return float(text.removesuffix("s"))


def pinned(image: str) -> bool:
    """Whether an image has a tag that stays what it is."""
    _, colon, tag = image.rpartition(":")
    return bool(colon) and tag not in {"", "latest", "stable"}
