"""Steps whose work is Python code, run in the sandbox."""

import asyncio
import marshal
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from backend.runtime.agents import failures
from backend.runtime.agents.base import OnProgress, StepFailed, StepRequest, StepResult
from backend.runtime.agents.progress import untimed
from backend.runtime.agents.values import NotJsonError, parse, parse_replacing_nul
from backend.runtime.sandbox import Readable, Sandbox
from backend.runtime.sandbox.frames import EndOfStepError, Frames, HostileFrameError
from backend.runtime.sandbox.inside.protocol import (
    FAILURE,
    FILE,
    MAX_PROGRESS_BYTES,
    MAX_PROGRESS_EVENTS,
    MAX_RESULT_BYTES,
    PROGRESS,
    READY,
    RESULT,
    SKIPPED,
    SKIPPED_KINDS,
)
from backend.runtime.sandbox.outputs import OutputFolder, WorkspaceFullError
from backend.runtime.sandbox.process import StepProcess

START_SECONDS = 30
EXIT_SECONDS = 0.5
MAX_SKIPPED = 10**9
CONNECTOR_FIELDS = ("type", "bucket", "prefixes")

# The kinds of frame that are allowed at each point, with the most bytes of each.
WHILE_STARTING: Final = {READY: 0}
AT_THE_END: Final = {RESULT: MAX_RESULT_BYTES, FAILURE: 1024 * 1024}
AFTER_A_FILE: Final = {FILE: 8 * 1024, SKIPPED: 1024, **AT_THE_END}
WHILE_RUNNING: Final = {PROGRESS: MAX_PROGRESS_BYTES, **AFTER_A_FILE}


async def run_python_step(sandbox: Sandbox, request: StepRequest, on_progress: OnProgress) -> StepResult:
    """Run the agent's `run(context)` in a sandbox of its own, within the environment's limits (DECISIONS.md §9).

    When this returns or raises, also by cancellation, every process of the step is dead and reaped. Raises StepFailed;
    what `on_progress` raises passes through.
    """
    try:
        process = await sandbox.start(request.limits, Readable(request.inputs, request.files))
    except OSError as error:
        raise StepFailed("SandboxFailed", "the step's sandbox could not be started", f"{error}\n".encode()) from error
    process.log.start()
    outputs = OutputFolder(request.outputs, request.limits)
    try:
        try:
            value, skipped = await _run(process, request, outputs, on_progress)
        finally:
            await sandbox.end(process)
        return StepResult(value, process.log.text(), skipped)
    except BaseException as error:
        if isinstance(error, StepFailed):
            error.log = process.log.text() + error.log
        await outputs.discard()
        raise
    finally:
        outputs.close()
        sandbox.release(process)


async def _run(
    process: StepProcess, request: StepRequest, outputs: OutputFolder, on_progress: OnProgress
) -> tuple[Any, Mapping[str, int]]:
    frames = Frames(process.channel)
    try:
        async with asyncio.timeout(START_SECONDS):
            await frames.next(WHILE_STARTING)
        process.find_namespace()
    except (TimeoutError, EndOfStepError, HostileFrameError) as error:
        raise StepFailed("SandboxFailed", "the step's sandbox did not start", f"{error!r}\n".encode()) from error
    try:
        async with asyncio.timeout(request.limits.timeout_seconds) as clock:
            await frames.send_request(_payload(process, request))
            return await _converse(frames, request, outputs, untimed(on_progress, clock))
    except TimeoutError as error:
        if clock.expired():
            raise failures.time_limit(request.limits) from error
        raise
    except HostileFrameError as error:
        raise failures.protocol_failure(error) from error
    except WorkspaceFullError as error:
        raise failures.workspace_limit(request.limits) from error
    except EndOfStepError as error:
        status = await asyncio.to_thread(process.exit_status, EXIT_SECONDS)
        raise failures.died(status, request.limits, process.exceeded) from error


def _payload(process: StepProcess, request: StepRequest) -> bytes:
    layout = process.layout
    return marshal.dumps(
        {
            "attempt": request.attempt,
            "code": request.agent["code"],
            "parameters": dict(request.parameters),
            "input_text": request.input_text,
            "needs": dict(request.needs),
            "connectors": {
                name: {field: declared.get(field) for field in CONNECTOR_FIELDS}
                for name, declared in request.connectors.items()
            },
            "folders": {
                "workspace": layout.workspace,
                "outputs": layout.outputs,
                "inputs": layout.inputs,
                "files": layout.files,
            },
            "limits": request.limits.for_runner(processes=process.processes),
        }
    )


async def _converse(
    frames: Frames, request: StepRequest, outputs: OutputFolder, on_progress: OnProgress
) -> tuple[Any, Mapping[str, int]]:
    """Read what the step sends until its result; returns that, and how many entries are no outputs, by kind."""
    allowed: Mapping[int, int] = WHILE_RUNNING
    skipped: Mapping[str, int] = {}
    events = 0
    while True:
        kind, payload = await frames.next(allowed)
        if kind == RESULT:
            await _stored(outputs.finish())
            return _result(payload), skipped
        if kind == FAILURE:
            raise failures.reported(payload, request.limits)
        if kind == FILE:
            allowed = AFTER_A_FILE
            await _stored(outputs.receive(_announced(payload), frames))
        elif kind == SKIPPED:
            allowed = AT_THE_END
            skipped = _skipped(payload)
        else:
            events += 1
            if events > MAX_PROGRESS_EVENTS:
                raise HostileFrameError("more progress events than the runner lets through")
            await _report(payload, on_progress)


def _result(payload: bytes) -> Any:
    try:
        return parse(payload)
    except NotJsonError as error:
        raise StepFailed("InvalidResult", f"the return value {failures.plain(error)}") from error


def _announced(payload: bytes) -> Any:
    try:
        return parse(payload)
    except NotJsonError as error:
        raise HostileFrameError(f"a file's announcement {error}") from error


async def _stored(storing: Awaitable[None]) -> None:
    try:
        await storing
    except OSError as error:
        raise StepFailed("OutputsNotStored", "the step's outputs could not be stored", f"{error}\n".encode()) from error


def _skipped(payload: bytes) -> Mapping[str, int]:
    try:
        counts = parse(payload)
    except NotJsonError as error:
        raise HostileFrameError(f"the count of what was left out {error}") from error
    if not isinstance(counts, dict) or not all(
        kind in SKIPPED_KINDS and type(count) is int and 0 < count <= MAX_SKIPPED for kind, count in counts.items()
    ):
        raise HostileFrameError("what was left out is counted by kind")
    return counts


async def _report(payload: bytes, on_progress: OnProgress) -> None:
    try:
        progress = parse_replacing_nul(payload)
    except NotJsonError as error:
        raise HostileFrameError(f"a progress event {error}") from error
    match progress:
        case {"message": str(message), "data": dict(data), **rest} if not rest:
            awaitable = on_progress(failures.plain(message), data)
        case _:
            raise HostileFrameError("a progress event is a message with data")
    if awaitable is not None:
        await awaitable
