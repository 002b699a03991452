"""A model's provider that speaks the OpenAI wire protocol: chat completions and responses, whole and streamed."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INPUT_TOKENS = 120
OUTPUT_TOKENS = 45
PIECE = 7
"""Characters of each event of a streamed answer."""


@dataclass(frozen=True)
class ToolCall:
    """Tool call that the model asks for."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Reply:
    """Answer of the provider to one request.

    Attributes:
        text: The answer; beside it, or instead, the tools of `calls` are called.
        status: Of an error, with `message` as its text and `code` as its code.
        body: Bytes to send instead of a well-formed answer.
        delay: Seconds before the first byte; ended early when the server stops.
        pause: Seconds between the events of a streamed answer.
        cut: Close the connection in the middle of the answer.
        finish: Why the answer ends: `stop` or `length`.
        tokens: Of input and output, and those of the input that were cached.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    message: str = ""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0
    pause: float = 0
    cut: bool = False
    finish: str = "stop"
    tokens: tuple[int, int, int] = (INPUT_TOKENS, OUTPUT_TOKENS, 0)


@dataclass(frozen=True)
class Request:
    """A request as it came; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


class OpenAIServer:
    """Server that answers each request with the next reply, and then always with the last one."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.stopping = threading.Event()
        self._replies: list[Reply] = [Reply("Hello.")]
        self._lock = threading.Lock()
        self._server = _Listener(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def will(self, *replies: Reply) -> None:
        """Sets the replies to the next requests."""
        self._replies = list(replies)

    def close(self) -> None:
        """Stops the server and ends requests that wait."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider: OpenAIServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider


class _Handler(BaseHTTPRequestHandler):
    server: "_Listener"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        request = Request(
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(self.rfile.read(length)),
        )
        reply = self.server.provider.take(request)
        if self.server.provider.stopping.wait(reply.delay):
            return
        try:
            self._answer(request, reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, request: Request, reply: Reply) -> None:
        if reply.status != 200:
            error = {"message": reply.message, "type": "error", "param": None, "code": reply.code}
            self._whole(reply, reply.body if reply.body is not None else json.dumps({"error": error}).encode())
        elif reply.body is not None:
            self._whole(reply, reply.body)
        elif request.body.get("stream"):
            self._streamed(reply, _events(request, reply))
        else:
            self._whole(reply, json.dumps(_answer(request, reply)).encode())

    def _whole(self, reply: Reply, body: bytes) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if reply.cut else body)
        if reply.cut:
            self._hang_up()

    def _streamed(self, reply: Reply, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if reply.cut and number == 4:
                self._hang_up()
                return
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
            if self.server.provider.stopping.wait(reply.pause):
                return
        self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return


def _answer(request: Request, reply: Reply) -> dict[str, Any]:
    return _chat(request, reply) if request.path.endswith("/chat/completions") else _response(request, reply)


def _events(request: Request, reply: Reply) -> Iterator[bytes]:
    if request.path.endswith("/chat/completions"):
        for chunk in _chat_chunks(request, reply):
            yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"
    else:
        for number, event in enumerate(_response_events(request, reply)):
            data = json.dumps(event | {"sequence_number": number}).encode()
            yield b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n"


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _chat_usage(reply: Reply) -> dict[str, Any]:
    given, output, cached = reply.tokens
    return {
        "prompt_tokens": given,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": output,
        "total_tokens": given + output,
    }


def _chat_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(reply.calls)
    ]


def _chat(request: Request, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = _chat_calls(reply)
    finish = "tool_calls" if reply.calls else reply.finish
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": _chat_usage(reply),
    }


def _chat_chunks(request: Request, reply: Reply) -> Iterator[dict[str, Any]]:
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": request.body["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    for number, call in enumerate(_chat_calls(reply)):
        arguments = call["function"].pop("arguments")
        yield chunk({"tool_calls": [{"index": number, **call, "function": call["function"] | {"arguments": ""}}]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else reply.finish)
    yield frame | {"choices": [], "usage": _chat_usage(reply)}


def _items(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.text:
        content = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": [content]}
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for number, call in enumerate(reply.calls)
    ]
    return items


def _response(request: Request, reply: Reply) -> dict[str, Any]:
    incomplete = reply.finish == "length"
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": request.body["model"],
        "status": "incomplete" if incomplete else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if incomplete else None,
        "output": _items(reply),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": reply.tokens[0],
            "input_tokens_details": {"cached_tokens": reply.tokens[2], "cache_write_tokens": 0},
            "output_tokens": reply.tokens[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(reply.tokens[:2]),
        },
    }


def _response_events(request: Request, reply: Reply) -> Iterator[dict[str, Any]]:
    whole = _response(request, reply)
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            yield {"type": "response.output_item.added", "output_index": index, "item": item | {"content": []}}
            part = place | {"content_index": 0}
            empty = item["content"][0] | {"text": ""}
            yield {"type": "response.content_part.added", **part, "part": empty}
            for piece in _pieces(reply.text):
                yield {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **part, "text": reply.text, "logprobs": []}
            yield {"type": "response.content_part.done", **part, "part": item["content"][0]}
        else:
            yield {"type": "response.output_item.added", "output_index": index, "item": item | {"arguments": ""}}
            for piece in _pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    ending = "response.incomplete" if reply.finish == "length" else "response.completed"
    yield {"type": ending, "response": whole}
