"""A lock is on what a path names, also where another process removes that."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.storage.data_files import lock_named


def before_first_lock(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Has something happen between the opening of a file and its lock, once."""
    lock, changes = fcntl.flock, [change]

    def changed(handle: int, operation: int) -> None:
        if changes:
            changes.pop()()
        lock(handle, operation)

    monkeypatch.setattr("backend.storage.data_files.fcntl.flock", changed)


def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    before_first_lock(monkeypatch, path.unlink)
    handle = lock_named(path, os.O_RDWR | os.O_CREAT)
    try:
        assert os.path.samestat(os.fstat(handle), path.stat())
        with pytest.raises(BlockingIOError):
            lock_named(path, os.O_RDWR | os.O_CREAT)
    finally:
        os.close(handle)


def test_a_folder_that_is_removed_before_it_is_locked_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    before_first_lock(monkeypatch, path.rmdir)
    with pytest.raises(FileNotFoundError):
        lock_named(path, os.O_RDONLY | os.O_DIRECTORY)
