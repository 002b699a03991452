"""The outcome of one check, and what checks are given."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from deploy.config.addresses import BackendAddress
from deploy.config.settings import Settings

FAR_SECONDS: Final = 3.0
"""Difference of clocks that is reported; an answer's way and the whole seconds of some protocols are within it."""


class Outcome(StrEnum):
    """What came of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


class Part(StrEnum):
    """A command that serves."""

    SERVE = "serve"
    BACKEND = "backend"
    WORKER = "worker"
    EDGE = "edge"
    CONSOLE = "console"

    @property
    def has_data(self) -> bool:
        """Returns whether it uses data folder, database and objects."""
        return self in {Part.SERVE, Part.BACKEND, Part.WORKER}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, what came of it, and in one sentence what to do."""

    name: str
    outcome: Outcome
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What is examined: a part with its settings, data folder and variables.

    `write_probe` allows to write what is removed again, `every_object` to look up each object; `named_backend` is where
    administrators reach the backend, if that is said apart from the settings.
    """

    part: Part
    settings: Settings
    data: Path
    environment: Mapping[str, str]
    write_probe: bool = False
    every_object: bool = False
    named_backend: BackendAddress | None = None


def ok(name: str, message: str) -> Check:
    """Returns a check that found all in order."""
    return Check(name, Outcome.OK, message)


def warning(name: str, message: str, remedy: str) -> Check:
    """Returns a check that found what should be looked at."""
    return Check(name, Outcome.WARNING, message, remedy)


def failed(name: str, message: str, remedy: str) -> Check:
    """Returns a check that found what keeps the part from its work."""
    return Check(name, Outcome.FAILED, message, remedy)


def not_applicable(name: str, message: str) -> Check:
    """Returns a check that has nothing to look at here."""
    return Check(name, Outcome.NOT_APPLICABLE, message)


def clock(name: str, theirs: float) -> Check:
    """Compares this machine's clock with another's, in seconds since 1970."""
    ahead = time.time() - theirs
    if abs(ahead) > FAR_SECONDS:
        way = "ahead of" if ahead > 0 else "behind"
        return warning(
            "clock",
            f"This machine's clock is {abs(ahead):,.1f} seconds {way} that of {name}.",
            "Synchronise both, as with chrony or systemd-timesyncd.",
        )
    return ok("clock", f"This machine's clock is that of {name}, within {FAR_SECONDS:g} seconds.")
