"""The release of the product, the version of the contract that it serves, and which of both work together."""

from typing import Final, NamedTuple

RELEASE: Final = "1.0.139"
API_VERSION: Final = "2026-09-24"
FIRST_RELEASE_WITH_API: Final = "1.0.139"
OLDEST_COMPATIBLE_RELEASE: Final = "1.0.139"
"""Oldest release whose parts work beside parts of this one, as during a rolling upgrade."""

LIVENESS: Final = "liveness"
"""Name at the health service by which callers leave a backend that is stopping."""


class Versions(NamedTuple):
    """Versions of one part: the date of its contract, and its release."""

    api_version: str
    release: str

    def __str__(self) -> str:
        return f"release {self.release} with contract {self.api_version}"


OWN: Final = Versions(API_VERSION, RELEASE)


def release_numbers(release: str) -> list[int]:
    """Returns a release as numbers that can be compared; raises ValueError where it is none."""
    return [int(number) for number in release.split(".")]


def incompatibility(caller: Versions, backend: Versions) -> str | None:
    """Returns why a caller of a backend, such as an edge, and the backend cannot work together; None where they can."""
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
    """Returns the name at the health service that is served to a caller that this backend can work with."""
    return f"{LIVENESS}/{caller.api_version}/{caller.release}"


def parse_liveness(service: str) -> Versions | None:
    """Returns the caller that a name at the health service was made for by `liveness_of`; None for another name."""
    name, *versions = service.split("/")
    return Versions(*versions) if name == LIVENESS and len(versions) == len(Versions._fields) else None
