"""Levels of log lines: one for all, and others for parts, as in `info,edge=debug,backend.redaction=warning`."""

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

OWN_PACKAGES: Final = ("backend", "console", "contract", "deploy", "edge", "telemetry")
"""Packages whose messages are logged in full."""

DEFAULT: Final = "info"
LEVELS: Final = ("debug", "info", "warning", "error")

_LOGGER: Final = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")
_ROOT: Final = Path(__file__).parent.parent


class LogLevels(NamedTuple):
    """The level of every line, and those of the loggers below these names."""

    default: str
    by_logger: Mapping[str, str]


def parse_levels(text: str, loggers: Iterable[str] = ()) -> LogLevels:
    """Reads levels, of which the one for all may be left out.

    Every name must be one of `loggers`, or of a package or a module of the service.

    Raises:
        ValueError: what is not allowed, and what is.
    """
    known = frozenset(loggers)
    default, by_logger = None, {}
    for entry in text.split(","):
        name, given, level = (part.strip() for part in entry.partition("="))
        if not given:
            name, level = "", name
        if level not in LEVELS:
            raise ValueError(f"must be {' or '.join(LEVELS)}, also for parts, as in info,edge=debug")
        if not name:
            if default is not None:
                raise ValueError("must have one level for all")
            default = level
        elif name in known or _is_module(name):
            by_logger[name] = level
        else:
            raise ValueError(f"names {name}, which is no part of the service, such as edge or backend.redaction")
    return LogLevels(default or DEFAULT, by_logger)


class LevelSetter:
    """Sets the levels of this process's loggers, in place of those set before."""

    def __init__(self) -> None:
        self._set: list[logging.Logger] = []

    def apply(self, levels: LogLevels) -> None:
        """Sets these levels; libraries log from warnings on."""
        self.reset()
        numbers = logging.getLevelNamesMapping()
        default = levels.default.upper()
        logging.getLogger().setLevel(max(logging.WARNING, numbers[default]))
        given = {**dict.fromkeys(OWN_PACKAGES, default), **levels.by_logger}
        self._set = [logging.getLogger(name) for name in given]
        for logger, level in zip(self._set, given.values(), strict=True):
            logger.setLevel(level.upper())

    def reset(self) -> None:
        """Leaves the levels to Python's own."""
        for logger in (*self._set, logging.getLogger()):
            logger.setLevel(logging.WARNING if logger.name == "root" else logging.NOTSET)


def _is_module(name: str) -> bool:
    if not _LOGGER.fullmatch(name) or name.partition(".")[0] not in OWN_PACKAGES:
        return False
    path = _ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
