"""Program that runs one agent inside the sandbox; uses the standard library alone.

It communicates by frames over one inherited socket: a byte for the kind, four bytes for the length (big-endian), then
the payload. It receives one request, marshalled. It sends READY, then any number of PROGRESS and DROPPED. At the end it
sends either FAILURE; or FILE for every output and shared file, followed by the file's bytes, SKIPPED if entries of the
folders were left out, and RESULT. Payloads are JSON, and the worker treats them as untrusted.
"""

from __future__ import annotations

import errno
import os
import resource
import sys

from backend.isolation.sandbox.inside.agent_code import NoFunctionError, call, code_of, provide_library
from backend.isolation.sandbox.inside.channel import (
    FAILURE,
    MAX_MESSAGE_CHARACTERS,
    MAX_TRACEBACK_CHARACTERS,
    READY,
    RESULT,
    EventBudget,
    EventReporter,
    StepChannel,
    note,
)
from backend.isolation.sandbox.inside.context import Context
from backend.isolation.sandbox.inside.outputs import OutputsError, send_outputs
from backend.isolation.sandbox.inside.plain_json import deeper_than, encode, path_beyond_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from backend.isolation.sandbox.inside.agent_code import FolderCode, TextCode

NESTING_LIMIT = 3_000
"""JSON counts its nesting against the interpreter's limit, and the contract allows 1,000 levels."""
IDLE_MILLISECONDS = 200

PRELOAD_CPU_SECONDS = 120

_MOST_CAUSES = 10
_SPARE_MEMORY_BYTES = 64 * 1024 * 1024


class _StepError(Exception):
    """A failure that the runner describes itself; `kind` names it for the worker."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _limit(what: int, soft: int, hard: int) -> None:
    ceiling = resource.getrlimit(what)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(what, (soft, hard))


def _apply_limits(limits: dict[str, Any]) -> None:
    # Soft limits below the hard ones: CPU time ends in SIGXCPU, and after a MemoryError there is memory to report it.
    memory = limits["memory_bytes"]
    _limit(resource.RLIMIT_AS, memory, memory + _SPARE_MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, limits["cpu_seconds"], limits["cpu_seconds"] + 5)
    _limit(resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"])
    _limit(resource.RLIMIT_NOFILE, 1024, 1024)
    _limit(resource.RLIMIT_CORE, 0, 0)
    if limits["processes"] is not None:
        _limit(resource.RLIMIT_NPROC, limits["processes"], limits["processes"])


def _finish(value: Any) -> Any:
    if not hasattr(value, "__await__"):
        return value
    import asyncio

    async def finished() -> Any:
        return await value

    return asyncio.run(finished())


def _encode_result(value: Any, most_bytes: int, most_levels: int) -> bytes:
    too_deep = f"the return value is nested more than {most_levels} levels deep"
    try:
        payload = encode(value)
    except RecursionError as error:
        raise _StepError("not_json", too_deep) from error
    except (ValueError, TypeError) as error:
        found = path_beyond_json(value)
        where = f": {error}" if found is None else f" at {found}"
        raise _StepError("not_json", f"the return value is not JSON{where}") from error
    if len(payload) > most_bytes:
        raise _StepError("not_json", f"the return value is larger than {most_bytes} bytes of JSON")
    if deeper_than(payload, most_levels):
        raise _StepError("not_json", too_deep)
    return payload


def _describe(error: BaseException, code: TextCode | FolderCode) -> dict[str, str]:
    import traceback

    kind = "exception"
    if isinstance(error, _StepError):
        kind = error.kind
    elif isinstance(error, NoFunctionError):
        kind = "no_run"
    elif isinstance(error, OutputsError):
        kind = "outputs"
    elif isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        kind = "memory"
    elif isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}:
        kind = "workspace"
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception's own text may fail
        message = ""
    code.prepare_traceback()
    # The runner's own stack frames do not help the author.
    trace = error.__traceback__
    while trace is not None and not code.owns(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace) if kind != "not_json" else [f"{message}\n"]
    return {
        "kind": kind,
        "type": type(error).__name__[:200],
        "message": message[:MAX_MESSAGE_CHARACTERS],
        "symptom": _symptom(error),
        "traceback": code.shown("".join(lines))[-MAX_TRACEBACK_CHARACTERS:],
    }


def _symptom(error: BaseException) -> str:
    """Returns the symptom by which the worker chooses a remedy, such as `module` or `network`; empty for others."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < _MOST_CAUSES:
        causes.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    if isinstance(error, ImportError) and any(isinstance(each, ModuleNotFoundError) for each in causes):
        return "module"
    # The module socket need not be there.
    if any(type(each).__name__ == "gaierror" or getattr(each, "errno", 0) == errno.ENETUNREACH for each in causes):
        return "network"
    if isinstance(error, KeyError) and _raised_by(error) is os._Environ.__getitem__.__code__:  # noqa: SLF001 - its code
        return "variable"
    if isinstance(error, OSError) and error.filename and error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return "place"
    return ""


