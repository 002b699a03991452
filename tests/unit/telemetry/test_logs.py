"""Log lines of a serving process."""

import errno
import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from botocore.exceptions import ClientError

from contract.refusals import Refusal
from telemetry.log_output import LogOutput
from telemetry.logs import exception_lines, line_of

EVERYWHERE = """
import asyncio, gc, logging, sys, threading, warnings
from telemetry.logs import parse_levels
from telemetry.logs import ProcessLog

ProcessLog('edge', parse_levels(sys.argv[1]), 'auto')
ours, theirs = logging.getLogger("edge.server"), logging.getLogger("botocore.endpoint")
for level in ("debug", "info", "warning", "error"):
    getattr(ours, level)("run %s", "run_1")
    getattr(theirs, level)("Authorization: %s", "planted")
theirs.warning("planted", extra={"planted": "planted"})
logging.getLogger("openai").setLevel("DEBUG")
logging.getLogger("openai").debug("planted")

from dbos import DBOS, DBOSConfig
DBOS(config=DBOSConfig(name="planted", system_database_url="sqlite://"))
DBOS.logger.error("planted")
warnings.warn("planted")
ours.info("%d", "planted")

def broken():
    raise ValueError("planted")

thread = threading.Thread(target=broken)
thread.start()
thread.join()

class Dying:
    def __del__(self):
        broken()
Dying()

async def forgotten():
    async def task():
        broken()
    asyncio.ensure_future(task())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()
asyncio.run(forgotten())
try:
    broken()
except ValueError:
    ours.exception("request %s failed", "req_1")
broken()
"""


def written(level: str) -> list[dict[str, Any]]:
    """The lines of a process in which everything breaks that can."""
    ended = subprocess.run(
        [sys.executable, "-c", EVERYWHERE, level], capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    assert ended.returncode == 1
    assert "planted" not in ended.stderr
    return [json.loads(line) for line in ended.stderr.splitlines()]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    return written("debug")


def test_own_messages_are_logged_from_the_level_on(lines: list[dict[str, Any]]) -> None:
    ours = [line["level"] for line in lines if line["message"] == "run run_1"]
    assert ours == ["debug", "info", "warning", "error"]
    quiet = [line["level"] for line in written("error") if line["message"] == "run run_1"]
    assert quiet == ["error"]


def test_of_libraries_the_place_of_warnings_is_logged(lines: list[dict[str, Any]]) -> None:
    theirs = [line for line in lines if line["logger"] in {"botocore.endpoint", "openai", "dbos"}]
    assert [line["level"] for line in theirs] == ["warning", "error", "warning", "error"]
    assert all(line["message"].startswith("logged at ") for line in theirs)
    assert all(set(line) == {"timestamp", "level", "part", "pid", "logger", "event", "message"} for line in theirs)


def test_an_uncaught_exception_is_logged_by_type_and_place(lines: list[dict[str, Any]]) -> None:
    expected = {
        "Uncaught exception in a thread",
        "Exception ignored by the interpreter",
        "request req_1 failed",
        "Uncaught exception",
    }
    broken = {line["message"].partition(":")[0]: line["exception"] for line in lines if "exception" in line}
    assert expected <= set(broken)
    assert len(broken) == 5  # and the task that nobody waited for
    for exception in broken.values():
        assert exception.startswith("builtins.ValueError\n  ")
        assert exception.endswith(" broken")


def record(message: str, *args: object, error: BaseException | None = None, logger: str = "edge.usage") -> Any:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord(logger, logging.WARNING, "/x.py", 7, message, args, exc_info)
    return json.loads(line_of(made, LogOutput(2, "edge")))


def test_a_message_quotes_own_exceptions_only() -> None:
    refusal = Refusal("runtime_unreachable")
    assert record("they wait: %s", refusal)["message"] == f"they wait: {refusal}"
    assert record("they wait: %s, %d", ValueError("planted"), 5)["message"] == "they wait: ValueError, 5"


@pytest.mark.parametrize(("logger", "shown"), [("edge.server", "req_1"), ("botocore.endpoint", None)])
def test_the_id_of_a_request_is_a_field_of_own_messages(logger: str, shown: str | None) -> None:
    made = logging.LogRecord(logger, logging.ERROR, "/x.py", 7, "A request failed", (), None)
    made.request_id = "req_1"
    assert json.loads(line_of(made, LogOutput(2, "edge"))).get("request_id") == shown


def test_the_run_that_an_own_message_names_is_a_field() -> None:
    run_id = f"run_{'0' * 26}"
    assert record("Run %s was closed as %s", run_id, "orphaned")["run_id"] == run_id
    assert "run_id" not in record("Run %s", "run_1")
    assert "run_id" not in record("Run %s", run_id, logger="botocore.endpoint")


def test_an_exception_is_logged_with_its_causes() -> None:
    error = OSError(errno.ENOSPC, "planted", "planted")
    error.__cause__ = KeyError("planted")
    exception = record("a line", error=error)["exception"].splitlines()
    assert exception == ["builtins.OSError ENOSPC", "from builtins.KeyError"]


def test_an_exception_of_an_outage_that_the_log_has_is_logged_without_its_places() -> None:
    class AwayError(Exception):
        logged = True

    with pytest.raises(AwayError) as caught:
        raise AwayError from OSError(errno.ECONNREFUSED, "away")
    exception = record("a line", error=caught.value)["exception"].splitlines()
    assert [line.rpartition(".")[2] for line in exception] == ["AwayError", "ConnectionRefusedError ECONNREFUSED"]


def test_every_exception_of_a_group_is_logged() -> None:
    group = ExceptionGroup("planted", [ValueError("planted"), ExceptionGroup("planted", [KeyError("planted")])])
    assert list(exception_lines(group)) == [
        "builtins.ExceptionGroup",
        "  builtins.ValueError",
        "  builtins.ExceptionGroup",
        "    builtins.KeyError",
    ]


@pytest.mark.parametrize(("code", "shown"), [("NoSuchKey", " NoSuchKey"), ("planted text", ""), (None, "")])
def test_an_error_code_is_logged_where_it_looks_like_one(code: str | None, shown: str) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "planted"}}, "GetObject")  # type: ignore[typeddict-item]
    assert list(exception_lines(error)) == [f"botocore.exceptions.ClientError{shown}"]


def test_a_deep_traceback_is_cut_in_the_middle() -> None:
    def deeper(left: int) -> None:
        if not left:
            raise ValueError
        deeper(left - 1)

    with pytest.raises(ValueError) as caught:
        deeper(500)
    lines = list(exception_lines(caught.value))
    assert len(lines) == 62
    assert lines[31] == "  442 more"
    assert lines[-1].endswith(" deeper")
