"""The worker's side of output files: bounded, counted against the workspace, written outside of the event loop."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.common.secret_scrubbing import Scrubber
from backend.isolation.sandbox import Limits
from backend.isolation.sandbox.frames import Frames, HostileFrameError, OutputFolder, WorkspaceFullError
from backend.settings import OutputLimits

LIMITS = Limits(memory_mb=256, timeout_seconds=120, workspace_mb=64)
FILE = 4

_DISK_WORK = {"os.mkdir", "open", "os.rmdir", "os.remove", "shutil.rmtree"}
_watching = threading.Event()
_seen: list[tuple[str, int]] = []


def _note_disk_work(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching.is_set() and event in _DISK_WORK:
        _seen.append((str(arguments[0]), threading.get_ident()))


sys.addaudithook(_note_disk_work)


@contextmanager
def disk_work() -> Iterator[list[tuple[str, int]]]:
    """Records the paths that are written, and by which thread."""
    _seen.clear()
    _watching.set()
    try:
        yield _seen
    finally:
        _watching.clear()


def frame(path: str, content: bytes = b"", folder: str = "outputs") -> bytes:
    announced = json.dumps({"folder": folder, "path": path, "size": len(content)}).encode()
    return FILE.to_bytes() + len(announced).to_bytes(4, "big") + announced + content


async def receive(folder: OutputFolder, sent: Sequence[bytes]) -> int:
    """Receives the files of a step; returns the largest number of frames between two turns of other tasks."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    taken, seen, most = 0, 0, 0

    async def others() -> None:
        nonlocal seen, most
        while True:
            seen, most = taken, max(most, taken - seen)
            await asyncio.sleep(0)

    def send() -> None:
        # Who is refused is not read to the end.
        with suppress(ConnectionError):
            theirs.sendall(b"".join(sent))

    with ours, theirs:
        sender = threading.Thread(target=send)
        sender.start()
        frames = Frames(ours)
        running = asyncio.create_task(others())
        try:
            for _ in sent:
                _, payload = await frames.next({FILE: 8 * 1024})
                await folder.receive(json.loads(payload), frames)
                taken += 1
            await folder.finish()
        finally:
            running.cancel()
            ours.shutdown(socket.SHUT_RDWR)
            sender.join()
    return most


def received(root: Path, sent: Sequence[bytes], limits: Limits = LIMITS, scrubber: Scrubber | None = None) -> list[str]:
    """Returns the paths on the disk after the folder has received the files that fit."""
    folder = OutputFolder(root, limits, scrubber)
    try:
        asyncio.run(receive(folder, sent))
    finally:
        folder.close()
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def entries(root: Path) -> int:
    return sum(1 for _ in root.rglob("*"))


def deep(levels: int, name: str) -> str:
    return "/".join([f"d{name}"] * levels + [name])


def test_directories_of_forged_frames_count_against_the_workspace(tmp_path: Path) -> None:
    """A frame of 100 bytes creates 32 directories, each of which takes space on the host."""
    forged = [frame(deep(32, str(number))) for number in range(120)]
    with pytest.raises(WorkspaceFullError):
        received(tmp_path, forged, replace(LIMITS, workspace_mb=4))
    assert entries(tmp_path) <= 4 * 1024 * 1024 // 4096


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        pytest.param(OutputLimits(files=2), [frame("a"), frame("b"), frame("c")], id="files"),
        pytest.param(OutputLimits(files=2), [frame("a"), frame("b"), frame("c", folder="shared")], id="files of both"),
        pytest.param(OutputLimits(directories=2), [frame("a/b/f"), frame("c/f")], id="directories"),
        pytest.param(
            OutputLimits(directories=2), [frame("a/b/f"), frame("c/f", folder="shared")], id="directories of both"
        ),
        pytest.param(OutputLimits(levels=2), [frame("a/b/f"), frame("a/b/c/f")], id="levels"),
    ],
)
def test_frames_past_a_limit_are_refused_before_anything_is_made(
    tmp_path: Path, limits: OutputLimits, sent: list[bytes]
) -> None:
    with pytest.raises(HostileFrameError):
        received(tmp_path / "refused", sent, replace(LIMITS, outputs=limits))
    made = set(received(tmp_path / "allowed", sent[:-1]))
    assert {path.relative_to(tmp_path / "refused").as_posix() for path in (tmp_path / "refused").rglob("*")} <= made


