"""What a failure of uv tells: nothing that an address of an index keeps secret, and no folder of the machine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import interpreter
from backend.resources.environments.lock import PackagesError
from backend.resources.environments.uv import Uv
from backend.settings import PackageSettings

TOKEN = "Gx7hQ2mT9kLpW4sZ"


Message = Callable[[PackageSettings, Path, str], str]


@pytest.fixture
def message(in_place_of_uv: Callable[[str], None]) -> Message:
    """What a command says that fails in a folder with this on its standard error."""

    def message_of(settings: PackageSettings, own: Path, said: str) -> str:
        in_place_of_uv(f"import sys\nsys.exit({said!r})")
        with pytest.raises(PackagesError) as failed:
            Uv(settings, interpreter.executable).run((), text="", own=own, seconds=60, most_bytes=2**20)
        return str(failed.value)

    return message_of


@pytest.mark.parametrize(
    "index",
    [
        f"https://index.example.org/{TOKEN}/team/simple",
        f"https://index.example.org/simple?token={TOKEN}",
        f"https://{TOKEN}@index.example.org/simple",
        f"https://user:{TOKEN}@index.example.org/simple",
    ],
)
def test_a_failure_shows_no_token_of_an_index(
    settings: PackageSettings, message: Message, tmp_path: Path, index: str
) -> None:
    told = message(replace(settings, index_url=index), tmp_path, f"error: Failed to fetch: `{index}` with {TOKEN}")
    assert TOKEN not in told
    assert "index.example.org" in told


def test_a_failure_keeps_the_address_of_an_index_without_secrets(
    settings: PackageSettings, message: Message, tmp_path: Path
) -> None:
    with_index = replace(settings, index_url="https://pypi.org/simple")
    told = message(with_index, tmp_path, "error: Failed to fetch: `https://pypi.org/simple/alpha/`")
    assert told == "Failed to fetch: `https://pypi.org/simple/alpha/`"


def test_a_failure_shows_no_folder_of_the_machine(
    settings: PackageSettings, message: Message, wheels: Path, tmp_path: Path
) -> None:
    own = tmp_path / "packages" / "building"
    own.mkdir(parents=True)
    told = message(settings, own, f"error: no {own}/files and no {wheels}/a.whl")
    assert told == "no building/files and no wheels/a.whl"
