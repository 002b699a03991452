"""`workflow-api runs outputs` and `runs download`: the files that a run left."""

import hashlib
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, RunId, Utc
from deploy.cli.output.printing import Form, TableColumn, print_json, print_table
from deploy.cli.output.records import record_of
from deploy.cli.output.terminal import is_terminal
from deploy.client.backend import BackendClient, connected
from deploy.failures import CommandError
from workflow_api.v1 import outputs_pb2

LARGEST_SINGLE: Final = 25_000_000
"""Bytes of the largest output that is sent alone; larger ones are only in the zip (contract 18.10)."""

_DOWNLOAD_SECONDS: Final = 3_000.0
_SWEEP_POLL_SECONDS: Final = 0.5
_LONGEST_SWEEP_SECONDS: Final = 3_600.0
_PENDING: Final = "redaction_pending"


def outputs(run_id: RunId, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List the files that a finished run left."""
    with connected(grpc) as backend:
        record = record_of(list_outputs(backend, run_id))
    if as_json:
        print_json(record)
        return
    print_table(record["items"], OUTPUT_COLUMNS, none="No output.", utc=utc)
    if record["items"]:
        count = len(record["items"])
        print(f"\n{count} {'file' if count == 1 else 'files'}, {size_text(record['total_bytes'])}")


def download(
    run_id: RunId,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder to write to; otherwise one named as the run.")
    ] = None,
    as_zip: Annotated[bool, typer.Option("--zip", help="Write RUN_ID.zip instead of the files.")] = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Download the files that a finished run left; a file that exists is replaced."""
    with connected(grpc) as backend:
        if as_zip:
            written = [download_zip(backend, run_id, out or Path())]
        else:
            written = download_outputs(backend, run_id, out or Path(run_id))
    if as_json:
        print_json({"run_id": run_id, "files": [str(path) for path in written]})
    else:
        for path in written:
            print(path)
        if not written:
            print("No output.", file=sys.stderr)


def list_outputs(backend: BackendClient, run_id: str) -> outputs_pb2.ListOutputsResponse:
    """Returns the outputs of a finished run, once its final sweep for personal data is done."""
    until = time.monotonic() + _LONGEST_SWEEP_SECONDS
    while True:
        try:
            return backend.call(backend.outputs.ListOutputs, outputs_pb2.ListOutputsRequest(run_id=run_id))
        except CommandError as failed:
            if failed.code != _PENDING or time.monotonic() > until:
                raise
        time.sleep(_SWEEP_POLL_SECONDS)


def download_outputs(backend: BackendClient, run_id: str, folder: Path) -> list[Path]:
    """Writes every output below `folder` and returns the files; unpacks the zip if one is too large to be sent alone.

    Raises:
        CommandError: an output does not arrive whole, or a file cannot be written.
    """
    listed = list_outputs(backend, run_id)
    targets = {item.path: folder / safe_path(item.path) for item in listed.items}
    with writing(), progress_bar(f"{len(targets)} files", listed.total_bytes) as advance:
        if any(item.size_bytes > LARGEST_SINGLE for item in listed.items):
            _download_unpacked(backend, run_id, targets, advance)
        else:
            for item in listed.items:
                with replaced(targets[item.path]) as file:
                    _write(_content(backend, run_id, item.output_id), file, advance, item.size_bytes, item.sha256)
    return list(targets.values())


def download_zip(backend: BackendClient, run_id: str, folder: Path) -> Path:
    """Writes `<run id>.zip` into `folder` and returns its path; raises as `download_outputs`."""
    listed = list_outputs(backend, run_id)
    target = folder / f"{run_id}.zip"
    with writing(), progress_bar(target.name, listed.total_bytes) as advance, replaced(target) as file:
        size, parts = _zip(backend, run_id)
        _write(parts, file, advance, size)
    return target


def size_text(size: int) -> str:
    """Returns a number of bytes as text for people."""
    if size < 1_000:
        return f"{size} B"
    for unit in ("kB", "MB", "GB"):
        size_in_unit = size / 1_000
        if size_in_unit < 999.5 or unit == "GB":
            return f"{size_in_unit:.1f} {unit}"
        size = round(size_in_unit)
    raise AssertionError("the last unit takes every size")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts bytes; after a second shows a bar on standard error of a terminal."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    bar = _LateBar(title, total)
    try:
        yield bar.advance
    finally:
        bar.stop()


class _LateBar:
    """A progress bar that appears after a second, so that quick downloads show none."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._began = time.monotonic()
        self._done = 0
        self._progress: Any = None
        self._task: Any = None

    def advance(self, size: int) -> None:
        """Counts bytes."""
        self._done += size
        if self._progress is None and time.monotonic() - self._began > 1:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._title, total=self._total)
            self._progress.start()
        if self._progress is not None:
            self._progress.update(self._task, completed=self._done)

    def stop(self) -> None:
        """Removes the bar."""
        if self._progress is not None:
            self._progress.stop()


def _content(backend: BackendClient, run_id: str, output_id: str) -> Iterator[bytes]:
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output_id)
    for part in backend.stream(backend.outputs.GetOutputContent, request, _DOWNLOAD_SECONDS):
        yield part.data


def _zip(backend: BackendClient, run_id: str) -> tuple[int, Iterator[bytes]]:
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    parts = backend.stream(backend.outputs.GetOutputsZip, request, _DOWNLOAD_SECONDS)
    return next(parts).header.size_bytes, (part.data for part in parts)


def _write(
    parts: Iterable[bytes], file: BinaryIO, advance: Callable[[int], None], size: int, sha256: str | None = None
) -> None:
    digest, written = hashlib.sha256(), 0
    for part in parts:
        file.write(part)
        digest.update(part)
        written += len(part)
        advance(len(part))
    if written != size or sha256 not in {None, digest.hexdigest()}:
        raise CommandError("The download broke off or was changed on its way: repeat the command.")


def _download_unpacked(
    backend: BackendClient, run_id: str, targets: dict[str, Path], advance: Callable[[int], None]
) -> None:
    with tempfile.TemporaryFile() as packed:
        size, parts = _zip(backend, run_id)
        _write(parts, packed, advance, size)
        with zipfile.ZipFile(packed) as archive:
            for path, target in targets.items():
                with archive.open(path) as member, replaced(target) as file:
                    while part := member.read(1 << 20):
                        file.write(part)


def safe_path(path: str) -> PurePosixPath:
    """Returns the path of a file, which must lead into the target folder (contract 25.15)."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or "\0" in path:
        raise CommandError(f"The output {path!r} has a path that leads out of the folder; download it with --zip.")
    return parts


@contextmanager
def replaced(target: Path) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `target` once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".download-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def writing() -> Iterator[None]:
    """Turns errors of writing a file into failures of the command."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{error.filename or 'A file'} cannot be written: {error.strerror}.") from None


OUTPUT_COLUMNS: Final = (
    TableColumn("PATH", "path", rank=0),
    TableColumn("SIZE", lambda record: size_text(record["size_bytes"]), Form.NUMBER, rank=1),
    TableColumn("MEDIA TYPE", "media_type", Form.TEXT, rank=3),
    TableColumn("CREATED", "created_at", Form.TIME, rank=4),
    TableColumn("OUTPUT ID", "output_id", rank=2),
)
