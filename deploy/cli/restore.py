"""`workflow-api restore`: a backup into a data folder that no service uses."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from backend.storage.migrate import newest_revision
from deploy.backup.layout import BackupError
from deploy.backup.restoring import Restored, restore_backup
from deploy.cli.options import Config, Json
from deploy.cli.output.printing import print_json, print_line
from deploy.config.source import read_settings
from deploy.serve.lifecycle import ended_by_signals

_STANDARD_INPUT: Final = "-"


def command(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A file of `workflow-api backup`; `-` reads a pipe.")],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The data folder to restore into.")],
    force: Annotated[
        bool, typer.Option("--force", help="Move what is in the folder into `before-restore-TIME` below it.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into a data folder; it is checked before anything is put in place."""
    settings = read_settings(os.environ, config=config)
    os.umask(0o077)
    with ended_by_signals():
        try:
            if file == _STANDARD_INPUT:
                restored = restore_backup(sys.stdin.buffer, data, force=force)
            else:
                with Path(file).open("rb") as source:
                    restored = restore_backup(source, data, force=force)
        except OSError as error:
            raise BackupError(f"{error.filename or data}: {error.strerror or error}.") from error
    if as_json:
        moved_to = None if restored.moved_to is None else str(restored.moved_to)
        print_json({"data": str(data), "moved_to": moved_to, **asdict(restored.manifest)})
        return
    announce(restored, data, settings.objects.folder)


def announce(restored: Restored, data: Path, objects: Path | None) -> None:
    """Prints what was restored, and what is left to do."""
    manifest = restored.manifest
    print_line(f"{data} has the state of {manifest.taken_at}: {manifest.runs:,} runs, {manifest.objects:,} objects.")
    if manifest.schema != newest_revision():
        print_line(f"Its schema {manifest.schema} is migrated to {newest_revision()} when the service starts.")
    if manifest.objects_store == "s3":
        print_line("Its objects are in a bucket: restore them there.")
    elif objects is not None:
        print_line(f"Its objects are in {data / 'objects'}: move them to {objects}, which objects.folder names.")
    if restored.moved_to is not None:
        print_line(f"What was there before is in {restored.moved_to}: remove it once it is not needed.")
    print_line(
        "What was erased, revoked or disabled since then is back: do it again before callers are admitted "
        "(docs/operators-guide.md)."
    )
