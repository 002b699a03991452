"""`workflow-api doctor`: what a part needs, whether it is there, and what to do where it is not."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from deploy.cli.options import Config, Data, Json
from deploy.cli.output.printing import print_json, print_line
from deploy.config.source import read_settings
from deploy.doctor.check import Check, Examined, Outcome, Part, failed, ok
from deploy.doctor.examination import examine
from deploy.failures import CommandError
from deploy.serve.lifecycle import default_data

_PARTS: Final = "|".join(Part)
_WIDTH: Final = max(map(len, Outcome))


def command(
    part: Annotated[
        str, typer.Argument(metavar=_PARTS, help="What is started, or shall be, on this machine.")
    ] = Part.SERVE,
    data: Data = None,
    config: Config = None,
    write_probe: Annotated[
        bool, typer.Option("--write-probe", help="Also write to data folder and objects, and remove it again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check settings and what a part needs, and say what to do; changes nothing. Exits with 1 if a check fails."""
    if part not in set(Part):
        raise typer.BadParameter(f"{part!r} is no part; allowed are {', '.join(Part)}", param_hint="PART")
    os.environ["GRPC_VERBOSITY"] = "NONE"
    found: list[Check] = []
    for check in _checks(Part(part), data, config, write_probe=write_probe):
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


def _checks(part: Part, data: Path | None, config: Path | None, *, write_probe: bool) -> Iterator[Check]:
    try:
        settings = read_settings(os.environ, config=config, given={"data": data and str(data)})
    except CommandError as error:
        problems = error.details if isinstance(error.details, list) else []
        for problem in problems:
            yield failed("settings", _sentence(problem), "Correct it; docs/settings.md lists all settings.")
        if not problems:
            yield failed("settings", error.message, "Correct the file, or name another one with --config.")
        return
    yield ok("settings", f"{config or 'The environment'} holds settings that can be used.")
    folder = settings.data or default_data(os.environ, demo=False)
    yield from examine(Examined(part, settings, folder, os.environ, write_probe))


def _sentence(problem: Mapping[str, str]) -> str:
    said = f"{problem['name']} {problem['reason']}"
    return said if said.endswith("?") else f"{said}."
