"""Examination of a part: types of its findings, and the run of its checks, in which one failure ends no other."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Final

from deploy.config.addresses import BackendAddress
from deploy.config.settings import Settings

FAR_SECONDS: Final = 3.0
"""Difference of clocks that is reported; more than the delay of an answer and protocols' whole seconds."""

_OF_ALL: Final = (
    "software.check_software",
    "sandbox.check_engine",
    "files.check_secret_files",
    "files.check_open_files",
)
_OF_DATA: Final = (
    "files.check_data_folder",
    "files.check_disks",
    "objects.check_objects",
    "lost_objects.check_lost_objects",
    "unnamed_objects.check_unnamed_objects",
    "sandbox.check_sandbox",
)
_OF_OTHERS: Final = (
    "redis_server.check_redis",
    "certificates.check_certificates",
    "identity_provider.check_identity_provider",
    "service.check_edge",
    "service.check_backends",
    "service.check_service",
)


class Outcome(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class ServingPart(StrEnum):
    """A command that serves."""

    SERVE = "serve"
    BACKEND = "backend"
    WORKER = "worker"
    EDGE = "edge"
    CONSOLE = "console"

    @property
    def has_data(self) -> bool:
        """Returns whether it uses data folder, database and objects."""
        return self in {ServingPart.SERVE, ServingPart.BACKEND, ServingPart.WORKER}


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check: its name, outcome and message, and in one sentence a remedy."""

    name: str
    outcome: Outcome
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ExaminedPart:
    """Subject of an examination: a part with its settings, data folder and variables.

    `write_probe` allows writes that are removed again, `every_object` asks to look up each object, `repair` to remove
    those that no row names; `named_backend` is the backend's address for administrators, if given apart from the
    settings.
    """

    part: ServingPart
    settings: Settings
    data: Path
    environment: Mapping[str, str]
    write_probe: bool = False
    every_object: bool = False
    named_backend: BackendAddress | None = None
    repair: bool = False


def ok(name: str, message: str) -> Finding:
    """Returns a finding that all is in order."""
    return Finding(name, Outcome.OK, message)


def warning(name: str, message: str, remedy: str) -> Finding:
    """Returns a finding that needs attention."""
    return Finding(name, Outcome.WARNING, message, remedy)


def failed(name: str, message: str, remedy: str) -> Finding:
    """Returns a finding of a fault that keeps the part from its work."""
    return Finding(name, Outcome.FAILED, message, remedy)


def not_applicable(name: str, message: str) -> Finding:
    """Returns a finding that the check does not apply here."""
    return Finding(name, Outcome.NOT_APPLICABLE, message)


def clock(name: str, other_time: float) -> Finding:
    """Compares this machine's clock with another's, in seconds since 1970."""
    ahead = time.time() - other_time
    if abs(ahead) > FAR_SECONDS:
        way = "ahead of" if ahead > 0 else "behind"
        return warning(
            "clock",
            f"This machine's clock is {abs(ahead):,.1f} seconds {way} that of {name}.",
            "Synchronise both, as with chrony or systemd-timesyncd.",
        )
    return ok("clock", f"This machine's clock is that of {name}, within {FAR_SECONDS:g} seconds.")


Checks = Callable[[ExaminedPart], Iterator[Finding]]


def examine(examined: ExaminedPart) -> Iterator[Finding]:
    """Yields the findings of a part's checks, from the settings outwards."""
    database = (
        "sqlite_file.check_sqlite" if examined.settings.backend.database is None else "postgresql.check_postgresql"
    )
    of_data = (*_OF_DATA[:2], database, *_OF_DATA[2:]) if examined.part.has_data else ()
    for name in (*_OF_ALL, *of_data, *_OF_OTHERS):
        module, _, function = name.partition(".")
        try:
            # Imported here, so that a missing module of one check stops no other.
            checks: Checks = getattr(import_module(f"deploy.doctor.{module}"), function)
            yield from checks(examined)
        except OSError as error:
            what, reason = error.filename or module.replace("_", " "), error.strerror or type(error).__name__
            remedy = "Run this as the service's own user, or look at its owner and mode."
            yield failed(module.replace("_", " "), f"{what} cannot be read: {reason}.", remedy)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            # The text of an error may quote a value.
            yield failed(module.replace("_", " "), f"The check itself failed: {type(error).__name__}.", "Report it.")