def _raised_by(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace and trace.tb_frame.f_code


def _send_failure(channel: StepChannel, error: BaseException, code: TextCode | FolderCode) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    report = _describe(error, code)
    import json

    channel.send(FAILURE, json.dumps(report, separators=(",", ":")).encode())


def _prepare(fd: int, modules: list[str]) -> list[str]:
    """Imports modules that most steps need, then `modules`, unless the request has arrived already.

    Returns messages for modules that could not be imported.
    """
    import select

    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    if waiting.poll(IDLE_MILLISECONDS):
        return []
    import json  # noqa: F401 - so that the step need not load it
    import pathlib  # noqa: F401 - likewise

    return preload(modules, lambda: bool(waiting.poll(0)))


def preload(modules: list[str], wanted: Callable[[], bool] = lambda: False) -> list[str]:
    """Imports modules until the step is wanted; returns messages for those that could not be imported."""
    failures: list[str] = []
    for module in modules:
        if wanted():
            break
        try:
            __import__(module)
        except BaseException as error:  # noqa: BLE001 - the step may do without it, or fail with the same error
            failures.append(f"{module} could not be preloaded: {type(error).__name__}: {error}")
    return failures


def use_packages(packages: dict[str, Any]) -> list[str]:
    """Makes packages importable, and limits this process before it runs their code; returns modules to preload."""
    sys.path.append(packages["path"])
    modules: list[str] = packages["preload"]
    if modules:
        memory = packages["memory_bytes"]
        _limit(resource.RLIMIT_AS, memory, memory + _SPARE_MEMORY_BYTES)
        _limit(resource.RLIMIT_CPU, PRELOAD_CPU_SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1])
    return modules


def main(fd: int, packages: dict[str, Any] | None = None) -> NoReturn:
    """Runs one request in a fresh interpreter."""
    sys.setrecursionlimit(NESTING_LIMIT)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    modules = [] if packages is None else use_packages(packages)
    channel = StepChannel(fd)
    channel.send(READY)
    failures = _prepare(fd, modules)
    provide_library()
    _run(channel, failures)


def run(fd: int, failures: list[str]) -> NoReturn:
    """Runs one request in a fork of a template; `failures` says which modules the template could not import."""
    _make_own_again()
    channel = StepChannel(fd)
    channel.send(READY)
    _run(channel, failures)


def _make_own_again() -> None:
    """Gives this process random numbers and a thread id of its own, also where the interpreter knows of no fork."""
    for name in ("random", "numpy.random"):
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()  # noqa: SLF001 - as the module does after the forks that it knows of


def _run(channel: StepChannel, failures: list[str]) -> NoReturn:
    """Runs one request and sends its result; then waits until the worker ends this process and its children."""
    request = channel.receive()
    for failure in failures:
        note(failure)
    code = code_of(request)
    sys.argv = [code.name]
    trace = {name.upper(): value for name, value in request["trace"].items()}
    os.environ.update(request["variables"] | trace)  # noqa: TID251 - the environment of the agent
    _apply_limits(request["limits"])
    answer(channel, request, code, request["limits"]["outputs"])
    channel.wait()
    os._exit(0)


def answer(
    channel: StepChannel, request: dict[str, Any], code: TextCode | FolderCode, output_limits: dict[str, int]
) -> None:
    """Runs the agent of a request, and sends its events, and either its outputs and its result or its failure."""
    limits: dict[str, int] = request["data_limits"]
    budget = EventBudget(limits["event_bytes"], limits["events"], limits["event_data_bytes"])
    events = EventReporter(channel, budget)
    try:
        value = _finish(call(code.load(), Context(events, request)))
        result = _encode_result(value, limits["result_bytes"], limits["json_levels"])
        events.close()
        send_outputs(channel, request["folders"], output_limits)
        flush()
        channel.send(RESULT, result)
    except BaseException as error:  # noqa: BLE001 - SystemExit of the agent is a failure like any other
        flush()
        events.close()
        _send_failure(channel, error, code)


def flush() -> None:
    """Flushes the streams that Python flushes when it ends: the current ones, then those that they may wrap."""
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        try:
            getattr(sys, name).flush()
        except BaseException:  # noqa: BLE001, S112 - the agent may have closed, removed or replaced it
            continue


if __name__ == "__main__":
    # The program was started from /proc/self/fd/N, a file that all steps share; the step must not keep N.
    os.close(int(sys.argv[0].rpartition("/")[2]))
    if len(sys.argv) > 2:  # Without packages, JSON is not loaded before a step needs it.
        import json

        main(int(sys.argv[1]), json.loads(sys.argv[2]))
    main(int(sys.argv[1]))
