"""What a failure of uv tells: nothing that an address of an index keeps secret, and no folder of the machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.environments.uv import Uv
from backend.sandbox import interpreter
from backend.settings import PackageSettings

TOKEN = "Gx7hQ2mT9kLpW4sZ"


@pytest.mark.parametrize(
    "index",
    [
        f"https://index.example.org/{TOKEN}/team/simple",
        f"https://index.example.org/simple?token={TOKEN}",
        f"https://{TOKEN}@index.example.org/simple",
        f"https://user:{TOKEN}@index.example.org/simple",
    ],
)
def test_a_failure_shows_no_token_of_an_index(settings: PackageSettings, tmp_path: Path, index: str) -> None:
    uv = Uv(replace(settings, index_url=index), interpreter.executable)
    told = uv._message(f"error: Failed to fetch: `{index}` with {TOKEN}", 2, tmp_path)
    assert TOKEN not in told
    assert "index.example.org" in told


def test_a_failure_keeps_the_address_of_an_index_without_secrets(settings: PackageSettings, tmp_path: Path) -> None:
    uv = Uv(replace(settings, index_url="https://pypi.org/simple"), interpreter.executable)
    told = uv._message("error: Failed to fetch: `https://pypi.org/simple/alpha/`", 2, tmp_path)
    assert told == "Failed to fetch: `https://pypi.org/simple/alpha/`"


def test_a_failure_shows_no_folder_of_the_machine(settings: PackageSettings, wheels: Path, tmp_path: Path) -> None:
    own = tmp_path / "packages" / "building"
    told = Uv(settings, interpreter.executable)._message(f"error: no {own}/files and no {wheels}/a.whl", 2, own)
    assert told == "no building/files and no wheels/a.whl"
