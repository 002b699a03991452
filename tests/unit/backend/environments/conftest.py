from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.environments.store import PackageStore
from backend.sandbox import interpreter
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
def store(settings: PackageSettings, tmp_path: Path) -> Iterator[PackageStore]:
    opened = PackageStore(settings, tmp_path / "packages", interpreter.executable)
    yield opened
    opened.close()
