"""Versions of what is installed, and optional parts that are needed and missing."""

import platform
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from backend.optional_parts import CLUSTER, LLM, OTEL, OptionalPart
from deploy.doctor.check import Check, Examined, Part, failed, ok

_PACKAGE = "workflow-api"


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


def optional_part(part: OptionalPart, what: str) -> Check:
    """Checks an optional part that something needs."""
    if not part.installed:
        return failed(
            "optional parts",
            f"The optional part `{part.name}` is not installed, which {what} need.",
            f"Run: pip install 'workflow-api[{part.name}]'",
        )
    return ok("optional parts", f"The optional part `{part.name}` is installed.")


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
