"""Checks command lines without running them: commands, options and targets that exist, with values they accept."""

import functools
import re
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any, Final

import typer
import typer.main
import yaml

from deploy.cli.main import COMMANDS, command_line
from tests.support.page import ROOT

ENDS_OF_COMMANDS: Final = ("&", "&&", "|", "||", ";", "<", ">", ">>")
_COMPOSE: Final = ROOT / "deploy" / "compose" / "compose.yaml"


@functools.cache
def workflow_api() -> Any:
    """Returns the whole command line of `workflow-api`."""
    return typer.main.get_command(command_line([module.name for module in COMMANDS]))


def problem_of(script: str) -> str | None:
    """Returns what is wrong with the first wrong line of a script; None if all are of commands known here."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        for command in _split(list(lexer)):
            if problem := _problem_of_command(command):
                return f"{line}: {problem}"
    return None


def understood(arguments: Sequence[str]) -> str | None:
    """Returns what `workflow-api` finds wrong with its arguments before it does anything; None for nothing."""
    command, context = workflow_api(), None
    rest = list(arguments)
    try:
        while True:
            context = command.make_context(command.name, rest, parent=context)
            if not hasattr(command, "commands"):
                return None
            _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    except typer.TyperException as misuse:
        return misuse.format_message()


def named(words: Sequence[str]) -> str | None:
    """Returns which command or option of a mention such as `keys create --name` does not exist; None if all do."""
    command = workflow_api()
    for word in words:
        below = getattr(command, "commands", {})
        if word in below:
            command = below[word]
        elif word.startswith("--"):
            options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
            if word not in {*options, "--help"}:
                return word
        elif below and re.fullmatch(r"[a-z][a-z-]*", word):
            return word
    return None


def _split(words: Sequence[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word in ENDS_OF_COMMANDS:
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _problem_of_command(words: list[str]) -> str | None:
    program, *arguments = words
    if program == "workflow-api":
        return understood(arguments)
    if program == "make":
        return _made(arguments)
    if words[:2] == ["docker", "compose"]:
        return _composed(words[2:])
    return f"nothing here knows {program}"


def _made(arguments: list[str]) -> str | None:
    asked = subprocess.run(
        ["make", "--dry-run", "--always-make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return asked.stderr.strip()
    *_, last = asked.stdout.splitlines()
    ran = shlex.split(last)
    if "-m" not in ran or ran[0] != ".venv/bin/python":
        return None
    module = ran[ran.index("-m") + 1]
    options = (ROOT / module.replace(".", "/") / "__main__.py").read_text(encoding="utf-8")
    unknown = [word for word in ran if word.startswith("--") and f'"{word}"' not in options]
    return f"{module} has no {', '.join(unknown)}" if unknown else None


def _composed(arguments: list[str]) -> str | None:
    services = yaml.safe_load(_COMPOSE.read_text(encoding="utf-8"))["services"]
    match arguments:
        case ["-f", _, "run", "--rm", service, *rest] if service in services:
            return understood(rest)
        case ["-f", _, "up", "--detach", "--scale", scaled, "--no-recreate"] if scaled.partition("=")[0] in services:
            return None
    return "nothing here knows these arguments of docker compose"
