"""Log of a serving process: levels, and one line per message on standard error, without values of callers.

Messages of our own packages never hold values of callers. Messages of libraries and texts of exceptions may quote
anything, so that a line has only their kind and their place in the code.
"""

import atexit
import errno
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from telemetry.log_events import MESSAGE, MESSAGE_FIELDS
from telemetry.log_output import LogOutput, open_output

OWN_PACKAGES: Final = ("backend", "console", "contract", "deploy", "edge", "redaction", "telemetry")
"""Packages whose messages are logged in full."""

DEFAULT: Final = "info"
LEVELS: Final = ("debug", "info", "warning", "error")

_LOGGER: Final = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")
_ROOT: Final = Path(__file__).parent.parent
_MOST_FRAMES: Final = 30
"""Frames at each end of a traceback; an endless recursion has a thousand."""
_RUN_ID: Final = re.compile(r"\brun_[0-9a-z]{26}\b")
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_LOG = logging.getLogger(__name__)


class LogLevels(NamedTuple):
    """Default level, and levels by logger name, which apply to loggers below the name too."""

    default: str
    by_logger: Mapping[str, str]


def parse_levels(text: str, loggers: Iterable[str] = ()) -> LogLevels:
    """Parses levels such as `info,edge=debug`; the default level may be left out.

    Every name must be in `loggers`, or a package or module of the service.

    Raises:
        ValueError: a level or name is not allowed; the message says what is.
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
            raise ValueError(f"names {name}, which is no part of the service, such as edge or backend.rpc")
    return LogLevels(default or DEFAULT, by_logger)


class LevelSetter:
    """Sets the levels of this process's loggers, replacing earlier ones."""

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
        """Restores Python's default levels."""
        for logger in (*self._set, logging.getLogger()):
            logger.setLevel(logging.WARNING if logger.name == "root" else logging.NOTSET)


def _is_module(name: str) -> bool:
    if not _LOGGER.fullmatch(name) or name.partition(".")[0] not in OWN_PACKAGES:
        return False
    path = _ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


class ProcessLog:
    """The log of this process on standard error, whose levels and form can be changed at any time.

    `part` is the part that the process runs, such as `edge`; with `colour` text on a terminal has colours. Libraries
    are logged from warnings on.
    """

    def __init__(self, part: str, levels: LogLevels, form: str, *, colour: bool = True) -> None:
        self._output = open_output(part)
        self._levels = LevelSetter()
        self._colour = colour
        handler = _Handler(self._output)
        # Libraries may set levels of their own.
        handler.addFilter(lambda record: _is_own(record.name) or record.levelno >= logging.WARNING)
        logging.getLogger().handlers = [handler]
        # DBOS adds a handler of its own unless it finds one.
        logging.getLogger("dbos").addHandler(logging.NullHandler())
        # Python's own output to standard error may quote values, too.
        logging.raiseExceptions = False
        logging.captureWarnings(capture=True)
        sys.excepthook = lambda _, error, __: _LOG.critical("Uncaught exception", exc_info=error)
        sys.unraisablehook = lambda hooked: _LOG.error(
            "Exception ignored by the interpreter", exc_info=hooked.exc_value
        )
        threading.excepthook = lambda hooked: _LOG.error("Uncaught exception in a thread", exc_info=hooked.exc_value)
        atexit.register(self._output.flush)
        self.change(levels, form)

    def change(self, levels: LogLevels, form: str) -> None:
        """Sets levels and format of later lines."""
        self._output.set_format(form, colour=self._colour)
        self._levels.apply(levels)
        self._output.version += 1


class _Handler(logging.Handler):
    """Handler that gives records to the output."""

    def __init__(self, output: LogOutput) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record as a line."""
        try:
            self._output.write(line_of(record, self._output))
        except Exception:  # noqa: BLE001 - logging must not raise in the caller
            self.handleError(record)


def line_of(record: logging.LogRecord, output: LogOutput) -> bytes:
    """Returns the line of a record, with its line end."""
    fields: dict[str, object] = {}
    if _is_own(record.name):
        message = _message(record)
        fields = {name: record.__dict__.get(name) for name in MESSAGE_FIELDS}
        if fields["run_id"] is None and (named := _RUN_ID.search(message)):
            fields["run_id"] = named[0]
    else:
        message = f"logged at {record.pathname}:{record.lineno}"
    error = record.exc_info[1] if record.exc_info else None
    exception = "" if error is None else "\n".join(_shown_lines(error))
    return output.line(record.levelname.lower(), record.name, MESSAGE, message, fields, exception, record.created)


def _shown_lines(error: BaseException) -> Iterator[str]:
    """Yields lines of an exception, without a traceback if it is marked as part of an outage already logged."""
    lines = exception_lines(error)
    return (line for line in lines if line[:1] != " ") if getattr(error, "logged", False) else lines


def exception_lines(error: BaseException) -> Iterator[str]:
    """Yields lines with an exception's type, traceback and causes, without the texts of exceptions."""
    visited: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        kind = f"{type(cause).__module__}.{type(cause).__qualname__}{_error_codes(cause)}"
        yield kind if cause is error else f"from {kind}"
        frames = list(traceback.walk_tb(cause.__traceback__))
        left_out = len(frames) - 2 * _MOST_FRAMES
        for place, (frame, line) in enumerate(frames):
            if place < _MOST_FRAMES or place >= len(frames) - _MOST_FRAMES:
                yield f"  {frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
            elif place == _MOST_FRAMES:
                yield f"  {left_out} more"
        if isinstance(cause, BaseExceptionGroup):
            for member in cause.exceptions:
                yield from (f"  {line}" for line in exception_lines(member))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _message(record: logging.LogRecord) -> str:
    if not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    return str(record.msg) % tuple(
        type(arg).__name__ if isinstance(arg, BaseException) and not _is_own(type(arg).__module__) else arg
        for arg in record.args
    )


def _is_own(name: str) -> bool:
    return name.partition(".")[0] in OWN_PACKAGES


def _error_codes(error: BaseException) -> str:
    """Returns the short error codes of a library's exception, each after a blank, but not its text."""
    response: Any = getattr(error, "response", None)
    codes = (
        errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None,
        getattr(error, "sqlite_errorname", None),
        getattr(error, "sqlstate", None),
        response.get("Error", {}).get("Code") if isinstance(response, dict) else None,
    )
    return "".join(f" {code}" for code in codes if isinstance(code, str) and _CODE.fullmatch(code))
