"""Workflows as tools of the Model Context Protocol, called with that protocol's own client."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams

from tests.clients.tools import connected, pages, pieces
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.ports import answers, reserved_port
from workflow_api_client import AsyncClient, __version__
from workflow_api_client.mcp.command import main
from workflow_api_client.mcp.server import WAIT_SECONDS, WorkflowTools
from workflow_api_client.testing import FakeApi, approval, complete, fail, progress
from workflow_api_client.testing.calls import EXTERNAL_ID, KEY
from workflow_api_client.testing.fake_api import FakeTransport

SOURCE = Path(__file__).parents[2] / "clients" / "python"
DECLARED: list[dict[str, Any]] = [
    {"name": "pages", "type": "integer", "required": True, "minimum": 1, "description": "How many."},
    {"name": "tone", "type": "string", "enum": ["dry", "warm"], "default": "dry"},
]


async def called(api: FakeApi, name: str, arguments: dict[str, Any] | None = None) -> Any:
    async with connected(api) as tools:
        return await tools.call_tool(name, arguments or {})


def test_every_workflow_is_a_tool_with_the_declared_parameters(api: FakeApi) -> None:
    api.workflow("Contract digest", parameters=DECLARED, description="Digests a contract.")
    api.workflow("Cancel run")

    async def listed() -> dict[str, Any]:
        async with connected(api) as tools:
            return {tool.name: tool for tool in (await tools.list_tools()).tools}

    tools = asyncio.run(listed())
    assert len(tools) == 6
    [suffixed] = (name for name, tool in tools.items() if tool.title == "Cancel run")
    assert suffixed.startswith("cancel_run_")
    assert {"contract_digest", "run_status", "cancel_run", "list_runs", "read_output"} < tools.keys()
    digest = tools["contract_digest"]
    assert digest.title == "Contract digest"
    assert digest.description.startswith("Digests a contract.")
    assert digest.input_schema["required"] == ["pages"]
    assert digest.input_schema["properties"]["pages"] == {"type": "integer", "minimum": 1, "description": "How many."}
    assert digest.input_schema["properties"]["tone"] == {"type": "string", "enum": ["dry", "warm"], "default": "dry"}
    assert digest.input_schema["properties"]["input_text"]["type"] == "string"


def test_no_name_of_a_tool_passes_to_another_workflow(api: FakeApi) -> None:
    first = api.workflow("Contract digest", script=[complete("first")])
    second = api.workflow("Contract: digest!", script=[complete("second")])
    names = {workflow_id: f"contract_digest_{workflow_id[-8:]}" for workflow_id in (first, second)}

    async def work() -> None:
        async with connected(api) as tools:
            assert set(names.values()) < {tool.name for tool in (await tools.list_tools()).tools}
            with pytest.raises(MCPError):
                await tools.call_tool("contract_digest", {})
            api.remove_workflow(first)
            assert "contract_digest" in {tool.name for tool in (await tools.list_tools()).tools}
            for name in ("contract_digest", names[second]):
                assert (await tools.call_tool(name, {})).structured_content["result"] == "second"
            with pytest.raises(MCPError):
                await tools.call_tool(names[first], {})

    asyncio.run(work())


def test_parameters_are_read_once_for_each_version(api: FakeApi) -> None:
    for number in range(3):
        api.workflow(f"Digest {number}", parameters=DECLARED)

    async def work() -> list[int]:
        calls = []
        async with connected(api) as tools:
            for _ in range(3):
                before = len(api.requests)
                await tools.list_tools()
                calls.append(len(api.requests) - before)
        return calls

    assert asyncio.run(work()) == [1 + 3, 1, 1]


def test_a_call_gives_progress_the_result_and_links_to_outputs(api: FakeApi) -> None:
    script = [progress("page 1"), complete({"pages": 1}, outputs={"work/a b.txt": "hello", "work/b.bin": b"\xff"})]
    api.workflow("Digest", parameters=DECLARED, script=script)

    async def work() -> tuple[list[str | None], Any, Any, Any]:
        seen: list[str | None] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message)

        async with connected(api) as tools:
            arguments = {"pages": 3, "input_text": "hi"}
            result = await tools.call_tool("digest", arguments, progress_callback=note)
            links = {link.name: link.uri for link in result.content if link.type == "resource_link"}
            text = await tools.read_resource(links["work/a b.txt"])
            return seen, result, text.contents[0], (await tools.read_resource(links["work/b.bin"])).contents[0]

    seen, result, text, blob = asyncio.run(work())
    assert "step.progress work page 1" in seen
    [run] = api.runs.values()
    assert run.given == {"parameters": {"pages": 3}, "input_text": "hi"}
    assert not result.is_error
    assert result.structured_content["result"] == {"pages": 1}
    assert [each["path"] for each in result.structured_content["outputs"]] == [
        "result.json",
        "work/a b.txt",
        "work/b.bin",
    ]
    assert (text.text, blob.blob) == ("hello", "/w==")


def test_a_failure_and_a_refusal_are_errors_of_the_tool(api: FakeApi) -> None:
    api.workflow("Digest", parameters=DECLARED, script=[fail("the sky fell")])
    failed = asyncio.run(called(api, "digest", {"pages": 1}))
    assert failed.is_error
    assert failed.structured_content["error"] == {"code": "node_failed", "message": "the sky fell"}
    refused = asyncio.run(called(api, "digest"))
    assert refused.is_error
    assert refused.structured_content["code"] == "invalid_parameters"
    assert refused.structured_content["details"][0]["name"] == "pages"


@pytest.mark.parametrize(
    ("route", "known"),
    [("/outputs", {"status": "completed", "result": {"pages": 1}}), ("/events", {"code": "forbidden"})],
)
def test_a_run_that_was_started_is_named_whatever_else_the_key_may_not_do(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, route: str, known: dict[str, Any]
) -> None:
    api.workflow("Digest", script=[complete({"pages": 1})])
    handle = api.handle

    def without_scope(request: httpx.Request, content: bytes) -> httpx.Response:
        if request.url.path.endswith(route):
            api.refuse("forbidden")
        return handle(request, content)

    monkeypatch.setattr(api, "handle", without_scope)
    printed = asyncio.run(called(api, "digest")).structured_content
    [run_id] = api.runs
    assert printed == {**printed, "run_id": run_id, **known}


def test_an_approval_is_named_and_the_run_can_be_asked_for_later(api: FakeApi) -> None:
    api.workflow("Digest", script=[approval("Plausible?", decided_after=500), complete({"pages": 1})])

    async def work() -> tuple[Any, Any, Any]:
        async with connected(api) as tools:
            parked = await tools.call_tool("digest", {})
            run_id = parked.structured_content["run_id"]
            still = await tools.call_tool("run_status", {"run_id": run_id})
            api.clock.sleep(1000)
            return parked, still, await tools.call_tool("run_status", {"run_id": run_id, "wait_seconds": 60})

    parked, still, done = asyncio.run(work())
    for result in (parked, still):
        assert not result.is_error
        assert result.structured_content["status"] == "waiting_for_approval"
        assert result.structured_content["waits_for"] == [{"title": "Plausible?", "instructions": None}]
        assert "waits for a person to decide: Plausible?" in result.content[0].text
    assert done.structured_content["result"] == {"pages": 1}


def test_a_run_is_cancelled_by_tool(api: FakeApi) -> None:
    api.workflow("Digest", script=[approval("?", decision=None)])

    async def work() -> Any:
        async with connected(api) as tools:
            run_id = (await tools.call_tool("digest", {})).structured_content["run_id"]
            return await tools.call_tool("cancel_run", {"run_id": run_id, "reason": "enough"})

    cancelled = asyncio.run(work())
    assert cancelled.structured_content["status"] == "cancelled"
    assert not cancelled.is_error


def test_asking_for_a_run_that_ended_badly_or_cancelling_one_that_has_ended_is_no_error(api: FakeApi) -> None:
    api.workflow("Digest", script=[fail("the sky fell")])

    async def work() -> list[Any]:
        async with connected(api) as connection:
            tools: Any = connection
            failed = await tools.call_tool("digest", {})
            assert failed.is_error
            run_id = failed.structured_content["run_id"]
            own = [await tools.call_tool(name, {"run_id": run_id}) for name in ("run_status", "cancel_run")]
            unknown = [await tools.call_tool(name, {"run_id": "run_0"}) for name in ("run_status", "cancel_run")]
            assert [each.is_error for each in unknown] == [True, True]
            return own

    for answer in asyncio.run(work()):
        assert not answer.is_error
        assert answer.structured_content["status"] == "failed"
        assert answer.structured_content["error"]["message"] == "the sky fell"


def test_a_call_answers_before_a_host_gives_up_with_the_run_and_what_to_call_next(api: FakeApi) -> None:
    api.workflow("Digest", script=[complete({"pages": 1}, after=3600)])

    async def work() -> tuple[Any, Any]:
        async with api.async_client() as client, Client(WorkflowTools(client, wait_seconds=0).server()) as connection:
            tools: Any = connection
            begun = await tools.call_tool("digest", {})
            api.clock.sleep(4000)
            following = begun.structured_content["next"]
            return begun, await tools.call_tool(following["tool"], following["arguments"])

    begun, ended = asyncio.run(work())
    [run_id] = api.runs
    assert not begun.is_error
    assert begun.structured_content["next"]["arguments"]["run_id"] == run_id
    assert run_id in begun.content[0].text
    assert "run_status" in begun.content[0].text
    assert ended.structured_content["result"] == {"pages": 1}
    assert WAIT_SECONDS == 45


def test_the_version_and_resources_are_declared(api: FakeApi) -> None:
    async def work() -> Any:
        async with connected(api) as tools:
            assert (await tools.list_resources()).resources == []
            [template] = (await tools.list_resource_templates()).resource_templates
            assert template.uri_template == "workflow-output://{run_id}/{+path}"
            return tools.server_info, tools.server_capabilities

    info, capabilities = asyncio.run(work())
    assert (info.name, info.version) == ("workflow-api", __version__)
    assert capabilities.resources is not None
    assert capabilities.tools is not None


def test_a_call_cancelled_while_its_run_is_started_cancels_the_run(api: FakeApi) -> None:
    api.workflow("Digest", script=[approval("?", decision=None)])

    class SlowStart(FakeTransport):
        """Holds the answer to a start back."""

        received = asyncio.Event()
        answered = asyncio.Event()

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.url.path.endswith("/runs"):
                self.received.set()
                await self.answered.wait()
            return answer

    async def work() -> None:
        async with AsyncClient("http://test", key=KEY, external_id=EXTERNAL_ID, transport=SlowStart(api)) as client:
            called_tool = CallToolRequestParams(name="digest")
            call = asyncio.create_task(WorkflowTools(client).call_tool(cast("Any", None), called_tool))
            await SlowStart.received.wait()
            call.cancel()
            await asyncio.sleep(0)
            SlowStart.answered.set()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(work())
    assert api.requests[-1].path.endswith("/cancel")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("no_such_tool", {}),
        ("run_status", {}),
        ("run_status", {"run_id": 7}),
        ("run_status", {"run_id": "run_1", "wait_seconds": 601}),
        ("read_output", {"run_id": "run_1", "offset": -1}),
        ("read_output", {"run_id": "run_1", "path": 7}),
        ("list_runs", {"limit": 51}),
        ("list_runs", {"created_before": "yesterday"}),
        ("list_runs", {"cursor": 7}),
    ],
)
def test_a_call_that_does_not_fit_is_refused(api: FakeApi, name: str, arguments: dict[str, Any]) -> None:
    async def work() -> None:
        async with connected(api) as tools:
            with pytest.raises(MCPError):
                await tools.call_tool(name, arguments)

    asyncio.run(work())


def test_no_other_resource_is_served(api: FakeApi) -> None:
    async def work() -> None:
        async with connected(api) as tools:
            for uri in ("file:///etc/passwd", "workflow-output://", "workflow-output://run_unknown/a.txt"):
                with pytest.raises(MCPError):
                    await tools.read_resource(uri)

    asyncio.run(work())


@pytest.mark.parametrize("address", ["0.0.0.0:8900", "[::]:8900", "127.0.0.2:1", "127.0.0.1", "example.org:1"])
def test_over_http_it_listens_on_this_machine_alone(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--http", address])
    assert "--http: must be" in capsys.readouterr().err


def environment(caller: Caller) -> dict[str, str]:
    host, port = caller.address
    return {
        "PYTHONPATH": str(SOURCE),
        "WORKFLOW_API_URL": f"http://{host}:{port}",
        "WORKFLOW_API_KEY": caller.key,
        "WORKFLOW_API_EXTERNAL_ID": caller.external_id,
    }


async def exercised(tools: Client, caller: Caller) -> None:
    """Runs a workflow of the real service, and cancels a call."""
    names = [tool.name for tool in (await tools.list_tools()).tools]
    assert {"echo", "sleep", "park"} <= set(names)
    echoed = await tools.call_tool("echo", {"input_text": "hello"})
    assert echoed.structured_content["result"]["text"] == "hello"
    long = await tools.call_tool("long_answer", {"size": 300_000})
    read = await pieces(tools, long.structured_content["result_rest"]["arguments"])
    assert (len(read), "".join(read)) == (8, f'"{"x" * 299_998}"')
    runs = [[long.structured_content["run_id"]], [echoed.structured_content["run_id"]]]
    assert (await pages(tools, {"limit": 1, "status": "completed"}))[:2] == runs
    parked = await tools.call_tool("park", {})
    assert parked.structured_content["waits_for"][0]["title"] == "May it go on?"
    begun = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    call = asyncio.create_task(tools.call_tool("sleep", {"seconds": 120}, progress_callback=note))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    def cancelled() -> bool:
        items = caller.get("/runs", status="cancelled").json()["items"]
        return any(item["workflow_name"] == "Sleep" for item in items)

    await asyncio.to_thread(until, cancelled, "the cancel of a call to cancel its run")


@pytest.mark.long
def test_it_serves_the_real_workflows_over_stdio(caller: Caller) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "workflow_api_client.mcp.command"], env=environment(caller)
    )

    async def work() -> None:
        async with Client(stdio_client(command)) as tools:
            await exercised(tools, caller)

    asyncio.run(work())


@pytest.mark.long
@pytest.mark.long
def test_it_serves_the_real_workflows_over_streamable_http(caller: Caller) -> None:
    async def work(port: int) -> None:
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workflow_api_client.mcp.command", "--http", f"127.0.0.1:{port}"),
            env=environment(caller),
        )
        try:
            await asyncio.to_thread(until, lambda: answers(port), "the server to listen")
            async with Client(f"http://127.0.0.1:{port}/mcp") as tools:
                await exercised(tools, caller)
        finally:
            server.terminate()
            await server.wait()

    with reserved_port() as port:
        asyncio.run(work(port))
