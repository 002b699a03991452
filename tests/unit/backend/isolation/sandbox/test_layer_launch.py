"""A launch that fails releases all resources."""

import os
import tempfile
from pathlib import Path

import pytest

from backend.isolation.sandbox import Readable, SandboxUnavailableError
from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.landlock import Landlock
from backend.isolation.sandbox.layer import scratch_layout
from tests.unit.backend.isolation.sandbox.steps import LIMITS


def _full(*_: object) -> None:
    raise OSError("no space left on the disk")


@pytest.mark.parametrize(
    ("make", "fault"),
    [(Landlock, "backend.isolation.sandbox.landlock.scratch_layout"), (Bubblewrap, "os.open")],
)
def test_a_launch_that_fails_gives_back_its_user_and_its_files(
    make: type[Landlock | Bubblewrap], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        layer = make()
    except SandboxUnavailableError as error:
        pytest.skip(f"a sandbox layer is needed ({error}): provide bubblewrap and Landlock")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as full:
        full.setattr(fault, _full)
        for _ in range(3):
            with pytest.raises(OSError, match="no space"):
                layer.launch(["true"], LIMITS, Readable(), (), 0)
    assert not layer.users or not layer.users.taken
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_step_folder_that_cannot_be_made_whole_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "chown", _full)
    with pytest.raises(OSError, match="no space"):
        scratch_layout(Readable(), 2**30)
    assert list(tmp_path.iterdir()) == []
