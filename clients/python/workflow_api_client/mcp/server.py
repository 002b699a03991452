"""The MCP server: lists workflows as tools, runs them, and serves their outputs as resources."""

import asyncio
import base64
import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplate,
    TextResourceContents,
)

from workflow_api_client.async_client import AsyncClient
from workflow_api_client.async_run import AsyncRun
from workflow_api_client.failures import TimedOutError, WorkflowApiError
from workflow_api_client.generated import records
from workflow_api_client.generated.errors import AlreadyTerminalError, ForbiddenError
from workflow_api_client.mcp.results import (
    MOST_RESOURCE_BYTES,
    READ_OUTPUT,
    RUN_STATUS,
    URI_TEMPLATE,
    answered,
    is_text,
    listed,
    piece_of,
    place_of,
    refused,
    result_of,
    window_of,
)
from workflow_api_client.mcp.tools import (
    CANCEL_RUN,
    LIST_RUNS,
    MOST_RUNS,
    OWN_NAMES,
    ToolNames,
    own_tools,
    split_arguments,
    tool_of,
)
from workflow_api_client.version import __version__

WAIT_SECONDS: Final = 45.0
"""Default seconds for which a call follows its run; hosts cancel calls after a minute."""

_CANCEL_SECONDS: Final = 10.0
_CANCELLED: Final = "The call of the tool was cancelled."
_LISTINGS: Final = 4
_MOST_KNOWN_OUTPUTS: Final = 100
# A requested wait beyond the longest is shortened to it.
_MOST_ASKED_SECONDS: Final = 600
# Seconds of each read after the wait, so that the whole call ends before the host cancels it.
_READ_SECONDS: Final = 5.0
_INSTRUCTIONS: Final = (
    "Each tool runs a workflow of a governed deployment. A run may wait for a person's approval: then the tool says "
    f"so, and `{RUN_STATUS}` returns its state later, as of a run that takes longer than one call. `{LIST_RUNS}` finds "
    f"runs, `{READ_OUTPUT}` reads their outputs, which are linked as resources, too."
)
_Context = ServerRequestContext[Any]


