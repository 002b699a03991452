"""Runs steps of agents that are Python code, in the sandbox."""

import asyncio
import marshal
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

from backend.common import json_text
from backend.common.json_text import JsonText, UnstorableJsonError, parse_strict, parse_strict_replacing_nul
from backend.common.secret_scrubbing import Scrubber
from backend.isolation.sandbox import Readable, Sandbox
from backend.isolation.sandbox.frames import (
    EndOfStepError,
    Frames,
    HostileFrameError,
    NameInBothError,
    OutputFolder,
    WorkspaceFullError,
)
from backend.isolation.sandbox.inside.channel import (
    DROPPED,
    FAILURE,
    FILE,
    PROGRESS,
    READY,
    RESULT,
    SKIPPED,
    SKIPPED_KINDS,
)
from backend.isolation.sandbox.inside.plain_json import deeper_than
from backend.isolation.sandbox.process import StepProcess
from backend.runtime.agents import failures
from backend.runtime.agents.base import (
    EventData,
    OnProgress,
    StepFailed,
    StepRequest,
    StepResult,
    ValueReader,
    require_levels,
)
from backend.runtime.agents.progress import MAX_DROPPED_REPORT_BYTES, MAX_DROPPED_REPORTS, pause_clock, record_dropped
from backend.settings import StepDataLimits

P = ParamSpec("P")
T = TypeVar("T")

START_SECONDS = 30
EXIT_SECONDS = 0.5
MAX_SKIPPED = 10**9
CONNECTOR_FIELDS = ("type", "bucket", "prefixes")
INLINE_PARSE_BYTES = 4 * 1024
"""The longest JSON that is parsed on the event loop, because a step's JSON may take long to parse."""

# The kinds of frame that are allowed before the request is sent, with the most bytes of each.
WHILE_STARTING: Final = {READY: 0}


class Scrubbing(NamedTuple):
    """Scrubbers of secrets in text for people (log, events, errors) and in data (return value, output files)."""

    words: Scrubber
    data: Scrubber

    @classmethod
    async def of(cls, secrets: Mapping[str, str]) -> Self:
        """Returns the scrubbers for the values of these secrets, made on a thread."""
        values = list(secrets.values())
        if not values:
            return cls(Scrubber(()), Scrubber(()))
        return await asyncio.to_thread(lambda: cls(Scrubber(values), Scrubber(values, data=True)))


async def run_python_step(
    sandbox: Sandbox, request: StepRequest, on_progress: OnProgress, read_value: ValueReader
) -> StepResult:
    """Runs the agent's `run(context)` in a sandbox of its own, within the environment's limits (contract 25.1, 25.9).

    When this returns or raises, also by cancellation, every process of the step is dead and reaped. Raises StepFailed;
    exceptions of `on_progress` pass through. Reports and files of the step do not quote its secrets.
    """
    scrubbing = await Scrubbing.of(request.secrets)
    try:
        process = await sandbox.start(request.limits, Readable(request.inputs, request.files, request.needs))
    except OSError as error:
        raise StepFailed("SandboxFailed", "the step's sandbox could not be started", f"{error}\n".encode()) from error
    process.log.start(request.data_limits.log_bytes, request.on_text, scrubbing.words)
    outputs = OutputFolder(request.outputs, request.limits, scrubbing.data)
    try:
        try:
            value, skipped = await _run(process, request, outputs, on_progress, read_value, scrubbing)
        finally:
            await sandbox.end(process)
        return StepResult(value, process.log.text(), skipped, outputs.shared)
    except BaseException as error:
        if isinstance(error, StepFailed):
            error.log = process.log.text(error.log)
            error.type, error.message = scrubbing.words.text(error.type), scrubbing.words.text(error.message)
        await outputs.discard()
        raise
    finally:
        outputs.close()
        sandbox.release(process)


