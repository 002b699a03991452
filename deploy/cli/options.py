"""Options and values that several commands share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from deploy.config import addresses, checks
from deploy.config.source import CONFIG_VARIABLE
from telemetry.log_output import FORMATS

Value = TypeVar("Value")

GRPC_VARIABLE: Final = "WORKFLOW_API_GRPC"
DEFAULT_GRPC: Final = str(addresses.DEFAULT_GRPC)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

Utc = Annotated[bool, typer.Option("--utc", help="Show exact times in UTC instead of relative ones.")]

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key id, ak_ and 12 hexadecimal digits.")]
RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run.")]
Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id or name of the workflow.")]

ANY: Final = "any"
"""Value of `--cidr` and `--hours` that removes the restriction."""

_HOURS: Final = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
_DURATION: Final = re.compile(r"([0-9]{1,6})([hd])")


def listening_address(value: str | None) -> str | None:
    """Checks an address to listen on."""
    return _checked(value, addresses.address)


def grpc_address(value: str | None) -> str | None:
    """Checks an address of the gRPC services."""
    return _checked(value, addresses.grpc_address)


def backend_address(value: str | None) -> str | None:
    """Checks the address of one or several backends."""
    return _checked(value, addresses.backend_address)


def log_level(value: str | None) -> str | None:
    """Checks levels of the log."""
    return _checked(value, checks.log_levels)


def log_format(value: str | None) -> str | None:
    """Checks the form of the log."""
    return _checked(value, checks.one_of(*FORMATS))


def _checked(value: str | None, check: Callable[[str], object]) -> str | None:
    if value is not None:
        try:
            check(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


Grpc = Annotated[
    str,
    typer.Option(
        "--grpc",
        envvar=GRPC_VARIABLE,
        metavar="HOST:PORT|unix:/PATH",
        callback=grpc_address,
        help="Where the backend's gRPC services listen.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", envvar=CONFIG_VARIABLE, metavar="FILE", help="TOML file with settings."),
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder for the database and all objects.")]
HttpListen = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", callback=listening_address, help="Where the HTTP API listens."),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL[,PART=LEVEL]",
        callback=log_level,
        help="debug, info, warning or error; also for parts, as in info,edge=debug.",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="auto|json|text",
        callback=log_format,
        help="Form of the log on standard error; auto, the default, is text on a terminal and JSON elsewhere.",
    ),
]
GrpcListen = Annotated[
    str | None,
    typer.Option(
        "--grpc",
        metavar="HOST:PORT|unix:/PATH",
        callback=grpc_address,
        help="Where gRPC listens; other than loopback only with a certificate.",
    ),
]


def read_option(option: str, parse: Callable[[str], Value], text: str) -> Value | None:
    """Parses an option's text, None if it was not given; `parse` raises ValueError with the allowed form."""
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(f"must be {error}, not {text!r}", param_hint=option) from None


def comma_separated(value: str) -> list[str]:
    """Splits `a,b` at its commas, without blanks around them."""
    return [part.strip() for part in value.split(",")]


def hours_window(value: str) -> tuple[int, int]:
    """Reads `8-18` as start and end hour; the backend checks their range."""
    match = _HOURS.fullmatch(value)
    if match is None:
        raise typer.BadParameter(f"must be START-END in UTC hours, such as 8-18, not {value!r}", param_hint="--hours")
    return int(match[1]), int(match[2])


def overlap_in_hours(value: str) -> int:
    """Reads `24h` or `3d` as hours; the backend checks whether that overlap is allowed."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise typer.BadParameter(f"must be 1h, 24h, 3d or 7d, not {value!r}", param_hint="--overlap")
    return int(match[1]) * (24 if match[2] == "d" else 1)
