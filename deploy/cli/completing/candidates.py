"""Finds what may come next on a command line: commands, options, and values that the backend knows."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import typer.main

from deploy.cli.output.terminal import printable

_PREFIX_LENGTH: Final = 60


class Candidate(NamedTuple):
    """A word that may come next, with an explanation."""

    value: str
    help: str = ""


Load = Callable[[str], typer.Typer]
"""Returns the command line with one command imported."""


def completions(line: str, load: Load) -> Iterator[Candidate]:
    """Yields what may stand at the end of a command line, which begins with the name of the program."""
    words, incomplete = split_line(line)
    node: Any = typer.main.get_command(load(words[1] if len(words) > 1 else ""))
    path: list[str] = []
    positional = 0
    rest = iter(words[1:])
    options: dict[str, str] = {}
    for word in rest:
        option = _option(node, word.partition("=")[0])
        if option is not None:
            if not option.is_flag and "=" not in word:
                value = next(rest, None)
                if value is None:
                    yield from _matching(_values(option, path, {**options}, incomplete), incomplete)
                    return
                options[option.opts[0]] = value
        elif word in getattr(node, "commands", {}):
            node = node.commands[word]
            path.append(word)
        elif not word.startswith("-"):
            positional += 1
    if incomplete.startswith("-"):
        yield from _matching(_options(node), incomplete)
    elif hasattr(node, "commands"):
        found = (Candidate(name, _short(each.help)) for name, each in node.commands.items())
        yield from _matching(found, incomplete)
    else:
        arguments = [parameter for parameter in node.params if parameter.param_type_name == "argument"]
        if arguments and (positional < len(arguments) or arguments[-1].nargs == -1):
            argument = arguments[min(positional, len(arguments) - 1)]
            yield from _matching(_values(argument, path, options, incomplete), incomplete)


def split_line(line: str) -> tuple[list[str], str]:
    """Returns the whole words of a line, and the one that it ends in, which may be empty; quotes may be open."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        ended = not closing and (not line or (line[-1].isspace() and not line.endswith("\\ ")))
        return (words, "") if ended or not words else (words[:-1], words[-1])
    return line.split(), ""


def _matching(candidates: Iterator[Candidate], incomplete: str) -> Iterator[Candidate]:
    folded = incomplete.casefold()
    return (each for each in candidates if each.value.casefold().startswith(folded))


def _options(node: Any) -> Iterator[Candidate]:
    for parameter in node.params:
        for name in parameter.opts:
            if name.startswith("--"):
                yield Candidate(name, _short(parameter.help))


def _option(node: Any, word: str) -> Any:
    return next((each for each in node.params if word.startswith("-") and word in each.opts), None)


def _values(parameter: Any, path: list[str], options: Mapping[str, str], incomplete: str) -> Iterator[Candidate]:
    """Yields the values of a parameter: those that its metavar lists, or those that the backend knows."""
    metavar = parameter.metavar or ""
    if "|" in metavar and metavar.islower():
        yield from (Candidate(value) for value in metavar.split("|"))
        return
    from deploy.cli.completing.known_values import known_values

    for value, text in known_values(metavar, path, options, incomplete):
        yield Candidate(printable(value), _short(printable(text)))


def _short(text: str | None) -> str:
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= _PREFIX_LENGTH else f"{line[: _PREFIX_LENGTH - 1]}…"
