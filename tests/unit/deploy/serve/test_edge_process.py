"""What becomes of an edge process that cannot be started; the others are in tests/processes/test_serve_edges.py."""

import asyncio
import errno
import socket

import pytest

from deploy.config.settings import Settings
from deploy.failures import CommandError
from deploy.serve.edge_process import EdgeProcess
from edge.shared_memory.share import ShareOwner


def full() -> OSError:
    return OSError(errno.EMFILE, "too many open files")


async def no_socket() -> socket.socket:
    raise full()


def test_the_first_process_that_cannot_be_started_is_the_commands_failure() -> None:
    ended = []

    async def keep() -> None:
        files = ShareOwner(1, []).files(0)
        process = EdgeProcess(Settings(), files, lambda: ended.append(1), no_socket)
        await process.keep()
        await process.ready

    with pytest.raises(CommandError, match="An edge process cannot be started: Too many open files"):
        asyncio.run(keep())
    assert ended == [1]


def test_a_process_that_cannot_be_started_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise full()

    async def keep() -> None:
        to_backend = socket.socket()

        async def connect() -> socket.socket:
            return to_backend

        process = EdgeProcess(Settings(), ShareOwner(1, []).files(0), lambda: None, connect)
        await process.keep()
        assert process.ready.exception() is not None
        assert to_backend.fileno() == -1

    monkeypatch.setattr("deploy.serve.edge_process.asyncio.create_subprocess_exec", fail)
    asyncio.run(keep())


def test_a_later_one_is_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("deploy.serve.edge_process._FIRST_PAUSE", 0.001)
    tried = 0

    async def keep() -> None:
        over = asyncio.Event()

        async def failing() -> socket.socket:
            nonlocal tried
            tried += 1
            if tried == 3:
                over.set()
            raise full()

        process = EdgeProcess(Settings(), ShareOwner(1, []).files(0), lambda: None, failing)
        process.ready.set_result("http://127.0.0.1:1/api/v1")
        keeping = asyncio.create_task(process.keep())
        async with asyncio.timeout(60):
            await over.wait()
        keeping.cancel()

    asyncio.run(keep())
    assert (
        "An edge process ended (An edge process cannot be started: Too many open files.) and is replaced" in caplog.text
    )
