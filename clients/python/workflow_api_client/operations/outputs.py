"""Reads the outputs of a run: the list, single files, all files into a folder, and the zip."""

import hashlib
import itertools
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from workflow_api_client.core import Core
from workflow_api_client.exchange import Steps, Work
from workflow_api_client.failures import CorruptDownloadError, UnexpectedAnswerError
from workflow_api_client.generated import records, routes
from workflow_api_client.generated.errors import OutputNotFoundError, RangeNotSatisfiableError, UseBundleError
from workflow_api_client.operations.downloading import FilePart, MemoryPart, Source, checked_file, fetch
from workflow_api_client.operations.reading import get

_BLOCK: Final = 2**20


@dataclass(frozen=True)
class Progress:
    """Progress of a download: bytes of all files together, and the path of the present file."""

    path: str
    done_bytes: int
    total_bytes: int


Report = Callable[[Progress], None]


def list_outputs(core: Core, run_id: str) -> Steps[list[records.Output]]:
    """Returns the outputs by path."""
    return (yield from get(core, records.ListOutputsResponse, routes.LIST_OUTPUTS, {"run_id": run_id})).items


def find(core: Core, run_id: str, path: str) -> Steps[records.Output]:
    """Returns the output with a path or id."""
    found = yield from list_outputs(core, run_id)
    output = next((one for one in found if path in {one.path, one.output_id}), None)
    if output is None:
        raise OutputNotFoundError(
            f"The run has no output {path!r}.", code="output_not_found", status=404, request_id=None
        )
    return output


def read(core: Core, run_id: str, path: str | records.Output, begin: int = 0, end: int | None = None) -> Steps[bytes]:
    """Returns the bytes of an output, or from one offset to another, without a check by digest."""
    output = path if isinstance(path, records.Output) else (yield from find(core, run_id, path))
    size = output.size_bytes
    end = size if end is None else min(end, size)
    if not 0 <= begin <= end:
        raise ValueError(f"`begin` must be from 0 to {end}, which {begin!r} is not.")
    is_whole = end - begin == size
    if begin == end and not is_whole:
        return b""
    source, part = _source(run_id, output), MemoryPart(begin, end)
    yield from fetch(core, source if is_whole else replace(source, end=end), part, lambda _: None)
    content = part.getvalue()
    if len(content) != end - begin or (is_whole and hashlib.sha256(content).hexdigest() != output.sha256):
        raise CorruptDownloadError(f"{output.path} arrived with other bytes than the service lists.")
    return content


def download(core: Core, run_id: str, folder: Path, report: Report) -> Steps[list[Path]]:
    """Writes every output below a folder, under its path; returns the files.

    Files that are too large for a download of their own are taken from the zip.
    """
    outputs = yield from list_outputs(core, run_id)
    targets = [target_in(folder, one.path) for one in outputs]
    total, done = sum(one.size_bytes for one in outputs), 0
    large: list[tuple[records.Output, Path]] = []
    for output, target in zip(outputs, targets, strict=True):
        arrived = _reporter(report, output.path, done, total)
        try:
            yield from checked_file(core, _source(run_id, output), target, output.sha256, output.size_bytes, arrived)
        except UseBundleError:
            large.append((output, target))
            continue
        done += output.size_bytes
    if large:
        bundle = folder / f".{run_id}.zip"
        yield from download_zip(core, run_id, bundle, _share(report, [each for each, _ in large], done, total), outputs)
        for output, target in large:
            yield Work(lambda output=output, target=target: _extract(bundle, output, target))  # type: ignore[misc] # as above
        report(Progress(large[-1][0].path, total, total))
        yield Work(bundle.unlink)
    return targets


