"""Client of one MCP server over streamable HTTP: lists the server's tools and calls them, in one attempt of a step.

Answers of the server are hostile. They are bounded in bytes and time, large ones are parsed in a process that can be
killed, and no link or redirect in them is followed. The client offers no capabilities and answers no requests.
"""

import asyncio
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiohttp
from yarl import URL

from backend.common import json_text
from backend.common.json_text import UnstorableJsonError, parse_strict
from backend.isolation.sandbox.inside.plain_json import deeper_than
from backend.runtime.agents.base import ValueReader
from backend.services.webhooks.rules import Network
from backend.services.webhooks.sender import guarded_session
from contract.versions import RELEASE

PROTOCOL: Final = "2025-06-18"
MOST_ANSWER_BYTES: Final = 1024 * 1024
"""Most bytes of one answer of the server, other events in its stream included."""
CALL_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 2.0
_LEVELS: Final = 100
_MOST_PAGES: Final = 10
_SESSION: Final = re.compile(r"[!-~]{1,1024}")
_STREAM: Final = "text/event-stream"


class McpError(Exception):
    """A request to the server failed; the text is for the model and must not contain the secret."""


class McpClient:
    """A session with one server, opened by the first request and again after the server has ended it."""

    def __init__(self, url: str, token: str | None, private: Sequence[Network], read_value: ValueReader) -> None:
        self._url = URL(url)
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._private = private
        self._read_value = read_value
        self._http: aiohttp.ClientSession | None = None
        self._session: str | None = None
        self._open = False
        self._ids = itertools.count(1)
        self._opening = asyncio.Lock()

    async def tools(self, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Returns the server's descriptions of the named tools by name, without tools that it does not have.

        Raises:
            McpError: the server gave no list of tools.
        """
        wanted = set(names)
        found: dict[str, Mapping[str, Any]] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            listed = page.get("tools")
            for tool in listed if isinstance(listed, list) else ():
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str) and name in wanted:
                    found.setdefault(name, tool)
            following = page.get("nextCursor")
            if not isinstance(following, str) or found.keys() == wanted:
                break
            cursor = following
        return found

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Calls a tool, and returns its result as the server sent it.

        Raises:
            McpError: the server gave no result.
        """
        return await self._request("tools/call", {"name": name, "arguments": arguments})

    async def close(self) -> None:
        """Ends the session and every connection; does not wait for a server that does not answer."""
        http, self._http = self._http, None
        if http is None:
            return
        try:
            if self._session is not None:
                timeout = aiohttp.ClientTimeout(total=CLOSE_SECONDS)
                async with http.delete(self._url, headers=self._all_headers(), allow_redirects=False, timeout=timeout):
                    pass
        except (aiohttp.ClientError, OSError, ValueError):
            # The server ends the session by itself later.
            pass
        finally:
            await http.close()

    async def _request(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._initialize()
                return await self._exchange(method, parameters)
        except TimeoutError as error:
            raise McpError(f"the server did not answer within {CALL_SECONDS:g} seconds") from error
        except aiohttp.ClientConnectorDNSError as error:
            raise McpError("the name of the server could not be resolved") from error
        except aiohttp.ClientSSLError as error:
            raise McpError("the certificate of the server is not valid") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise McpError("the server could not be reached at an address that is allowed") from error

    async def _initialize(self) -> None:
        async with self._opening:
            if self._open:
                return
            self._session = None
            client = {"name": "workflow-api", "version": RELEASE}
            given = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client}
            await self._exchange("initialize", given)
            self._open = True
            await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, None)

    async def _exchange(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        answer = await self._post(message, number)
        if not _is_answer(answer, number):
            raise McpError(f"the server sent something other than an answer to {method}")
        match answer:
            case {"result": dict(result)}:
                return result
            case {"error": {"message": str(reason)}}:
                raise McpError(f"the server refused {method}: {reason[:2_000]}")
        raise McpError(f"the server sent something other than a result of {method}")

    async def _post(self, message: Mapping[str, Any], number: int | None) -> Any:
        """Sends a message, and returns the answer with its number; None for a message without a number."""
        if self._http is None:
            # Unencrypted requests go to the private networks of the settings alone.
            self._http = guarded_session(self._private, encrypted=self._url.scheme == "https")
        headers = self._all_headers() | {"content-type": "application/json", "accept": f"application/json, {_STREAM}"}
        body = json_text.write(message).encode()
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        async with self._http.post(
            self._url, data=body, headers=headers, allow_redirects=False, timeout=timeout
        ) as response:
            if response.status == 404 and self._session is not None:
                self._open = False
                raise McpError("the server has ended the session; another call begins a new one")
            if not 200 <= response.status < 300:
                raise McpError(f"the server answered with HTTP status {response.status}")
            session = response.headers.get("mcp-session-id")
            if session is not None and self._session is None and _SESSION.fullmatch(session):
                self._session = session
            if number is None:
                return None
            if response.content_type == _STREAM:
                return await self._answer_from_stream(response.content, number)
            return await self._parse(await _read_bounded(response.content))

    def _all_headers(self) -> dict[str, str]:
        headers = {"user-agent": f"workflow-api/{RELEASE}", **self._headers}
        if self._open:
            headers["mcp-protocol-version"] = PROTOCOL
        return headers if self._session is None else {**headers, "mcp-session-id": self._session}

    async def _answer_from_stream(self, content: aiohttp.StreamReader, number: int) -> Any:
        """Returns the answer with a number from a stream of events, and ignores other events."""
        events = _EventParser()
        async for part in content.iter_chunked(64 * 1024):
            for data in events.add(part):
                answer = await self._parse(data)
                if _is_answer(answer, number):
                    return answer
        raise McpError("the server ended its stream before it answered")

    async def _parse(self, payload: bytes) -> Any:
        if deeper_than(payload, _LEVELS):
            raise McpError(f"the server sent JSON that is nested more than {_LEVELS} levels deep")
        try:
            if len(payload) <= json_text.LARGEST_SHARED:
                return parse_strict(payload)
            text = await self._read_value(payload.decode())
        except (UnstorableJsonError, UnicodeDecodeError) as error:
            raise McpError("the server sent something other than JSON") from error
        return await asyncio.to_thread(json_text.parse, str(text))


def _is_answer(message: object, number: int) -> bool:
    """Returns whether a message answers the request with this number; a boolean equals a number in Python."""
    return (
        isinstance(message, dict)
        and not isinstance(message.get("id"), bool)
        and message.get("id") == number
        and "method" not in message
    )


class _EventParser:
    """Parser of a stream of events (`text/event-stream`) of bounded length."""

    def __init__(self) -> None:
        self._bytes = 0
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def add(self, part: bytes) -> list[bytes]:
        """Adds a part of the stream, and returns the data of the events that it completes.

        Raises:
            McpError: the stream is too long.
        """
        self._bytes += len(part)
        if self._bytes > MOST_ANSWER_BYTES:
            raise _too_long()
        self._line.append(part)
        if b"\n" not in part:
            # Joined once, however small the parts of a long line are.
            return []
        *lines, rest = b"".join(self._line).split(b"\n")
        self._line = [rest]
        found = []
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return [data for data in found if data]


async def _read_bounded(content: aiohttp.StreamReader) -> bytes:
    parts = bytearray()
    async for part in content.iter_chunked(64 * 1024):
        parts += part
        if len(parts) > MOST_ANSWER_BYTES:
            raise _too_long()
    return bytes(parts)


def _too_long() -> McpError:
    return McpError(f"the server sent more than {MOST_ANSWER_BYTES:,} bytes in one answer")