class WorkflowTools:
    """Handlers of the MCP server, over one client."""

    def __init__(self, client: AsyncClient, wait_seconds: float = WAIT_SECONDS) -> None:
        self._client = client
        self._wait_seconds = wait_seconds
        # Seconds of one call of the service, with its retries.
        self._longest = max(wait_seconds, _READ_SECONDS)
        # Cached, because a version's parameters never change.
        self._declared: dict[tuple[str, int], list[records.Parameter]] = {}
        # Cached, because outputs are listed once complete, and never change.
        self._outputs: dict[tuple[str, str], records.Output] = {}
        self._listing = asyncio.Semaphore(_LISTINGS)

    def server(self) -> Server[Any]:
        """Returns the MCP server with these handlers."""
        return Server(
            "workflow-api",
            version=__version__,
            title="Workflows",
            instructions=_INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_resource_templates,
            on_read_resource=self.read_resource,
        )

    async def list_tools(self, _: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        """Returns a tool for each workflow that is ready, and the server's own tools.

        Makes one call for each page of workflows, and one for each version not listed before.
        """
        names = await self._names()
        ready = {name: workflow for name, workflow in names.listed.items() if workflow.readiness.ready}
        declared = await asyncio.gather(*map(self._parameters, ready.values()))
        tools = [
            tool_of(name, workflow, parameters)
            for (name, workflow), parameters in zip(ready.items(), declared, strict=True)
        ]
        return ListToolsResult(tools=[*tools, *own_tools(int(self._wait_seconds))])

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        """Returns the state of the run that a tool started or named."""
        arguments = params.arguments or {}
        try:
            if params.name in OWN_NAMES:
                return await self._call_own_tool(params.name, arguments)
            end = anyio.current_time() + self._wait_seconds
            workflow = (await self._names()).find(params.name)
            if workflow is None:
                raise MCPError(INVALID_PARAMS, f"There is no tool {params.name!r}.")
            given = split_arguments(arguments, await self._parameters(workflow))
            run = await self._started(workflow.workflow_id, given)
        except TimedOutError:
            return refused(TimedOutError(f"The service did not answer in time. {LIST_RUNS} says whether a run began."))
        except WorkflowApiError as error:
            return refused(error)
        try:
            return await self._followed(context, run, end - anyio.current_time())
        except WorkflowApiError as error:
            # The run goes on; the host can ask for its status by id.
            return refused(error, run.id)

    async def list_resources(self, _: _Context, __: PaginatedRequestParams | None) -> ListResourcesResult:
        """Returns no resources, because results of tools link to the outputs of their runs."""
        return ListResourcesResult(resources=[])

    async def list_resource_templates(
        self, _: _Context, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Returns the URI template of outputs."""
        template = ResourceTemplate(name="output", title="Output of a run", uri_template=URI_TEMPLATE)
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, _: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Returns the bytes of an output, if it fits into one answer."""
        place = place_of(params.uri)
        if place is None:
            raise MCPError(INVALID_PARAMS, "There is no such resource.")
        run_id, path = place
        try:
            run = await self._client.runs.get(run_id)
            output = await self._output(run, path)
            if output.size_bytes > MOST_RESOURCE_BYTES:
                raise MCPError(
                    INVALID_PARAMS,
                    f"{output.path} has {output.size_bytes} bytes; a resource has at most {MOST_RESOURCE_BYTES}. "
                    f"{READ_OUTPUT} reads it piece by piece, if it is not too large to be served outside the zip.",
                )
            content = await run.outputs.read(output)
        except WorkflowApiError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        kind = output.media_type
        if is_text(kind) and b"\0" not in content:
            with contextlib.suppress(UnicodeDecodeError):
                text = TextResourceContents(uri=params.uri, mime_type=kind, text=content.decode())
                return ReadResourceResult(contents=[text])
        blob = BlobResourceContents(uri=params.uri, mime_type=kind, blob=base64.b64encode(content).decode())
        return ReadResourceResult(contents=[blob])

    async def _names(self) -> ToolNames:
        workflows = [workflow async for workflow in self._client.workflows.list()]
        current = {(workflow.workflow_id, workflow.version) for workflow in workflows}
        self._declared = {place: known for place, known in self._declared.items() if place in current}
        return ToolNames(workflows)

    async def _parameters(self, workflow: records.Workflow) -> list[records.Parameter]:
        place = (workflow.workflow_id, workflow.version)
        if place not in self._declared:
            async with self._listing:
                answered = await self._client.workflows.parameters(workflow.workflow_id)
            self._declared[place] = answered
            return answered
        return self._declared[place]

    async def _call_own_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        if name == LIST_RUNS:
            return await self._runs(arguments)
        run_id, path = _text(arguments, "run_id"), _text(arguments, "path") if "path" in arguments else None
        offset = _number(arguments, "offset", 0, 0, 10**9)
        seconds = _number(arguments, "wait_seconds", 0, 0, max(_MOST_ASKED_SECONDS, int(self._wait_seconds)))
        run = await self._client.runs.get(run_id, timeout=self._longest)
        if name == READ_OUTPUT:
            if path is not None:
                return await self._piece(run, path, offset)
            found = await run.outputs.list(timeout=self._longest)
            return answered(f"The run {run.id} has {len(found)} outputs.", listed(run.id, found, offset))
        if name == CANCEL_RUN:
            # The run has ended already, which its state shows.
            with contextlib.suppress(AlreadyTerminalError):
                await run.cancel(arguments.get("reason"), timeout=self._longest)
            await run.refresh(timeout=_READ_SECONDS)
        elif seconds:
            with contextlib.suppress(TimedOutError):
                await run.wait(min(seconds, self._wait_seconds), or_approval=True)
            await run.refresh(timeout=_READ_SECONDS)
        return await self._state(run, failure_is_error=False)

    async def _runs(self, arguments: dict[str, Any]) -> CallToolResult:
        limit = _number(arguments, "limit", 20, 1, MOST_RUNS)
        before = _text(arguments, "created_before") if "created_before" in arguments else None
        workflow = _text(arguments, "workflow") if "workflow" in arguments else None
        cursor = _text(arguments, "cursor") if "cursor" in arguments else None
        try:
            created_before = before and datetime.fromisoformat(before.replace("Z", "+00:00"))
        except ValueError:
            raise MCPError(INVALID_PARAMS, f"`created_before` must be a time, which {before!r} is not.") from None
        page = await self._client.runs.page(
            status=_text(arguments, "status") if "status" in arguments else None,
            workflow_id=workflow and (await self._client.workflows.get(workflow)).workflow_id,
            created_before=created_before or None,
            limit=limit,
            cursor=cursor,
            timeout=self._longest,
        )
        state: dict[str, Any] = {"runs": [_listed_run(run) for run in page.items]}
        if page.next_cursor:
            state["next"] = {"tool": LIST_RUNS, "arguments": {**arguments, "cursor": page.next_cursor}}
        return answered(f"{len(page.items)} runs{', and there are more' if page.next_cursor else ''}.", state)

    async def _piece(self, run: AsyncRun, path: str, offset: int) -> CallToolResult:
        output = await self._output(run, path)
        if offset > output.size_bytes:
            raise MCPError(INVALID_PARAMS, f"`offset` must be from 0 to {output.size_bytes}, which {offset} is not.")
        begin, end = window_of(offset)
        window = await run.outputs.read(output, begin=begin, end=end, timeout=self._longest)
        return piece_of(run.id, output, window, offset)

    async def _output(self, run: AsyncRun, path: str) -> records.Output:
        """Returns the record of an output; the run's list is read once for all pieces."""
        place = (run.id, path)
        if place not in self._outputs:
            found = await run.outputs.get(path, timeout=self._longest)
            if len(self._outputs) >= _MOST_KNOWN_OUTPUTS:
                self._outputs.clear()
            self._outputs[place] = found
        return self._outputs[place]

    async def _started(self, workflow_id: str, given: dict[str, Any]) -> AsyncRun:
        """Starts and returns a run; cancels the run if the tool's call is cancelled meanwhile."""
        starting = asyncio.ensure_future(self._client.runs.start(workflow_id, **given, timeout=self._longest))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The request may have started a run, whose id only the answer tells.
            with _cancelling():
                await (await starting).cancel(_CANCELLED)
            raise

    async def _followed(self, context: _Context, run: AsyncRun, seconds: float) -> CallToolResult:
        """Returns the state of a run once it has ended, waits for a person, or outlasts the call."""
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._report(context, run), max(0.0, seconds))
            return await self._state(await run.refresh(timeout=_READ_SECONDS), failure_is_error=True)
        except asyncio.CancelledError:
            # The host has cancelled the call, and so the run is cancelled.
            with _cancelling():
                await run.cancel(_CANCELLED)
            raise

    async def _report(self, context: _Context, run: AsyncRun) -> None:
        """Reports the run's events as progress, until it has ended or waits for a person."""
        async with contextlib.aclosing(run.events(live=True)) as events:
            count = 0
            async for event in events:
                count += 1
                await context.session.report_progress(count, message=_line(event))
                if event.type == "segment.ended" and (await run.refresh()).status == "waiting_for_approval":
                    return
        await run.wait()

    async def _state(self, run: AsyncRun, *, failure_is_error: bool) -> CallToolResult:
        outputs: list[records.Output] = []
        if run.is_finished and run.record.data_purged_at is None:
            # A key may read runs without the scope for outputs.
            with contextlib.suppress(ForbiddenError):
                outputs = await run.outputs.list(timeout=_READ_SECONDS)
        approvals = await run.approvals(timeout=_READ_SECONDS) if run.status == "waiting_for_approval" else []
        return result_of(
            run, outputs, approvals, wait_seconds=int(self._wait_seconds), failure_is_error=failure_is_error
        )


@contextlib.contextmanager
def _cancelling() -> Iterator[None]:
    """Shields the cancellation of a run from the cancelled call, for some seconds."""
    with anyio.move_on_after(_CANCEL_SECONDS, shield=True), contextlib.suppress(WorkflowApiError):
        yield


def _line(event: records.AnyEvent) -> str:
    message = event.data.get("message") or event.data.get("title")
    return " ".join(str(part) for part in (event.type, event.step, message) if part)


def _listed_run(run: records.RunSummary) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "workflow": run.workflow_name,
        "status": run.status,
        "created_at": run.created_at.isoformat(),
        "finished_at": run.finished_at and run.finished_at.isoformat(),
        "client_reference": run.client_reference,
    }


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise MCPError(INVALID_PARAMS, f"`{name}` must be a text, which {value!r} is not.")
    return value


def _number(arguments: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = arguments.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise MCPError(INVALID_PARAMS, f"`{name}` must be from {least} to {most}, which {value!r} is not.")
    return value
