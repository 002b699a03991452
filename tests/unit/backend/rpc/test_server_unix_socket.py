import socket
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from backend.rpc.server import claim_socket


def test_the_folder_is_made_for_the_service_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "grpc"
    claim_socket(folder / "grpc.sock")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    claim_socket(folder / "grpc.sock")


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o770, 0o755])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ValueError, match="closed to all others"):
        claim_socket(folder / "grpc.sock")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be used: Not a directory"):
        claim_socket(tmp_path / "file" / "run" / "grpc.sock")


def test_a_socket_in_use_is_refused_and_one_left_behind_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run" / "grpc.sock"
    claim_socket(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(ValueError, match="in use by another process"):
            claim_socket(path)
    claim_socket(path)


@pytest.mark.timeout(20)
def test_a_socket_whose_listener_accepts_nobody_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "run" / "grpc.sock"
    claim_socket(path)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(0)
        full = False
        while not full:
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            full = waiting.connect_ex(str(path)) != 0
        with pytest.raises(ValueError, match="in use by another process"):
            claim_socket(path)
