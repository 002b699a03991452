"""Calls of agents of type `python` that a model has as tools: each runs in a sandbox, in the step's environment."""

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
from backend.common.json_text import UnstorableJsonError, parse_strict
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
_OWN_LEVELS: Final = 2
"""Levels of the folder of one call's files, below that of the step."""
# What the model cannot change by other arguments fails the step.
_FAILS_THE_STEP: Final = frozenset({"SandboxFailed", "OutputsNotStored", "ProtocolError", "InternalError"})


class AgentTools:
    """The agents that a model may call in one attempt; one runs at a time, so that the step's memory is enough.

    `shared` has the paths of the files for later steps alone, `skipped` counts left-out entries as `StepResult` does.
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
        self._one_at_a_time = asyncio.Lock()
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
        """The agents by the names of their functions."""
        return {function_name(name): name for name in agent_tools(self._request.agent)}

    def definition(self, name: str) -> Mapping[str, Any]:
        """Returns the definition of an agent.

        Raises:
            StepFailed: there is none, or it cannot be called.
        """
        found = self._request.tools.get(name)
        if found is None or found["type"] != "python":
            raise StepFailed("AgentUnavailable", f"there is no python agent named '{name}' for a tool", final=True)
        return found

    def take_logs(self) -> list[bytes]:
        """Returns the logs of the calls since the last time."""
        logs, self._logs = self._logs, []
        return logs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Returns the result of a call, or how it failed, as the model is told.

        Raises:
            StepFailed: the step fails, because no other call could succeed.
        """
        definition = self.definition(name)
        given, problem = usable_input(arguments, self._request.data_limits.json_levels)
        schema = definition.get("input_schema")
        if problem is None and schema is not None:
            problem = await self._services.check_input(schema, given)
        if problem is not None:
            return told_error(INVALID_INPUT, problem)
        try:
            async with self._one_at_a_time:
                value = await self._run(name, definition, given)
        except StepFailed as failed:
            if failed.final or (failed.type in _FAILS_THE_STEP and not failed.by_the_agent):
                raise
            told = await self._services.hand_on([failed.type, failed.message])
            return told_error(*told)
        return told_result(await self._services.hand_on(value))

    async def _run(self, name: str, definition: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        request = self._request
        function = function_name(name)
        self._calls[function] += 1
        place = f"{function}/{self._calls[function]}"
        folder = request.outputs / place
        outputs = request.limits.outputs
        left = replace(
            outputs,
            levels=max(1, outputs.levels - _OWN_LEVELS),
            files=self._files_left,
            directories=max(0, self._directories_left - _OWN_LEVELS),
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
        await self._account(folder)
        self.shared |= {f"{place}/{path}" for path in result.shared}
        self.skipped.update(result.skipped)
        return result.value

    async def _account(self, folder: Path) -> None:
        """Counts the files of a call; they are removed again where those of all calls are too many bytes."""
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


def usable_input(arguments: Mapping[str, Any], levels: int) -> tuple[Mapping[str, Any], str | None]:
    """Returns arguments as an agent may get them, or their problem: a model sends what it likes."""
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


def told_result(value: Any) -> ToolResult:
    """Returns a result as the model is told it, with the place where a long one is cut."""
    text = json_text.text_of(value)
    payload = text.encode(errors="replace")
    if len(payload) <= MOST_RESULT_BYTES:
        return {"result": value}
    return {
        "result_cut": payload[:MOST_RESULT_BYTES].decode(errors="ignore"),
        "note": f"The result has {len(payload):,} bytes of JSON; everything after byte {MOST_RESULT_BYTES:,} is cut.",
    }


def told_error(kind: str, message: str) -> ToolResult:
    """Returns a failure as the model is told it."""
    return {"error": {"type": kind, "message": message}}


def _contents(folder: Path) -> tuple[int, int, int]:
    """Returns the numbers of files and directories, and the bytes of the files, of a folder that may be missing."""
    files = directories = size = 0
    for at, _, names in os.walk(folder):
        directories += 1
        files += len(names)
        size += sum(Path(at, name).lstat().st_size for name in names)
    return files, directories, size
