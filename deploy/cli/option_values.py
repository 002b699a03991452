"""Takes the values of options and arguments that are texts, flags or paths as they are.

typer converts every value by pydantic, whose import takes a tenth of the start of a service. A text needs no
conversion, and what a path names is checked where it is used. Lists are left to typer, and numbers, which are then
held to what a field of the services can hold; their own bounds are those of the protos.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

_KINDS: Final = (str, bool, Path, int)
_LARGEST: Final = 2**31 - 1


class PlainCommand(TyperCommand):
    """A command whose texts, flags and paths are taken as they are."""

    def get_params(self, ctx: Any) -> Any:
        """Returns the parameters with `--help`."""
        return _taken_as_given(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A command with commands below it, whose own options are taken as they are."""

    def get_params(self, ctx: Any) -> Any:
        """Returns the parameters with `--help`."""
        return _taken_as_given(super().get_params(ctx))


class _AsGiven:
    """Stands for typer's conversion of one value; what is neither absent nor of a kind above is left to typer's."""

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


def _taken_as_given(parameters: list[Any]) -> list[Any]:
    """Replaces the conversion of parameters; typer makes these itself and has no other place for one of ours."""
    for parameter in parameters:
        kind, convert = parameter.type_descriptor.annotation, parameter.get_runtime_param
        one = parameter.nargs == 1 and not getattr(parameter, "multiple", False)
        if one and kind in _KINDS and not isinstance(convert, partial):
            parameter.get_runtime_param = partial(_AsGiven, kind, convert)
    return parameters
