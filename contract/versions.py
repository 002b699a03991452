"""Release of the product, version of the contract, and the compatibility of releases."""

from typing import Final, NamedTuple

RELEASE: Final = "1.0.139"
API_VERSION: Final = "2026-09-24"
FIRST_RELEASE_WITH_API: Final = "1.0.139"
OLDEST_COMPATIBLE_RELEASE: Final = "1.0.139"
"""Oldest release whose parts work with parts of this release, as during a rolling upgrade."""

LIVENESS: Final = "liveness"
"""Service name of gRPC health checks that reports a stopping backend."""


class Versions(NamedTuple):
    """Versions of one part: its contract's date and its release."""

    api_version: str
    release: str

    def __str__(self) -> str:
        return f"release {self.release} with contract {self.api_version}"


OWN: Final = Versions(API_VERSION, RELEASE)


def release_numbers(release: str) -> list[int]:
    """Returns a release as comparable numbers; raises ValueError for text that is no release."""
    return [int(number) for number in release.split(".")]


def incompatibility(caller: Versions, backend: Versions) -> str | None:
    """Returns why a caller, such as an edge, and a backend cannot work together; None where they can."""
    for part, versions in (("caller", caller), ("backend", backend)):
        try:
            old = release_numbers(versions.release) < release_numbers(OLDEST_COMPATIBLE_RELEASE)
        except ValueError:
            return f"the {part} has no known release"
        if old:
            return f"the {part} has {versions}, and releases before {OLDEST_COMPATIBLE_RELEASE} are not supported"
    if caller.api_version > backend.api_version:
        return f"the backend has {backend}, older than contract {caller.api_version} of its caller: upgrade it first"
    return None


def liveness_of(caller: Versions) -> str:
    """Returns the service name by which a caller of these versions checks a backend's health."""
    return f"{LIVENESS}/{caller.api_version}/{caller.release}"


def parse_liveness(service: str) -> Versions | None:
    """Returns the caller's versions in a service name of `liveness_of`; None for another name."""
    name, *versions = service.split("/")
    return Versions(*versions) if name == LIVENESS and len(versions) == len(Versions._fields) else None