def test_what_fits_to_the_last_byte_is_kept(tmp_path: Path) -> None:
    """Two files and a directory, each 4 KiB besides its bytes."""
    room = 1024 * 1024 - 3 * 4096
    sent = [frame("d/a", bytes(room - 10)), frame("b", bytes(10))]
    assert received(tmp_path / "fits", sent, replace(LIMITS, workspace_mb=1)) == ["b", "d", "d/a"]
    with pytest.raises(WorkspaceFullError):
        received(tmp_path / "over", [sent[0], frame("b", bytes(11))], replace(LIMITS, workspace_mb=1))
    with pytest.raises(WorkspaceFullError):
        received(tmp_path / "both", [sent[0], frame("b", bytes(11), "shared")], replace(LIMITS, workspace_mb=1))


def test_no_work_on_the_disk_is_done_on_the_loop(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "outputs", LIMITS)

    async def run() -> None:
        await receive(folder, [frame("a/b/c"), frame("a/d", bytes(3_000_000)), frame("e")])
        await folder.discard()

    with disk_work() as seen:
        asyncio.run(run())
    folder.close()
    mine = [(what, thread) for what, thread in seen if str(tmp_path) in what]
    assert len(mine) > 6
    assert [what for what, thread in mine if thread == threading.get_ident()] == []
    assert not (tmp_path / "outputs").exists()


def test_each_frame_takes_a_turn_of_the_loop(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, LIMITS)
    sent = [frame(str(number)) for number in range(500)]
    assert asyncio.run(receive(folder, sent)) == 1
    folder.close()


def test_a_file_that_trickles_in_takes_a_turn_a_read(tmp_path: Path) -> None:
    """Reads that return a byte immediately must not block the loop until a block is full."""

    async def run() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with ours, theirs:
            # Each read returns one byte, and the next is there already.
            for _ in range(100):
                theirs.send(b"x")
            running = asyncio.create_task(others())
            block = memoryview(bytearray(100))
            await Frames(ours).fill(block)
            running.cancel()
        assert bytes(block) == b"x" * 100
        return turns

    assert asyncio.run(run()) >= 99


def test_files_get_safe_names_and_stay_apart(tmp_path: Path) -> None:
    sent = [frame(r"a\b", b"1"), frame("a%5Cb", b"2"), frame("C:/x.", b"3"), frame("\\" * 255, b"4")]
    assert set(received(tmp_path, sent)) >= {"a%5Cb", "a%255Cb", "C%3A/x%2E"}
    files = {path.read_bytes(): len(path.name.encode()) for path in tmp_path.rglob("*") if path.is_file()}
    assert set(files) == {b"1", b"2", b"3", b"4"}
    assert max(files.values()) <= 255


def test_secrets_are_in_no_name_and_no_file_of_text(tmp_path: Path) -> None:
    """Also where a block of 256 KiB ends inside of one; other files stay as they are."""
    key, block = b"tok-Live-4f1D7cQxZ09a", 256 * 1024
    long = b"x" * (block - 7) + key + b"y" * block + key
    sent = [
        frame(f"of-{key.decode()}/a.txt", b"<" + key + b">"),
        frame("long.csv", long),
        frame("data.bin", b"\0" + key),
        frame("empty"),
    ]
    paths = received(tmp_path, sent, scrubber=Scrubber([key.decode()]))
    assert paths == ["data.bin", "empty", "long.csv", "of-[secret]", "of-[secret]/a.txt"]
    assert (tmp_path / "of-[secret]" / "a.txt").read_bytes() == b"<[secret]>"
    assert (tmp_path / "long.csv").read_bytes() == long.replace(key, b"[secret]")
    assert (tmp_path / "data.bin").read_bytes() == b"\0" + key