async def _run(
    process: StepProcess,
    request: StepRequest,
    outputs: OutputFolder,
    on_progress: OnProgress,
    read_value: ValueReader,
    scrubbing: Scrubbing,
) -> tuple[Any, Mapping[str, int]]:
    frames = Frames(process.channel)
    try:
        async with asyncio.timeout(START_SECONDS):
            await frames.next(WHILE_STARTING)
        process.confirm()
    except (OSError, EndOfStepError, HostileFrameError) as error:
        raise StepFailed("SandboxFailed", "the step's sandbox did not start", f"{error!r}\n".encode()) from error
    try:
        async with asyncio.timeout(request.limits.timeout_seconds) as clock:
            await frames.send_request(_payload(process, request))
            return await _converse(frames, request, outputs, pause_clock(on_progress, clock), read_value, scrubbing)
    except TimeoutError as error:
        if clock.expired():
            raise failures.time_limit(request.limits) from error
        raise
    except HostileFrameError as error:
        raise failures.protocol_failure(error) from error
    except WorkspaceFullError as error:
        raise failures.workspace_limit(request.limits) from error
    except NameInBothError as error:
        raise StepFailed("InvalidOutputs", str(error)) from error
    except EndOfStepError as error:
        status = await asyncio.to_thread(process.exit_status, EXIT_SECONDS)
        raise failures.died(status, request.limits, process.exceeded) from error


def _payload(process: StepProcess, request: StepRequest) -> bytes:
    layout = process.layout
    return marshal.dumps(
        {
            "attempt": request.attempt,
            "step": request.step,
            "run_id": request.run_id,
            "client_reference": request.client_reference,
            "failure": request.failure,
            "code": _code(request),
            "parameters": dict(request.parameters),
            "input_text": request.input_text,
            "needs": {name: value for name, value in request.needs.items() if not isinstance(value, JsonText)},
            "large_needs": {name: str(value) for name, value in request.needs.items() if isinstance(value, JsonText)},
            "item": None if isinstance(request.item, JsonText) else request.item,
            "large_item": str(request.item) if isinstance(request.item, JsonText) else None,
            "item_index": request.item_index,
            "input": None if request.input is None else dict(request.input),
            "call": request.call,
            "connectors": {
                name: {field: declared.get(field) for field in CONNECTOR_FIELDS}
                for name, declared in request.connectors.items()
            },
            "folders": {
                "workspace": layout.workspace,
                "outputs": layout.outputs,
                "shared": layout.shared,
                "inputs": layout.inputs,
                "files": layout.files,
                "code": layout.code,
            },
            "secrets": dict(request.secrets),
            "trace": dict(request.trace),
            "variables": dict(request.variables),
            "limits": request.limits.for_runner(processes=process.processes),
            "data_limits": asdict(request.data_limits),
        }
    )


def _code(request: StepRequest) -> dict[str, Any]:
    """Returns the agent's code for the request: its text, or its folder with the function to call."""
    agent = request.agent
    if request.source is None:
        return {"text": agent["code"], "name": posixpath.basename(agent.get("code_file") or "agent.py")}
    return {"files": dict(request.source), "entrypoint": agent["entrypoint"]}


def _while_running(limits: StepDataLimits) -> Mapping[int, int]:
    """Returns the kinds of frame that a step may send before its first file, with the most bytes of each."""
    return {
        PROGRESS: limits.event_bytes,
        DROPPED: MAX_DROPPED_REPORT_BYTES,
        FILE: 8 * 1024,
        SKIPPED: 1024,
        RESULT: limits.result_bytes,
        FAILURE: 1024 * 1024,
    }


