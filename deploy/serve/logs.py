"""The log of a serving process: one JSON object a line on standard error, and nothing in it that callers gave.

Lines of ours are written to hold no such thing. What a library says may quote anything, and so may the text of an
exception: of these a line tells the kind and the place.
"""

import errno
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

OURS: Final = ("backend", "deploy", "edge")
"""The packages whose lines are told in full."""

_LOG = logging.getLogger(__name__)
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def log_to_stderr(level: str) -> None:
    """Send what our parts log at `level` or above to standard error, and of libraries what is at least a warning."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    # A library may set a level of its own.
    handler.addFilter(lambda record: _is_ours(record.name) or record.levelno >= logging.WARNING)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]))
    for package in OURS:
        logging.getLogger(package).setLevel(level.upper())
    # DBOS adds a handler of its own unless it finds one.
    logging.getLogger("dbos").addHandler(logging.NullHandler())
    # What Python itself writes to standard error quotes as well.
    logging.raiseExceptions = False
    logging.captureWarnings(capture=True)
    sys.excepthook = lambda _, error, __: _LOG.critical("The process broke", exc_info=error)
    sys.unraisablehook = lambda hooked: _LOG.error("An exception was ignored", exc_info=hooked.exc_value)
    threading.excepthook = lambda hooked: _LOG.error("A thread broke", exc_info=hooked.exc_value)


class LineFormatter(logging.Formatter):
    """Makes a line of JSON of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "message": _message(record) if _is_ours(record.name) else f"said at {record.pathname}:{record.lineno}",
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = "\n".join(told(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=False)


def told(error: BaseException) -> Iterator[str]:
    """The kind of an exception, where it was raised and what led to it, in lines; never its text."""
    known: set[int] = set()
    led_to: BaseException | None = error
    while led_to is not None and id(led_to) not in known:
        known.add(id(led_to))
        kind = f"{type(led_to).__module__}.{type(led_to).__qualname__}{_code(led_to)}"
        yield kind if led_to is error else f"from {kind}"
        for frame, line in traceback.walk_tb(led_to.__traceback__):
            yield f"  {frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
        if isinstance(led_to, BaseExceptionGroup):
            for one in led_to.exceptions:
                yield from (f"  {line}" for line in told(one))
        led_to = led_to.__cause__ or (None if led_to.__suppress_context__ else led_to.__context__)


def _message(record: logging.LogRecord) -> str:
    if not isinstance(record.args, tuple) or not record.args:
        return record.getMessage()
    return str(record.msg) % tuple(
        type(arg).__name__ if isinstance(arg, BaseException) and not _is_ours(type(arg).__module__) else arg
        for arg in record.args
    )


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in OURS


def _code(error: BaseException) -> str:
    """What a library's exception gives beside its text: a code from a short list."""
    answer: Any = getattr(error, "response", None)
    codes = (
        errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None,
        getattr(error, "sqlite_errorname", None),
        getattr(error, "sqlstate", None),
        answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None,
    )
    return "".join(f" {code}" for code in codes if isinstance(code, str) and _CODE.fullmatch(code))
