"""`workflow-api environments roots`: system libraries of environments on this machine, unpacked from images."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Config, Data, Grpc, Json, Utc
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_line, print_table
from deploy.cli.output.records import PAGE
from deploy.client.backend import connected
from deploy.config.source import read_settings
from deploy.failures import CommandError
from deploy.serve.lifecycle import default_data, ended_by_signals
from workflow_api.v1 import environments_pb2

if TYPE_CHECKING:
    from backend.resources.roots.store import Root, RootStore

RootName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the root.")]

command = typer.Typer()


@command.command("add")
def add(
    name: RootName,
    source: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|ARCHIVE", help="A root file system, or an image as `docker save` writes it."),
    ],
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Unpack a root on this machine; each machine of backends and workers needs it.

    It has the folders of programs and libraries, fonts and their settings; nothing else of the image is kept.
    """
    store = _store(data, config)
    with ended_by_signals(), _failures(f"The root '{name}' cannot be added"):
        root = store.add(name, source, int(time.time() * 1000))
    record = _record(root)
    if as_json:
        print_json(record)
    else:
        print_details(record, DETAILS)


@command.command("list")
def list_roots(data: Data = None, config: Config = None, utc: Utc = False, as_json: Json = False) -> None:
    """List the roots of this machine by name."""
    items = [_record(root) for root in _store(data, config).all()]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, COLUMNS, none="No root: add one by `workflow-api environments roots add`.", utc=utc)


@command.command("remove")
def remove(
    name: RootName,
    data: Data = None,
    config: Config = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Remove a root from this machine, unless an environment in use names it, which the backend knows."""
    store = _store(data, config)
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = environments_pb2.ListEnvironmentBuildsRequest(page_size=PAGE)
        used = backend.call(backend.environments.ListEnvironmentBuilds, request).roots_in_use
    if name in used:
        raise CommandError(
            f"The root '{name}' is in use: an environment, or a version of a workflow, names it.", code="conflict"
        )
    with _failures(f"The root '{name}' cannot be removed"):
        store.remove(name)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        print_line(f"Removed '{name}' from this machine.")


def _store(data: Path | None, config: Path | None) -> "RootStore":
    # Imported on use, because the commands beside these need no sandbox.
    from backend.resources.roots.store import RootStore

    settings = read_settings(os.environ, config=config, given={"data": data and str(data)})
    folder = settings.data or default_data(os.environ, demo=False)
    return RootStore((settings.packages.folder or folder / "packages") / "roots")


@contextmanager
def _failures(what: str) -> Iterator[None]:
    from backend.resources.roots.tree import RootError

    try:
        yield
    except RootError as error:
        raise CommandError(f"{what}: {error}.", code="invalid_request") from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise CommandError(f"{what}: {place}{error.strerror or error}.") from error


def _record(root: "Root") -> Record:
    return {
        "name": root.name,
        "digest": root.digest,
        "files": root.files,
        "bytes": root.size,
        "c_library": root.c_library,
        "added_at": datetime.fromtimestamp(root.added_at / 1000, UTC).isoformat().replace("+00:00", "Z"),
    }


def _megabytes(record: Record) -> str:
    return f"{record['bytes'] / 2**20:,.1f} MiB"


COLUMNS: Final = (
    TableColumn("NAME", "name", rank=0),
    TableColumn("DIGEST", "digest", rank=0),
    TableColumn("SIZE", _megabytes, Form.NUMBER, rank=1),
    TableColumn("C LIBRARY", "c_library", rank=2),
    TableColumn("ADDED", "added_at", Form.TIME, rank=3),
)

DETAILS: Final = (
    TableColumn("name", "name"),
    TableColumn("digest", "digest"),
    TableColumn("files", "files", Form.NUMBER),
    TableColumn("size", _megabytes),
    TableColumn("c_library", "c_library"),
)
