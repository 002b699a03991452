"""The server: lists workflows as tools, runs them, and serves what they made as resources."""

import asyncio
import base64
import contextlib
from collections.abc import Iterator
from typing import Any, Final

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextResourceContents,
)

from workflow_api_client.async_client import AsyncClient
from workflow_api_client.async_run import AsyncRun
from workflow_api_client.failures import TimedOutError, WorkflowApiError
from workflow_api_client.generated import records
from workflow_api_client.generated.errors import ForbiddenError
from workflow_api_client.mcp.tools import (
    CANCEL_RUN,
    LONGEST_WAIT_SECONDS,
    OWN_TOOLS,
    RUN_STATUS,
    ToolNames,
    place_of,
    refused,
    result_of,
    split_arguments,
    tool_of,
)

_CANCEL_SECONDS: Final = 10.0
_CANCELLED: Final = "The call of the tool was cancelled."
_LISTINGS: Final = 4
_INSTRUCTIONS: Final = (
    "Each tool runs a workflow of a governed deployment. A run may wait for a person's approval: then the tool says "
    f"so, and `{RUN_STATUS}` returns its state later. Outputs are linked as resources."
)
_Context = ServerRequestContext[Any]


class WorkflowTools:
    """The handlers of the server, with one client."""

    def __init__(self, client: AsyncClient, wait_seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self._client = client
        self._wait_seconds = wait_seconds
        # A version of a workflow never changes what it declares.
        self._declared: dict[tuple[str, int], list[records.Parameter]] = {}
        self._listing = asyncio.Semaphore(_LISTINGS)

    def server(self) -> Server[Any]:
        """Returns the server."""
        return Server(
            "workflow-api",
            title="Workflows",
            instructions=_INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_read_resource=self.read_resource,
        )

    async def list_tools(self, _: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        """Returns a tool for each workflow that is ready, and the server's own.

        Costs one call for a page of workflows, and one more for each version that was not listed before.
        """
        names = await self._names()
        ready = {name: workflow for name, workflow in names.listed.items() if workflow.readiness.ready}
        declared = await asyncio.gather(*map(self._parameters, ready.values()))
        tools = [
            tool_of(name, workflow, parameters)
            for (name, workflow), parameters in zip(ready.items(), declared, strict=True)
        ]
        return ListToolsResult(tools=[*tools, *OWN_TOOLS])

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        """Returns what became of the run that a tool started or asked for."""
        arguments = params.arguments or {}
        try:
            if params.name in {RUN_STATUS, CANCEL_RUN}:
                return await self._own(params.name, arguments)
            workflow = (await self._names()).find(params.name)
            if workflow is None:
                raise MCPError(INVALID_PARAMS, f"There is no tool {params.name!r}.")
            given = split_arguments(arguments, await self._parameters(workflow))
            run = await self._started(workflow.workflow_id, given)
        except WorkflowApiError as error:
            return refused(error)
        try:
            return await self._followed(context, run)
        except WorkflowApiError as error:
            # The run goes on, and can be asked for by its id.
            return refused(error, run.id)

    async def read_resource(self, _: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Returns the bytes of an output."""
        place = place_of(params.uri)
        if place is None:
            raise MCPError(INVALID_PARAMS, "There is no such resource.")
        run_id, path = place
        try:
            run = await self._client.runs.get(run_id)
            content = await run.outputs.read(path)
        except WorkflowApiError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        try:
            return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=content.decode())])
        except UnicodeDecodeError:
            blob = base64.b64encode(content).decode()
            return ReadResourceResult(contents=[BlobResourceContents(uri=params.uri, blob=blob)])

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

    async def _own(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        run_id, seconds = arguments.get("run_id"), arguments.get("wait_seconds", 0)
        if not isinstance(run_id, str) or not run_id:
            raise MCPError(INVALID_PARAMS, "`run_id` must be the id of a run.")
        if type(seconds) is not int or not 0 <= seconds <= LONGEST_WAIT_SECONDS:
            raise MCPError(INVALID_PARAMS, f"`wait_seconds` must be from 0 to {LONGEST_WAIT_SECONDS}.")
        run = await self._client.runs.get(run_id)
        if name == CANCEL_RUN:
            await run.cancel(arguments.get("reason"))
            await run.refresh()
        elif seconds:
            with contextlib.suppress(TimedOutError):
                await run.wait(seconds, or_approval=True)
            await run.refresh()
        return await self._state(run)

    async def _started(self, workflow_id: str, given: dict[str, Any]) -> AsyncRun:
        """Returns the run that it starts, and cancels it if the call is cancelled meanwhile."""
        starting = asyncio.ensure_future(self._client.runs.start(workflow_id, **given))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # What was sent may have started a run, whose id only the answer tells.
            with _cancelling():
                await (await starting).cancel(_CANCELLED)
            raise

    async def _followed(self, context: _Context, run: AsyncRun) -> CallToolResult:
        """Returns where a run stands once it has ended, waits for a person, or has taken too long for one call."""
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._report(context, run), self._wait_seconds)
            return await self._state(await run.refresh())
        except asyncio.CancelledError:
            # The client has cancelled the call, and so the run.
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

    async def _state(self, run: AsyncRun) -> CallToolResult:
        outputs: list[records.Output] = []
        if run.is_finished and run.record.data_purged_at is None:
            # A key may start runs and read them, but not their outputs.
            with contextlib.suppress(ForbiddenError):
                outputs = await run.outputs.list()
        approvals = await run.approvals() if run.status == "waiting_for_approval" else []
        return result_of(run, outputs, approvals)


@contextlib.contextmanager
def _cancelling() -> Iterator[None]:
    """Gives a cancelled call time to cancel its run."""
    with anyio.move_on_after(_CANCEL_SECONDS, shield=True), contextlib.suppress(WorkflowApiError):
        yield


def _line(event: records.AnyEvent) -> str:
    message = event.data.get("message") or event.data.get("title")
    return " ".join(str(part) for part in (event.type, event.step, message) if part)
