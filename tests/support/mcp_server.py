"""An MCP server over streamable HTTP on this machine, made with the SDK that others make theirs with."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.poll import until


class TestMcpServer:
    """A server with the tools `add`, `echo_token`, `broken`, `endless`; `requests` has method and headers of each."""

    __test__ = False

    def __init__(self, *, json_response: bool = False) -> None:
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        app = _tools(self).streamable_http_app(json_response=json_response)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._server = uvicorn.Server(uvicorn.Config(self._recording(app), log_level="error"))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve([self._socket])), daemon=True)
        self._thread.start()
        until(lambda: self._server.started, "the MCP server")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp"

    @property
    def token(self) -> str | None:
        """The authorization of the last request."""
        return self.requests[-1][1].get("authorization")

    def close(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()

    def _recording(self, app: ASGIApp) -> ASGIApp:
        async def record(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.requests.append((scope["method"], headers))
            await app(scope, receive, send)

        return record


def _tools(of: TestMcpServer) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("sums")

    @server.tool(description="Adds two numbers.")
    def add(one: int, other: int) -> dict[str, int]:
        return {"sum": one + other}

    @server.tool()
    def echo_token() -> str:
        return f"you sent {of.token}"

    @server.tool()
    def broken() -> str:
        raise ToolError("no luck")

    @server.tool()
    def endless() -> str:
        return "x" * 2_000_000

    return server
