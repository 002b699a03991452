"""Whether a folder that an option names can be written to, before the work whose results it is for."""

import os
from pathlib import Path

import typer


def check_writable(option: str, folder: Path) -> None:
    """Returns if `folder`, or the nearest folder above it that exists, can be written to; creates nothing.

    Raises:
        typer.BadParameter: it cannot be, or is a file.
    """
    place = folder.absolute()
    nearest = next(each for each in (place, *place.parents) if os.path.lexists(each))
    if not nearest.is_dir():
        raise typer.BadParameter(f"{folder} cannot be written: {nearest} is no folder", param_hint=option)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{folder} cannot be written: {nearest} allows no new files", param_hint=option)
