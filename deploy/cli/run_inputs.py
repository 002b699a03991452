"""Parameters and text of a run from options: `--param k=v`, `--param k=@file`, `--input-text T`."""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from deploy.cli.output.records import RawJson, json_text
from deploy.failures import CommandError

Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="K=V|K=@FILE", help="A parameter, as text or from a file; repeat for more."),
]
InputText = Annotated[
    str | None, typer.Option("--input-text", metavar="T|@FILE", help="The run's text, or the file that has it.")
]

_FILE: Final = "@"
_STANDARD_INPUT: Final = "-"
_BOOLEANS: Final = {"true": True, "false": False}


class _DuplicateNameError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def text_or_file(option: str, value: str) -> str:
    """Returns the text of an option: its value, or for `@FILE` the file's content; `@-` is standard input.

    `@@` begins text that itself begins with `@`.
    """
    if not value.startswith(_FILE) or value.startswith(_FILE * 2):
        return value.removeprefix(_FILE)
    name = value.removeprefix(_FILE)
    try:
        return (sys.stdin.buffer.read() if name == _STANDARD_INPUT else Path(name).read_bytes()).decode()
    except OSError as error:
        raise typer.BadParameter(f"{name} cannot be read: {error.strerror}", param_hint=option) from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is not UTF-8 at byte {error.start}", param_hint=option) from None


def file_of(value: str) -> Path | None:
    """Returns the file from which an option's text is read, or None; see `text_or_file`."""
    named = value.startswith(_FILE) and not value.startswith(_FILE * 2) and value != f"{_FILE}{_STANDARD_INPUT}"
    return Path(value.removeprefix(_FILE)) if named else None


def split_assignment(option: str, given: str) -> tuple[str, str]:
    """Returns name and value of `name=value`."""
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{given!r} is not NAME=VALUE", param_hint=option)
    return name, value


def read_parameters(given: Sequence[str], declared: Sequence[Mapping[str, Any]]) -> str:
    """Returns the JSON object of repeated `--param`, each read as the type that the workflow declares.

    A name that is not declared is sent as text, for the service to refuse it beside the other problems.

    Raises:
        CommandError: values do not have the form of their types; the details name each.
    """
    types = {parameter["name"]: parameter["type"] for parameter in declared}
    values: dict[str, object] = {}
    problems = []
    for assignment in given:
        name, text = split_assignment("--param", assignment)
        if name in values:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--param")
        text = text_or_file("--param", text)
        try:
            values[name] = _READERS.get(types.get(name, "string"), str)(text)
        except ValueError as error:
            problems.append({"name": f"--param {name}", "reason": f"must be {error}, not {_shortened(text)!r}"})
    if problems:
        raise CommandError("A parameter cannot be read.", code="invalid_parameters", details=problems)
    return json_text(values, indented=False, encoding="utf-8")


def read_labels(given: Sequence[str]) -> dict[str, str]:
    """Returns the labels of repeated `--label`."""
    return dict(split_assignment("--label", label) for label in given)


def _integer(text: str) -> int:
    try:
        return int(text.strip(), 10)
    except ValueError:
        raise ValueError("a whole number") from None


def _number(text: str) -> object:
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number")  # noqa: TRY004 - the readers' one exception
    return RawJson(text.strip())


def _boolean(text: str) -> bool:
    value = _BOOLEANS.get(text.strip())
    if value is None:
        raise ValueError("true or false")
    return value


def _json(text: str) -> RawJson:
    try:
        json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_members)
    except _DuplicateNameError as error:
        raise ValueError(f"JSON in which no object has the name {_shortened(error.name)!r} twice") from None
    except (ValueError, RecursionError):
        raise ValueError("JSON") from None
    return RawJson(text)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Returns a JSON object; refuses equal names, as HTTP does, of which Python keeps the last."""
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise _DuplicateNameError(name)
        members[name] = value
    return members


def _finite(text: str) -> float:
    """Returns a number of JSON; refuses NaN and infinity, which Python reads too."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "json": _json,
    # The line end of a file is no part of such a value.
    "date": str.strip,
    "s3_prefix": str.strip,
}
