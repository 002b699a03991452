"""`workflow-api doctor`: checks of the requirements of a part, with remedies."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from deploy.cli.options import GRPC_VARIABLE, Config, Data, HttpListen, Json, backend_address, listening_address
from deploy.cli.output.printing import print_json, print_line
from deploy.config.addresses import BackendAddress
from deploy.config.addresses import backend_address as as_backend_address
from deploy.config.source import read_settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart, examine, failed, ok
from deploy.failures import CommandError
from deploy.serve.lifecycle import default_data

_PARTS: Final = "|".join(ServingPart)
_WIDTH: Final = max(map(len, Outcome))
_ADDRESSES: Final[Mapping[ServingPart, Mapping[str, str]]] = {
    ServingPart.SERVE: {
        "--data": "data",
        "--http": "edge.http",
        "--grpc": "backend.grpc",
        "--console": "console.listen",
    },
    ServingPart.BACKEND: {"--data": "data", "--grpc": "backend.grpc"},
    ServingPart.WORKER: {"--data": "data"},
    ServingPart.EDGE: {"--http": "edge.http", "--grpc": "edge.backend"},
    ServingPart.CONSOLE: {"--http": "console.listen", "--grpc": "console.backend"},
}
"""The settings that the address options of each part set."""


def command(
    part: Annotated[
        str, typer.Argument(metavar=_PARTS, help="What is started, or shall be, on this machine.")
    ] = ServingPart.SERVE,
    data: Data = None,
    http: HttpListen = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            "--grpc",
            metavar="HOST:PORT|unix:/PATH",
            callback=backend_address,
            help="Where gRPC listens, or where an edge or a console finds it.",
        ),
    ] = None,
    console: Annotated[
        str | None,
        typer.Option("--console", metavar="HOST:PORT", callback=listening_address, help="Where the console listens."),
    ] = None,
    config: Config = None,
    write_probe: Annotated[
        bool, typer.Option("--write-probe", help="Also write to data folder and objects, and remove it again.")
    ] = False,
    every_object: Annotated[
        bool, typer.Option("--objects", help="Also list lost objects, and those that no row of the database names.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="As --objects, and remove those that no row names; with --yes alone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do what --repair otherwise only lists.")] = False,
    as_json: Json = False,
) -> None:
    """Check settings and what a part needs, and say what to do; changes nothing but by --repair.

    Exits with 1 if a check fails.
    """
    if part not in set(ServingPart):
        raise typer.BadParameter(f"{part!r} is no part; allowed are {', '.join(ServingPart)}", param_hint="PART")
    if yes and not repair:
        raise typer.BadParameter("it goes with --repair", param_hint="--yes")
    if repair and not ServingPart(part).has_data:
        raise typer.BadParameter(f"`{part}` has no objects", param_hint="--repair")
    options: dict[str, str | None] = {
        "--data": None if data is None else str(data),
        "--http": http,
        "--grpc": grpc,
        "--console": console,
    }
    given = dict(_given(ServingPart(part), options))
    os.environ["GRPC_VERBOSITY"] = "NONE"
    found: list[Finding] = []
    every_object, repair = every_object or repair, repair and yes
    examined = partial(ExaminedPart, write_probe=write_probe, every_object=every_object, repair=repair)
    for check in _checks(ServingPart(part), given, config, examined):
        found.append(check)
        if not as_json:
            remedy = f" {check.remedy}" if check.remedy else ""
            print_line(f"{check.outcome:{_WIDTH}}  {check.name}: {check.message}{remedy}")
    counts = {outcome.name.lower(): sum(check.outcome is outcome for check in found) for outcome in Outcome}
    if as_json:
        print_json({"part": part, **counts, "checks": [asdict(check) for check in found]})
    else:
        print_line("")
        print_line(f"{part}: {counts['failed']} failed, {counts['warning']} with a warning, {counts['ok']} ok.")
    if counts["failed"]:
        raise typer.Exit(1)


def _given(part: ServingPart, options: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yields settings by name from options; refuses an option that the part does not have."""
    taken = _ADDRESSES[part]
    for option, value in options.items():
        if value is not None and option not in taken:
            raise typer.BadParameter(f"`{part}` has no such option; it has {', '.join(taken)}", param_hint=option)
        if value is not None:
            yield taken[option], value


def _named_backend() -> BackendAddress | None:
    """Returns the backend's address from the environment variable of administrators' commands, or None."""
    value = os.environ.get(GRPC_VARIABLE)
    try:
        return as_backend_address(value) if value else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=GRPC_VARIABLE) from None


def _checks(
    part: ServingPart, given: Mapping[str, str], config: Path | None, examined: Callable[..., ExaminedPart]
) -> Iterator[Finding]:
    named = _named_backend()
    setting = _ADDRESSES[part].get("--grpc", "")
    if setting in given:
        named = None
    elif named is not None and not part.has_data:
        # Edges and consoles use the variable too.
        given = {**given, setting: str(named)}
    try:
        settings = read_settings(os.environ, config=config, given=given)
    except CommandError as error:
        problems = error.details if isinstance(error.details, list) else []
        for problem in problems:
            yield failed("settings", _sentence(problem), "Correct it; docs/settings.md lists all settings.")
        if not problems:
            yield failed("settings", error.message, "Correct the file, or name another one with --config.")
        return
    yield ok("settings", f"{config or 'The environment'} holds settings that can be used.")
    folder = settings.data or default_data(os.environ, demo=False)
    yield from examine(examined(part, settings, folder, os.environ, named_backend=named))


def _sentence(problem: Mapping[str, str]) -> str:
    said = f"{problem['name']} {problem['reason']}"
    return said if said.endswith("?") else f"{said}."
