"""Versions of what is installed, and optional parts that are needed and missing."""

import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from backend.optional_parts import CLUSTER, LLM, OTEL, OptionalPart
from deploy.doctor.check import Check, Examined, Part, failed, ok

Judge = Callable[[str, str, str], Check]
"""Makes the finding about something that is missing, of its name, message and remedy."""

_PACKAGE: Final = "workflow-api"
_PINS: Final = Path(__file__).parents[2] / "requirements" / "image.txt"
"""Pins of all optional parts, where the service runs from a checkout."""


def check_software(examined: Examined) -> Iterator[Check]:
    """Checks the release, the packages that it requires, and the optional parts that the settings need."""
    release, grpc = metadata.version(_PACKAGE), metadata.version("grpcio")
    wrong = list(_wrong_packages())
    if wrong:
        yield failed(
            "packages", f"Packages are not as this release needs them: {', '.join(wrong)}.", "Install it anew."
        )
    else:
        yield ok("packages", f"Release {release} with Python {platform.python_version()} and grpcio {grpc}.")
    settings = examined.settings
    if examined.part.has_data:
        if settings.backend.database is not None or settings.runtime.engine == "dbos":
            yield optional_part(CLUSTER, "PostgreSQL and the engine dbos")
        if settings.models:
            yield optional_part(LLM, "[models] of the settings")
    if settings.traces.endpoint is not None and examined.part is not Part.CONSOLE:
        yield optional_part(OTEL, "spans that go to traces.endpoint")


def optional_part(part: OptionalPart, what: str, judge: Judge = failed) -> Check:
    """Checks an optional part that something needs."""
    if not part.installed:
        return judge(
            "optional parts",
            f"The optional part `{part.name}` is not installed, which {what} need.",
            _installs(part),
        )
    return ok("optional parts", f"The optional part `{part.name}` is installed.")


def _installs(part: OptionalPart) -> str:
    """Returns what to do about a part that is missing, with the pins of this release where they are."""
    if importlib.util.find_spec("pip") is None:
        return (
            f"Use an image that was built with REQUIREMENTS=image, or run with another environment's pip: "
            f"{_command(f'pip --python {sys.prefix}', 'requirements/image.txt')}."
        )
    pip = f"{sys.executable} -m pip"
    if _PINS.is_file():
        return f"Run: {_command(pip, str(_PINS))}"
    return (
        f"Run in the sources of release {metadata.version(_PACKAGE)}: {_command(pip, 'requirements/image.txt')} - "
        f"or, without pins: {pip} install 'workflow-api[{part.name}]'"
    )


def _command(pip: str, pins: str) -> str:
    return f"{pip} install --no-deps --require-hashes -r {pins}"


def _wrong_packages() -> Iterator[str]:
    for line in metadata.requires(_PACKAGE) or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield f"{requirement.name} is missing"
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement.name} {found} is not {requirement.specifier}"
