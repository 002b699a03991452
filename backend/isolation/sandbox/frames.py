"""Reads the frames of a step, and the files that it sends, as untrusted data.

Bytes that have arrived are read at once, such as READY of a sandbox that waited for its step: a wait by the event loop
costs ten system calls. (`strace` of a one-step run.)
"""

import asyncio
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from backend.common.secret_scrubbing import ScrubbedStream, Scrubber
from backend.isolation.sandbox.inside.channel import FOLDERS, HEADER_BYTES, MAX_PATH_BYTES, REQUEST, SHARED
from backend.isolation.sandbox.limits import Limits
from redaction.safe_paths import safe_path

_READ_BYTES = 256 * 1024


class EndOfStepError(Exception):
    """The step closed its socket before its result, mostly by dying."""


class HostileFrameError(Exception):
    """The step sent a frame that the runner never sends."""


class Frames:
    """The worker's end of a step's socket.

    Every length is checked before the payload is read; the caller bounds the time. Each frame and each read yields to
    the event loop, so that a step that sends without pause does not block it.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    async def send_request(self, payload: bytes) -> None:
        """Sends the one request of the step."""
        try:
            await self._loop.sock_sendall(self._channel, REQUEST.to_bytes() + len(payload).to_bytes(4, "big") + payload)
        except ConnectionError as error:
            raise EndOfStepError from error

    async def next(self, most: Mapping[int, int]) -> tuple[int, bytes]:
        """Returns the next frame as (kind, payload); `most` has the largest payload of each kind allowed now."""
        if self._received:
            await asyncio.sleep(0)
        kind, *size = await self._exactly(HEADER_BYTES)
        length = int.from_bytes(size, "big")
        if kind not in most:
            raise HostileFrameError(f"a frame of kind {kind} is not allowed here")
        if length > most[kind]:
            raise HostileFrameError(f"a frame of kind {kind} has {length} bytes")
        return kind, await self._exactly(length)

    async def fill(self, block: memoryview) -> None:
        """Reads as many bytes as the block has room for."""
        early = self._received[: len(block)]
        del self._received[: len(block)]
        filled = len(early)
        block[:filled] = early
        while filled < len(block):
            filled += await self._receive_into(block[filled:])

    async def _exactly(self, count: int) -> bytes:
        # The buffer grows with the data received: an announced length reserves no memory.
        while len(self._received) < count:
            try:
                part = await self._receive()
            except ConnectionError as error:
                raise EndOfStepError from error
            if not part:
                raise EndOfStepError
            self._received += part
            await asyncio.sleep(0)
        payload = bytes(self._received[:count])
        del self._received[:count]
        return payload

    async def _receive(self) -> bytes:
        try:
            return self._channel.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return await self._loop.sock_recv(self._channel, _READ_BYTES)

    async def _receive_into(self, view: memoryview) -> int:
        try:
            count = await self._loop.sock_recv_into(self._channel, view)
        except ConnectionError as error:
            raise EndOfStepError from error
        if count == 0:
            raise EndOfStepError
        await asyncio.sleep(0)
        return count


_BLOCK_BYTES: Final = 256 * 1024
# Small files are written in batches: handing one to the thread costs more than writing it.
_BATCH_FILES: Final = 64

_Written = Callable[[memoryview, bool], bytes | memoryview]
"""Returns the bytes to write of a block, and whether it is the last."""


class WorkspaceFullError(Exception):
    """The outputs are larger together than the workspace may be."""


class NameInBothError(Exception):
    """A name is among the outputs and among the shared files, which later steps see in one folder."""


class OutputFolder:
    """Folder on the host to which the worker writes the files that a step sends; created with the first.

    Outputs and shared files are together in it, as later steps see them; `shared` has the paths of the latter.

    The step has no access to this folder, so there are no links to follow; sizes are checked before content is read,
    and files get safe names. Each step has a thread for its disk writes, one block or batch of small files at a time,
    and the step waits for them. Secrets that the scrubber finds in names and in text files are not written.
    """

    def __init__(self, root: Path, limits: Limits, scrubber: Scrubber | None = None) -> None:
        self._root = root
        self._limits = limits.outputs
        self._bytes_left = limits.workspace_bytes
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._batch: list[Callable[[], None]] = []
        self._batch_bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._scrubber = scrubber or None
        self.shared: set[str] = set()

    async def receive(self, announced: Any, frames: Frames) -> None:
        """Stores a file announced as `{folder, path, size}`, whose bytes follow; a small one as late as `finish`.

        Raises:
            HostileFrameError: the path is outside of the folder, used twice, too long or too deep, or there are too
                many files or directories.
            NameInBothError: the path, or a part of it, is a file of the other folder.
            WorkspaceFullError: there are too many bytes.
            OSError: the host cannot store them.
        """
        folder, given, size = _checked(announced, self._limits.levels)
        path = safe_path(given if self._scrubber is None else self._scrubber.text(given))
        parents = list(accumulate(path.split("/")[:-1], "{}/{}".format))
        if path in self._directories or not self._files.isdisjoint([path, *parents]):
            raise self._clash(folder, path, parents)
        new = [parent for parent in parents if parent not in self._directories]
        self._charge(size, len(new))
        self._files.add(path)
        if folder == SHARED:
            self.shared.add(path)
        self._directories.update(new)
        block = memoryview(bytearray(min(size, _BLOCK_BYTES)))
        await frames.fill(block)
        written = _written(self._scrubber, block)
        self._batch.append(partial(self._create, path, new, written, block, last=len(block) == size))
        self._batch_bytes += len(block)
        if self._batch_bytes >= _BLOCK_BYTES or len(self._batch) == _BATCH_FILES:
            await self.finish()
        while size := size - len(block):
            block = block[:size]
            await frames.fill(block)
            await self._in_thread(partial(_append, self._root / path, written, block, last=len(block) == size))

    async def finish(self) -> None:
        """Stores the small files not yet stored; raises as `receive`."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch:
            await self._in_thread(lambda: [create() for create in batch])

    async def discard(self) -> None:
        """Removes the stored files, after the writes under way."""
        if self._thread is not None:
            await self._in_thread(partial(shutil.rmtree, self._root, ignore_errors=True))

    def close(self) -> None:
        """Ends the thread, once it has finished its work."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _clash(self, folder: str, path: str, parents: Sequence[str]) -> Exception:
        """Returns the error for a path that is taken, or that has a file among its folders."""
        taken = next((one for one in (*parents, path) if one in self._files), path)
        file = taken if taken in self._files else next(one for one in self._files if one.startswith(f"{path}/"))
        if (file in self.shared) == (folder == SHARED):
            return HostileFrameError(f"the path {path!r} is used twice in context.{folder}")
        return NameInBothError(f"{taken!r} is in context.outputs and in context.shared: a name may be in one of them")

    def _charge(self, size: int, directories: int) -> None:
        self._bytes_left -= size + (1 + directories) * self._limits.entry_bytes
        if len(self._files) == self._limits.files:
            raise HostileFrameError("more files than the runner lets through")
        if len(self._directories) + directories > self._limits.directories:
            raise HostileFrameError("more directories than the runner lets through")
        if self._bytes_left < 0:
            raise WorkspaceFullError

    def _create(
        self, path: str, directories: Sequence[str], written: _Written, block: memoryview, *, last: bool
    ) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        for directory in directories:
            (self._root / directory).mkdir()
        with (self._root / path).open("xb") as file:
            file.write(written(block, last))

    async def _in_thread(self, work: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="step-outputs")
        await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _append(target: Path, written: _Written, block: memoryview, *, last: bool) -> None:
    with target.open("ab") as file:
        file.write(written(block, last))


def _written(scrubber: Scrubber | None, first: memoryview) -> _Written:
    """Returns a function from each block to the bytes to write; the first block shows whether the file is text."""
    if scrubber is None or b"\0" in first.tobytes():
        return lambda block, _: block
    stream = ScrubbedStream(scrubber)

    def scrubbed(block: memoryview, last: bool) -> bytes:
        return stream.add(bytes(block)) + (stream.finish() if last else b"")

    return scrubbed


def _checked(announced: Any, levels: int) -> tuple[str, str, int]:
    members = ("folder", "path", "size")
    folder, path, size = map(announced.get, members) if isinstance(announced, dict) else (None, None, None)
    if folder not in FOLDERS or not isinstance(path, str) or type(size) is not int or size < 0:
        raise HostileFrameError("a file is announced by a folder, a path and a size")
    parts = path.split("/")
    if (
        "\0" in path
        or len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise HostileFrameError(f"{path!r} is no path below its folder")
    if any(len(part.encode()) > 255 for part in parts):
        raise HostileFrameError(f"a name in {path!r} is too long")
    if len(parts) - 1 > levels:
        raise HostileFrameError("a file deeper than the runner lets through")
    return folder, path, size
