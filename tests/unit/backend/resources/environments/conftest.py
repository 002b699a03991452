from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.isolation.sandbox import interpreter
from backend.resources.environments.store import PackageStore
from backend.settings import PackageSettings


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """An empty folder of wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(wheels: Path) -> PackageSettings:
    """Settings that know no index."""
    return PackageSettings(index_url=None, wheels=wheels)


@pytest.fixture
def in_place_of_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets a program in Python run in the place of uv."""

    def replace_by(code: str) -> None:
        program = tmp_path / "uv"
        program.write_text(f"#!{interpreter.executable()} -IS\n{code}")
        program.chmod(0o755)
        monkeypatch.setattr("backend.resources.environments.uv.find_uv_bin", lambda: str(program))

    return replace_by


@pytest.fixture
def store(settings: PackageSettings, tmp_path: Path) -> Iterator[PackageStore]:
    opened = PackageStore(settings, tmp_path / "packages", interpreter.executable)
    yield opened
    opened.close()
