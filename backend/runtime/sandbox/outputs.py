"""Takes over the files that a step leaves."""

from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from backend.runtime.sandbox.frames import Frames, HostileFrameError
from backend.runtime.sandbox.inside.protocol import MAX_FILES, MAX_PATH_BYTES


class WorkspaceFullError(Exception):
    """The outputs are larger together than the workspace may be."""


class OutputFolder:
    """The step's output folder on the host, written by the worker alone from what the step sends.

    The step never sees this folder: there are no links to follow, and what it sends is bounded before it is read.
    """

    def __init__(self, root: Path, most_bytes: int) -> None:
        self._root = root
        self._bytes_left = most_bytes
        self._files_left = MAX_FILES

    async def receive(self, announced: Any, frames: Frames) -> None:
        """Store the file that `announced` (`{path, size}`) names, its bytes next on `frames`.

        Raises HostileFrameError for a path outside the folder, used twice or too long, and for too many files;
        WorkspaceFullError for too many bytes; OSError when the host cannot store them.
        """
        path, size = _checked(announced)
        self._files_left -= 1
        self._bytes_left -= size
        if self._files_left < 0:
            raise HostileFrameError("more output files than the runner lets through")
        if self._bytes_left < 0:
            raise WorkspaceFullError
        with self._create(path) as file:
            await frames.copy(size, file)

    def _create(self, path: PurePosixPath) -> BinaryIO:
        target = self._root / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return target.open("xb")
        except (FileExistsError, NotADirectoryError) as error:
            raise HostileFrameError(f"the output path {str(path)!r} is used twice") from error


def _checked(announced: Any) -> tuple[PurePosixPath, int]:
    path, size = (announced.get("path"), announced.get("size")) if isinstance(announced, dict) else (None, None)
    if not isinstance(path, str) or type(size) is not int or size < 0:
        raise HostileFrameError("a file is announced by a path and a size")
    parts = path.split("/")
    if (
        "\0" in path
        or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise HostileFrameError(f"{path!r} is no path below the outputs")
    if any(len(part.encode()) > 255 for part in parts):
        raise HostileFrameError(f"a name in {path!r} is too long")
    return PurePosixPath(*parts), size
