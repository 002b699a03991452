"""What a hostile or broken MCP server can send, and what its client makes of it."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from backend.runtime.agents.mcp_client import MOST_ANSWER_BYTES, McpClient, McpError
from backend.services.webhooks.rules import networks
from tests.support.answers import value_in_process

LOOPBACK = networks(["127.0.0.0/8"])


class ScriptedServer:
    """A server that answers `initialize` properly, and every other request with the script's status, type and body."""

    def __init__(self) -> None:
        self.status, self.type, self.body = 200, "application/json", b"{}"
        self.headers: Mapping[str, str] = {}
        self.methods: list[str] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
                scripted.methods.append(sent["method"])
                if sent["method"] == "initialize":
                    body = json.dumps({"jsonrpc": "2.0", "id": sent["id"], "result": {}}).encode()
                    self.answer(200, "application/json", body, {"mcp-session-id": "one"})
                elif "id" not in sent:
                    self.answer(202, "application/json", b"", {})
                else:
                    body = scripted.body.replace(b"ID", str(sent["id"]).encode())
                    self.answer(scripted.status, scripted.type, body, scripted.headers)

            def do_DELETE(self) -> None:
                scripted.methods.append("DELETE")
                self.answer(200, "application/json", b"", {})

            def answer(self, status: int, kind: str, body: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


def called(server: ScriptedServer, times: int = 1) -> Any:
    async def call() -> Any:
        client = McpClient(server.url, "token", LOOPBACK, value_in_process)
        try:
            for _ in range(times - 1):
                with pytest.raises(McpError):
                    await client.call("search", {})
            return await client.call("search", {})
        finally:
            await client.close()

    return asyncio.run(call())


def event(data: bytes) -> bytes:
    return b"event: message\r\ndata: " + data + b"\r\n\r\n"


def test_an_answer_is_found_among_whatever_else_a_stream_has(server: ScriptedServer) -> None:
    server.type = "text/event-stream"
    server.body = (
        b": a comment\n\n"
        + event(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}')
        + event(b'{"jsonrpc":"2.0","id":ID,"method":"sampling/createMessage","params":{}}')
        + event(b'{"jsonrpc":"2.0","id":77,"result":{"content":"of another"}}')
        + event(b'{"jsonrpc":"2.0","id":ID,\ndata: "result":{"content":[]}}')
        + event(b"not json")
    )
    assert called(server) == {"content": []}
    assert server.methods == ["initialize", "notifications/initialized", "tools/call", "DELETE"]


def test_a_large_answer_is_read_where_it_can_be_killed(server: ScriptedServer) -> None:
    server.body = b'{"id":ID,"result":{"content":"' + b"x" * 100_000 + b'"}}'
    assert len(called(server)["content"]) == 100_000


@pytest.mark.parametrize(
    ("status", "kind", "body", "reason"),
    [
        (200, "application/json", b"[" * 100_000, "nested more than 100 levels"),
        (200, "application/json", b'{"id":ID' + b" " * MOST_ANSWER_BYTES + b"}", "more than 1,048,576 bytes"),
        (200, "text/event-stream", b":" + b"x" * (MOST_ANSWER_BYTES + 1), "more than 1,048,576 bytes"),
        (200, "text/event-stream", b"data: {}\n\n", "ended its stream"),
        (200, "text/html", b"<script>", "other than JSON"),
        (200, "application/json", b'{"id":ID,"result":"\\u0000"}', "other than JSON"),
        (200, "application/json", b'{"id":ID,"result":NaN}', "other than JSON"),
        (200, "application/json", b'{"id":ID,"result":[]}', "other than a result of tools/call"),
        (200, "application/json", b'{"id":ID,"error":{"code":1,"message":"no"}}', "refused tools/call: no"),
        (200, "application/json", b'{"id":77,"result":{}}', "other than an answer to tools/call"),
        (200, "application/json", b'{"id":"ID","result":{}}', "other than an answer to tools/call"),
        (200, "application/json", b'{"id":true,"result":{}}', "other than an answer to tools/call"),
        (200, "application/json", b'{"id":ID,"method":"ping","result":{}}', "other than an answer to tools/call"),
        (302, "application/json", b"", "HTTP status 302"),
        (404, "application/json", b"", "has ended the session"),
        (500, "application/json", b"{}", "HTTP status 500"),
    ],
)
def test_a_hostile_answer_is_a_failure_of_the_call(
    server: ScriptedServer, status: int, kind: str, body: bytes, reason: str
) -> None:
    server.status, server.type, server.body = status, kind, body
    server.headers = {"location": "http://127.0.0.1:9/"} if status == 302 else {}
    with pytest.raises(McpError, match=reason):
        called(server)


def test_an_ended_session_is_opened_again_by_the_next_call(server: ScriptedServer) -> None:
    server.status = 404
    with pytest.raises(McpError, match="has ended the session"):
        called(server, times=2)
    assert server.methods.count("initialize") == 2


def test_an_unencrypted_server_must_be_in_a_private_network_of_the_settings(server: ScriptedServer) -> None:
    async def call() -> None:
        client = McpClient(server.url, "token", (), value_in_process)
        try:
            await client.call("search", {})
        finally:
            await client.close()

    with pytest.raises(McpError, match="address that is allowed"):
        asyncio.run(call())
    assert server.methods == []
