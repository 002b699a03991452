"""`workflow-api backup` and `restore`: the embedded database with its objects to one file, and back to a folder."""

import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from backend.storage.factory import newest_revision
from deploy.backup.archive import BackupError
from deploy.backup.restoring import RestoredBackup, restore_backup
from deploy.backup.writing import Backup, Source, new_file, write_backup
from deploy.cli.options import Config, Data, Json
from deploy.cli.output.printing import print_json, print_line
from deploy.config.settings import Settings
from deploy.config.source import read_settings
from deploy.serve.lifecycle import default_data, ended_by_signals

_STANDARD_OUTPUT: Final = "-"


def backup_command(
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FILE|DIR|-", help="A new file, or one named by the time in a folder; `-`: a pipe."
        ),
    ],
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Back up the embedded database with its objects, whether or not the service runs."""
    settings = read_settings(os.environ, config=config, given={"data": data and str(data)})
    source = source_of(settings)
    target = "standard output"
    with ended_by_signals():
        try:
            if out == _STANDARD_OUTPUT:
                if sys.stdout.isatty():
                    raise BackupError("A backup is not for a terminal: name a file, or a pipe that takes it.")
                backup = write_backup(source, sys.stdout.buffer, source.data)
                sys.stdout.buffer.flush()
            else:
                path = (
                    Path(out) / f"workflow-api-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar"
                    if Path(out).is_dir()
                    else Path(out)
                )
                target = str(path)
                with new_file(path) as file:
                    backup = write_backup(source, file, path.absolute().parent)
                announce_backup(backup, target, as_json=as_json)
        except OSError as error:
            raise BackupError(f"{error.filename or target}: {error.strerror or error}.") from error
        except EOFError as error:
            raise BackupError(f"{error} became shorter while it was copied.") from None
    if backup.absent:
        lost = f"{backup.manifest.absent_objects} objects that the database names, such as {backup.absent[0]}"
        raise BackupError(f"The backup is made, but the deployment has lost {lost}: look at its disk.")


def source_of(settings: Settings) -> Source:
    """Returns the source of a backup by these settings.

    Raises:
        BackupError: the database is on a server, which has its own backups.
    """
    if settings.backend.database is not None:
        raise BackupError("The database is on a server: docs/operators-guide.md says how pg_dump backs it up.")
    data = settings.data or default_data(os.environ, demo=False)
    if settings.objects.store == "s3":
        return Source(data, None)
    return Source(data, settings.objects.folder or data / "objects")


def announce_backup(backup: Backup, out: str, *, as_json: bool) -> None:
    """Prints the figures of a backup."""
    manifest = backup.manifest
    if as_json:
        print_json({"file": out, **asdict(manifest)})
        return
    print_line(f"{out} has the state of {manifest.taken_at}, schema {manifest.schema}.")
    print_line(f"Runs: {manifest.runs:,}. Objects: {manifest.objects:,}, {manifest.object_bytes:,} bytes.")
    if manifest.objects_store == "s3":
        print_line("Objects are in a bucket and not in this backup: copy the bucket now.")


_STANDARD_INPUT: Final = "-"


def restore_command(
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
    announce_restored(restored, data, settings.objects.folder)


def announce_restored(restored: RestoredBackup, data: Path, objects: Path | None) -> None:
    """Prints the restored parts, and the steps left to the administrator."""
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
