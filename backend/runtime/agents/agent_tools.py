"""Agents of type `python` as tools of a model: takes arguments, runs the agent in a sandbox and returns its result."""

import asyncio
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from backend.common import json_text
from backend.common.json_text import JsonMapping, JsonText, UnstorableJsonError, parse_strict
from backend.isolation.sandbox import Sandbox
from backend.isolation.sandbox.inside.plain_json import deeper_than
from backend.runtime.agents.base import OnProgress, StepFailed, StepRequest, ToolServices, ValueReader, event_budget
from backend.runtime.agents.failures import plain
from backend.runtime.agents.python_agent import run_python_step
from backend.runtime.agents.tools import ToolResult
from backend.services.workflows.agent_tools import agent_tools, function_name

MOST_INPUT_BYTES: Final = 64 * 1024
MOST_RESULT_BYTES: Final = 64 * 1024
INVALID_INPUT: Final = "InvalidInput"
_CALL_LEVELS: Final = 2
"""Levels of folders between the outputs of the step and the files of one call."""
# Failures of a call that other arguments cannot avoid, so they fail the step.
_STEP_FAILURES: Final = frozenset({"SandboxFailed", "OutputsNotStored", "ProtocolError", "InternalError"})


class AgentTools:
    """The agents that a model may call in one attempt; calls run one at a time, within the memory of the step.

    `shared` has the paths of files that are for later steps only; `skipped` counts left-out entries, as `StepResult`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        read_value: ValueReader,
        services: ToolServices,
        request: StepRequest,
        on_progress: OnProgress,
    ) -> None:
        self._sandbox = sandbox
        self._read_value = read_value
        self._services = services
        self._request = request
        self._on_progress = on_progress
        self._call_lock = asyncio.Lock()
        self._calls: Counter[str] = Counter()
        self._bytes_left = request.limits.workspace_bytes
        self._files_left = request.limits.outputs.files
        self._directories_left = request.limits.outputs.directories
        self._log_bytes_left = request.data_limits.log_bytes
        self._logs: list[bytes] = []
        self.shared: set[str] = set()
        self.skipped: Counter[str] = Counter()

    @property
    def names(self) -> Mapping[str, str]:
        """Names of the agents, by the names of their functions."""
        return {function_name(name): name for name in agent_tools(self._request.agent)}

    def definition(self, name: str) -> Mapping[str, Any]:
        """Returns the definition of an agent.

        Raises:
            StepFailed: the agent does not exist, or cannot be called.
        """
        found = self._request.tools.get(name)
        if found is None or found["type"] != "python":
            raise StepFailed("AgentUnavailable", f"there is no python agent named '{name}' for a tool", final=True)
        return found

    def take_logs(self) -> list[bytes]:
        """Returns the logs of the calls since the last call of this method."""
        logs, self._logs = self._logs, []
        return logs

    def save(self) -> JsonMapping:
        """Returns the state of a conversation that waits for a person: numbers of calls, and what limits have left."""
        limits = (self._bytes_left, self._files_left, self._directories_left)
        return {"calls": dict(self._calls), "left": limits, "skipped": dict(self.skipped)}

    def restore(self, saved: JsonMapping) -> None:
        """Goes on from a saved state."""
        self._calls.update(saved["calls"])
        self.skipped.update(saved["skipped"])
        self._bytes_left, self._files_left, self._directories_left = saved["left"]

    async def check(self, name: str, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], ToolResult | None]:
        """Returns the arguments of a call as strict JSON, and how they do not fit, for the model."""
        given, problem = check_arguments(arguments, self._request.data_limits.json_levels)
        schema = self.definition(name).get("input_schema")
        if problem is None and schema is not None:
            problem = await self._services.check_input(schema, given)
        return given, None if problem is None else model_error(INVALID_INPUT, problem)

    async def call(self, name: str, given: Mapping[str, Any]) -> ToolResult:
        """Returns the result or failure of a call with checked arguments, for the model.

        Raises:
            StepFailed: the step fails, because no other call could succeed.
        """
        definition = self.definition(name)
        try:
            async with self._call_lock:
                value = await self._run(name, definition, given)
        except StepFailed as failed:
            if failed.final or (failed.type in _STEP_FAILURES and not failed.by_the_agent):
                raise
            redacted = await self._services.redact([failed.type, failed.message])
            return model_error(*redacted)
        return model_result(await self._services.redact(value))

    async def _run(self, name: str, definition: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        request = self._request
        function = function_name(name)
        self._calls[function] += 1
        place = f"{function}/{self._calls[function]}"
        folder = request.outputs / place
        outputs = request.limits.outputs
        left = replace(
            outputs,
            levels=max(1, outputs.levels - _CALL_LEVELS),
            files=self._files_left,
            directories=max(0, self._directories_left - _CALL_LEVELS),
        )
        prepared = await self._services.prepare(name)
        digest = hashlib.sha256(json_text.canonical(given).encode()).hexdigest()[:32]
        call = replace(
            request,
            agent=definition,
            source=prepared.source,
            secrets=prepared.secrets,
            outputs=folder,
            limits=replace(request.limits, outputs=left),
            events=event_budget(request.data_limits),
            on_text=None,
            input=given,
            call=f"{function}/{digest}",
        )
        log = b""
        try:
            result = await run_python_step(self._sandbox, call, self._on_progress, self._read_value)
            log = result.log
        except StepFailed as failed:
            log = failed.log
            raise
        finally:
            self._add_log(place, log)
            for limit, count in call.events.dropped.items():
                request.events.dropped[limit] += count
        await self._count_files(folder)
        self.shared |= {f"{place}/{path}" for path in result.shared}
        self.skipped.update(result.skipped)
        return result.value

    async def _count_files(self, folder: Path) -> None:
        """Counts the files of a call against the limits; removes them if the files of all calls have too many bytes."""
        files, directories, size = await asyncio.to_thread(_contents, folder)
        if size > self._bytes_left:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise StepFailed(
                "WorkspaceLimit",
                "the files of all calls of tools have more bytes than the environment's workspace_mb of "
                f"{self._request.limits.workspace_mb}",
            )
        self._bytes_left -= size
        self._files_left = max(0, self._files_left - files)
        self._directories_left = max(0, self._directories_left - directories)

    def _add_log(self, place: str, log: bytes) -> None:
        if not log or self._log_bytes_left <= 0:
            return
        part = b"[%s]\n%s" % (place.encode(), log if log.endswith(b"\n") else log + b"\n")
        self._logs.append(part[: self._log_bytes_left])
        self._log_bytes_left -= len(part)


def check_arguments(arguments: Mapping[str, Any], levels: int) -> tuple[Mapping[str, Any], str | None]:
    """Returns arguments as strict JSON of bounded size and depth, or empty ones with their problem."""
    too_deep = f"The arguments are nested more than {levels} levels deep."
    try:
        payload = json_text.write(arguments).encode(errors="surrogatepass")
    except RecursionError:
        return {}, too_deep
    except ValueError:
        # The library reads `NaN` and `1e999`.
        return {}, "The JSON of the arguments holds a number that is not finite."
    if len(payload) > MOST_INPUT_BYTES:
        return {}, f"The arguments have {len(payload):,} bytes of JSON, more than {MOST_INPUT_BYTES:,}."
    if deeper_than(payload, levels):
        return {}, too_deep
    try:
        return parse_strict(payload), None
    except UnstorableJsonError as error:
        return {}, f"The JSON of the arguments {plain(error)}."


def model_result(value: Any) -> ToolResult:
    """Returns the result of a tool for the model; a long one is cut, with a note of the place."""
    text = json_text.text_of(value)
    payload = text.encode(errors="replace")
    if len(payload) <= MOST_RESULT_BYTES:
        # A sweep may have made a large value small.
        return {"result": json_text.parse(text) if isinstance(value, JsonText) else value}
    return {
        "result_cut": payload[:MOST_RESULT_BYTES].decode(errors="ignore"),
        "note": f"The result has {len(payload):,} bytes of JSON; everything after byte {MOST_RESULT_BYTES:,} is cut.",
    }


def model_error(kind: str, message: str) -> ToolResult:
    """Returns the failure of a tool for the model."""
    return {"error": {"type": kind, "message": message}}


def _contents(folder: Path) -> tuple[int, int, int]:
    """Returns the numbers of files and directories, and the bytes of the files, of a folder that may be missing."""
    files = directories = size = 0
    for at, _, names in os.walk(folder):
        directories += 1
        files += len(names)
        size += sum(Path(at, name).lstat().st_size for name in names)
    return files, directories, size
