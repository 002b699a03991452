import os
import shutil
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox, SandboxUnavailableError, choose_sandbox, landlock
from tests.unit.backend.isolation.sandbox.layers import opened
from tests.unit.backend.isolation.sandbox.steps import Steps


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: 0)


@pytest.mark.parametrize("setting", ["auto", "bwrap"])
def test_steps_are_refused_where_nothing_isolates(setting: str, programs: Path, without_landlock: None) -> None:
    with pytest.raises(SandboxUnavailableError, match=r'bwrap is not installed.*sandbox to "none"'):
        choose_sandbox(setting)


@pytest.mark.parametrize(("abi", "says"), [(0, "has no Landlock switched on"), (2, "has Landlock 2")])
def test_landlock_says_what_the_kernel_lacks(abi: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "landlock_abi", lambda: abi)
    with pytest.raises(SandboxUnavailableError, match=f"{says}.*version 3 is needed"):
        choose_sandbox("landlock")


def test_auto_takes_landlock_where_bubblewrap_is_missing_and_says_why(programs: Path) -> None:
    with opened("landlock"):
        sandbox = choose_sandbox("auto", warm=0)
        sandbox.close()
    assert sandbox.layer.name == "landlock"
    assert "bwrap is not installed" in sandbox.refused


@pytest.mark.parametrize("setting", ["auto", "bwrap"])
def test_steps_are_refused_where_bubblewrap_does_not_work(setting: str, programs: Path, without_landlock: None) -> None:
    write_program(programs / "bwrap", "echo 'no permissions to create a namespace' >&2; exit 1")
    with pytest.raises(SandboxUnavailableError, match="no permissions to create a namespace"):
        choose_sandbox(setting)


def test_nested_namespaces_are_left_alone_where_forbidding_them_fails(bwrap: Sandbox, programs: Path) -> None:
    real = shutil.which("bwrap", path=os.defpath)
    failing = "*--disable-userns*|*--cap-add*"
    write_program(programs / "bwrap", f'case "$*" in {failing}) exit 1;; esac; exec {real} "$@"')
    sandbox = choose_sandbox("bwrap", warm=0)
    try:
        assert Steps(sandbox, programs).run("def run(context): return 1", awaits_template=False) == 1
    finally:
        sandbox.close()


def test_auto_takes_bubblewrap(bwrap: Sandbox) -> None:
    sandbox = choose_sandbox("auto", warm=0)
    sandbox.close()
    assert sandbox.layer.name == "bwrap"


def test_no_isolation_only_when_the_operator_says_so(programs: Path) -> None:
    sandbox = choose_sandbox("none", warm=0)
    sandbox.close()
    assert sandbox.layer.name == "none"


def test_unknown_setting_names_what_is_allowed() -> None:
    with pytest.raises(SandboxUnavailableError, match="one of auto, bwrap, landlock, none, not 'docker'"):
        choose_sandbox("docker")