def download_zip(
    core: Core, run_id: str, path: Path, report: Report, listed: Sequence[records.Output] | None = None
) -> Steps[Path]:
    """Writes the zip of all outputs, once every file in it has the digest that the service lists.

    A partial zip of an earlier download is completed.

    Raises:
        CorruptDownloadError: a file has another digest, also in a zip fetched anew; the zip is deleted.
    """
    outputs = listed if listed is not None else (yield from list_outputs(core, run_id))
    total = sum(one.size_bytes for one in outputs)
    part = path.with_name(f".{path.name[:100]}.{_digest_of(outputs)}.part")
    yield Work(lambda: path.parent.mkdir(parents=True, exist_ok=True))
    resumed: bool = yield Work(part.exists)
    while True:
        problem: str | None = (yield Work(lambda: _problem(part, outputs))) if resumed else "it is not there yet"
        if problem is not None:
            source = Source(routes.GET_OUTPUTS_ZIP, {"run_id": run_id})
            try:
                yield from fetch(core, source, FilePart(part), _reporter(report, path.name, 0, total))
                problem = yield Work(lambda: _problem(part, outputs))
            except RangeNotSatisfiableError:
                # The partial zip is as long as the whole one, or longer.
                if not resumed:
                    raise
        if problem is None:
            yield Work(lambda: part.replace(path))
            return path
        yield Work(part.unlink)
        if not resumed:
            raise CorruptDownloadError(f"{path.name}: {problem}")
        # The partial zip may have been of other outputs.
        resumed = False


def target_in(folder: Path, path: str) -> Path:
    """Returns the path of an output below a folder.

    Raises:
        UnexpectedAnswerError: the output's path leads out of the folder.
    """
    parts = PurePosixPath(path).parts
    target = folder.joinpath(*parts)
    unsafe = not parts or any(part in {"..", "/"} or "\\" in part or "\0" in part for part in parts)
    if unsafe or not target.resolve().is_relative_to(folder.resolve()):
        raise UnexpectedAnswerError(f"The output {path!r} would lie outside the folder.")
    return target


def _source(run_id: str, output: records.Output) -> Source:
    place = {"run_id": run_id, "output_id": output.output_id}
    return Source(routes.GET_OUTPUT_CONTENT, place, f'"{output.sha256}"', output.size_bytes)


def _digest_of(outputs: Sequence[records.Output]) -> str:
    """Returns a short digest of these outputs, for the name of their zip."""
    listed = "\n".join(f"{one.output_id} {one.path} {one.sha256}" for one in outputs)
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def _reporter(report: Report, path: str, done: int, total: int) -> Callable[[int], None]:
    return lambda size: report(Progress(path, min(done + size, total), total))


def _share(report: Report, large: Sequence[records.Output], done: int, total: int) -> Report:
    """Returns a report function that scales the zip's progress to the bytes of the large files in it."""
    ends = list(itertools.accumulate(each.size_bytes for each in large))

    def share(zipped: Progress) -> None:
        size = ends[-1] * zipped.done_bytes // max(1, zipped.total_bytes)
        path = next(each.path for each, end in zip(large, ends, strict=True) if size <= end)
        report(Progress(path, done + size, total))

    return share


def _extract(bundle: Path, output: records.Output, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name[:100]}.{output.sha256[:16]}.part")
    with zipfile.ZipFile(bundle) as archive, archive.open(output.path) as source, part.open("wb") as file:
        shutil.copyfileobj(source, file, _BLOCK)
    part.replace(target)


def _problem(bundle: Path, outputs: Sequence[records.Output]) -> str | None:
    """Returns the problem of a zip of these outputs, or None."""
    try:
        with zipfile.ZipFile(bundle) as archive:
            if sorted(archive.namelist()) != sorted(one.path for one in outputs):
                return "it holds other files than the service lists"
            return next((f"{one.path} has another digest" for one in outputs if not _matches(archive, one)), None)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        return f"it is no whole zip: {error}"


def _matches(archive: zipfile.ZipFile, output: records.Output) -> bool:
    digest = hashlib.sha256()
    with archive.open(output.path) as member:
        while block := member.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest() == output.sha256
