"""Releases of the package that runs import: each of many modules, so that half of one is noticed."""

from pathlib import Path
from typing import Final

from tests.support.wheels import make_wheel

ENVIRONMENT: Final = "tables"
PARTS: Final = 60
"""Modules of each release, all of which a run imports."""
FIRST_RELEASE: Final = "1.0"

_PACKAGE: Final = "alpha"


def make_release(wheels: Path, release: str, content: str = "") -> None:
    """Writes the wheel of a release, in place of one that is there."""
    of_release = f"RELEASE = {release!r}\n{content}"
    files = {f"{_PACKAGE}/part{number}.py": of_release for number in range(PARTS)}
    make_wheel(wheels, _PACKAGE, release, files={f"{_PACKAGE}/__init__.py": f"{of_release}PARTS = {PARTS}\n", **files})


def requirement(release: str) -> str:
    return f"{_PACKAGE}=={release}"
