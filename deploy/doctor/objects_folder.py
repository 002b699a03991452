"""A folder of objects: whether it can be used, and has what the rows of the database name."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from backend.secrets import SecretError
from deploy.doctor.check import Check, Examined, Outcome, failed, ok, warning
from deploy.doctor.mounts import read_only, to_make
from deploy.doctor.output_rows import output_rows

_NAME: Final = "objects"
# A small result is in its run's row (`result_row_key`).
_NAMED: Final = "SELECT object_key FROM outputs WHERE object_key <> 'runs/' || run_id || '/row/result' LIMIT 100"


def check_folder(examined: Examined) -> Iterator[Check]:
    """Checks the folder that the settings name, or that below the data folder."""
    given = examined.settings.objects.folder
    folder = given or examined.data / "objects"
    if _lost(examined, folder):
        yield failed(
            _NAME,
            f"The database names objects, and {folder} {'has none of them' if folder.exists() else 'is not there'}.",
            "Mount it, or bring the objects back from a backup (docs/operators-guide.md, Backup).",
        )
    elif not folder.exists():
        made = to_make(_NAME, folder, "objects.folder" if given else "--data")
        own_disk = given is None or given.is_relative_to(examined.data)
        yield (
            made
            if own_disk or made.outcome is Outcome.FAILED
            else warning(
                _NAME,
                f"{folder}, which objects.folder names, is not there.",
                "If it is a mount, mount it before the start, which makes it on this machine's own disk otherwise.",
            )
        )
    elif (found := read_only(_NAME, folder)) is not None:
        yield found
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield failed(_NAME, f"{folder} cannot be read and written.", "Give it to the user of the service.")
    else:
        yield ok(_NAME, f"{folder} can be read and written.")


def _lost(examined: Examined, folder: Path) -> bool:
    """Returns whether rows name objects and none of those that are looked at is there."""
    named = _named(examined)
    if not named or any((folder / key).exists() for key in named):
        return False
    # An erasure may have removed them meanwhile, rows first.
    return bool(named & _named(examined))


def _named(examined: Examined) -> set[str]:
    """Returns some keys that rows name; none where the database cannot be read, which its own check says."""
    with suppress(ImportError, SecretError, sqlite3.Error):
        if examined.settings.backend.database is None:
            return {str(key) for (key,) in output_rows(examined, _NAMED)}
        import psycopg

        with suppress(psycopg.Error):
            return {str(key) for (key,) in output_rows(examined, _NAMED)}
    return set()