async def _converse(
    frames: Frames,
    request: StepRequest,
    outputs: OutputFolder,
    on_progress: OnProgress,
    read_value: ValueReader,
    scrubbing: Scrubbing,
) -> tuple[Any, Mapping[str, int]]:
    """Reads the step's frames until its result; returns the result, and the number of skipped entries by kind."""
    allowed = _while_running(request.data_limits)
    skipped: Mapping[str, int] = {}
    dropped_frames = 0
    while True:
        kind, payload = await frames.next(allowed)
        if kind == RESULT:
            await _stored(outputs.finish())
            return await _result(payload, request.data_limits, read_value, scrubbing.data), skipped
        if kind == FAILURE:
            raise await _parsed(failures.reported, payload, request.limits)
        if kind == FILE:
            allowed = _without(allowed, PROGRESS, DROPPED)
            await _stored(outputs.receive(await _parsed(_announced, payload), frames))
        elif kind == SKIPPED:
            allowed = _without(allowed, PROGRESS, DROPPED, FILE, SKIPPED)
            skipped = _skipped(payload)
        elif kind == DROPPED:
            dropped_frames += 1
            if dropped_frames > MAX_DROPPED_REPORTS:
                raise HostileFrameError("the runner says less often how many events it dropped")
            record_dropped(request.events, payload)
        else:
            if not request.events.admit(len(payload)):
                raise HostileFrameError("more progress events than the runner lets through")
            message, data = await _parsed(_event, payload, request.data_limits, scrubbing.words)
            awaitable = on_progress(message, data)
            if awaitable is not None:
                await awaitable


def _without(allowed: Mapping[int, int], *kinds: int) -> Mapping[int, int]:
    return {kind: most for kind, most in allowed.items() if kind not in kinds}


async def _parsed(
    parse_payload: Callable[Concatenate[bytes, P], T], payload: bytes, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Parses a payload, on the loop only if it is short; payloads of a step are parsed one at a time."""
    if len(payload) > INLINE_PARSE_BYTES:
        return await asyncio.to_thread(parse_payload, payload, *args, **kwargs)
    return parse_payload(payload, *args, **kwargs)


async def _result(payload: bytes, limits: StepDataLimits, read_value: ValueReader, scrubber: Scrubber) -> Any:
    """Returns the return value; for a large one its text, checked in a process that can be killed."""
    await _parsed(require_levels, payload, limits.json_levels, "the return value")
    try:
        if len(payload) <= json_text.LARGEST_SHARED:
            return await _parsed(lambda text: scrubber.value(parse_strict(text)), payload)
        value = await read_value(_decoded(payload))
        return await asyncio.to_thread(scrubber.value, value) if scrubber else value
    except UnstorableJsonError as error:
        raise StepFailed("InvalidResult", f"the return value {failures.plain(error)}") from error


def _decoded(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise UnstorableJsonError(f"is not JSON: {error}") from error


def _announced(payload: bytes) -> Any:
    try:
        return parse_strict(payload)
    except UnstorableJsonError as error:
        raise HostileFrameError(f"a file's announcement {error}") from error


async def _stored(storing: Awaitable[None]) -> None:
    try:
        await storing
    except OSError as error:
        raise StepFailed("OutputsNotStored", "the step's outputs could not be stored", f"{error}\n".encode()) from error


def _skipped(payload: bytes) -> Mapping[str, int]:
    try:
        counts = parse_strict(payload)
    except UnstorableJsonError as error:
        raise HostileFrameError(f"the count of what was left out {error}") from error
    if not isinstance(counts, dict) or not all(
        kind in SKIPPED_KINDS and type(count) is int and 0 < count <= MAX_SKIPPED for kind, count in counts.items()
    ):
        raise HostileFrameError("what was left out is counted by kind")
    return counts


def _event(payload: bytes, limits: StepDataLimits, scrubber: Scrubber) -> tuple[str, EventData]:
    # An event has its message among its data, so its JSON has one level less than the frame.
    if deeper_than(payload, limits.json_levels + 1):
        raise StepFailed("InvalidEvent", f"a progress event is nested more than {limits.json_levels} levels deep")
    try:
        progress = scrubber.value(parse_strict_replacing_nul(payload))
    except UnstorableJsonError as error:
        raise HostileFrameError(f"a progress event {error}") from error
    match progress:
        case {"message": str(message), "data": dict(data), **rest} if not rest:
            return failures.plain(message), data
        case _:
            raise HostileFrameError("a progress event is a message with data")
