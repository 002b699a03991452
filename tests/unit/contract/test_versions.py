import tomllib
from pathlib import Path

from contract.versions import RELEASE


def test_the_release_is_the_version_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["version"] == RELEASE
