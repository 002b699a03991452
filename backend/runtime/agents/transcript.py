"""Transcript of an attempt: the messages between it and its model as text, which grows as they arrive.

Lines of the service begin with `--- `; those of messages with two blanks, so that no message passes for another.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from backend.common import json_text
from backend.common.secret_scrubbing import ScrubbedStream, Scrubber
from backend.isolation.sandbox.process import BoundedLog
from backend.runtime.agents.structured_answers import ANSWER_TOOL, indented

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

_ANSWER: Final = "answer"


class Transcript:
    """Text of at most `limit` bytes, whose middle is cut; `on_text` gets all of it as it comes."""

    def __init__(self, limit: int, on_text: Callable[[bytes], None]) -> None:
        self._log = BoundedLog(limit)
        self._on_text = on_text

    def add(self, text: bytes) -> None:
        """Appends text."""
        if text:
            self._log.add(text)
            self._on_text(text)

    def content(self) -> bytes:
        """Returns the text, with a line where it is cut."""
        return self._log.text()


class TranscriptWriter:
    """Writes the messages of one conversation, without the secrets that the scrubber finds."""

    def __init__(self, transcript: Transcript, scrubber: Scrubber) -> None:
        self._transcript = transcript
        self._scrubbed = ScrubbedStream(scrubber)
        self._taken = 0
        self._instructions: str | None = None
        self._streamed = False
        self._in_line = False

    def take(self, messages: "Sequence[ModelMessage]", *, final: bool = False) -> None:
        """Writes the messages that are complete and not yet written; with `final` also an interrupted one."""
        from pydantic_ai.messages import ModelResponse

        while self._taken < len(messages):
            message = messages[self._taken]
            if isinstance(message, ModelResponse):
                if message.finish_reason is None and self._taken == len(messages) - 1 and not final:
                    return
                self._response(message)
            else:
                self._request(message)
            self._taken += 1

    def finish(self, messages: "Sequence[ModelMessage]") -> None:
        """Writes what is left of the conversation, once it has ended."""
        self.take(messages, final=True)
        self._end_line()
        self._transcript.add(self._scrubbed.finish())

    def stream(self, messages: "Sequence[ModelMessage]", event: Any) -> None:
        """Writes a piece of an answer that arrives; `messages` are those before the answer."""
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, ThinkingPart, ToolCallPart

        if isinstance(event, PartStartEvent):
            self.take(messages)
            self._streamed = True
            match event.part:
                case TextPart(content=text):
                    self._begin(_ANSWER, text)
                case ThinkingPart(content=text):
                    self._begin("thinking", text)
                case ToolCallPart(tool_name=name, args=given):
                    self._begin(_heading_of_call(name), _as_text(given))
        elif isinstance(event, PartDeltaEvent):
            delta = event.delta
            self._continue(_as_text(getattr(delta, "content_delta", None) or getattr(delta, "args_delta", None)))

    def _request(self, request: "ModelRequest") -> None:
        from pydantic_ai.messages import RetryFeedbackPart, SystemPromptPart, ToolReturnPart, UserPromptPart

        if request.instructions is not None and request.instructions != self._instructions:
            self._instructions = request.instructions
            self._block("instructions", request.instructions)
        for part in request.parts:
            match part:
                case SystemPromptPart(content=text):
                    self._block("system", text)
                case UserPromptPart(content=content):
                    self._block("user", _as_text(content))
                case ToolReturnPart(tool_name=name, content=content) if name == ANSWER_TOOL:
                    if part.outcome != "success":
                        self._block("correction", _as_text(content))
                case ToolReturnPart(tool_name=name, content=content):
                    self._block(f"result of {name}", _as_text(content))
                case RetryFeedbackPart(content=content):
                    self._block("correction", _as_text(content))

    def _response(self, response: "ModelResponse") -> None:
        from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

        if not self._streamed:
            for part in response.parts:
                match part:
                    case TextPart(content=text):
                        self._block(_ANSWER, text)
                    case ThinkingPart(content=text):
                        self._block("thinking", text)
                    case ToolCallPart(tool_name=name, args=given):
                        self._block(_heading_of_call(name), _as_text(given))
        self._streamed = False
        usage = response.usage
        ended = response.finish_reason or "interrupted"
        self._line(f"--- {usage.input_tokens} tokens in, {usage.output_tokens} out, {ended}")

    def _block(self, heading: str, text: str) -> None:
        if text:
            self._line(f"--- {heading}")
            self._write(indented(text))

    def _begin(self, heading: str, text: str) -> None:
        self._line(f"--- {heading}")
        self._write("  ")
        self._in_line = True
        self._continue(text)

    def _continue(self, text: str) -> None:
        self._write(text.replace("\n", "\n  "))

    def _line(self, text: str) -> None:
        self._end_line()
        # The name of a tool is the model's word.
        self._write(" ".join(text.split("\n")) + "\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._in_line = False
            self._write("\n")

    def _write(self, text: str) -> None:
        self._transcript.add(self._scrubbed.add(text.encode(errors="replace")))


def _heading_of_call(name: str) -> str:
    return _ANSWER if name == ANSWER_TOOL else f"call of {name}"


def _as_text(content: Any) -> str:
    """Returns content of a message as text; of attached bytes name, type, size and digest alone."""
    from pydantic_ai.messages import BinaryContent

    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, BinaryContent):
        digest = hashlib.sha256(content.data).hexdigest()
        return f"[{content.identifier}, {content.media_type}, {len(content.data)} bytes, sha256 {digest}]"
    if isinstance(content, list | tuple) and not all(isinstance(one, dict) for one in content):
        return "\n".join(_as_text(one) for one in content)
    try:
        return json_text.write(content)
    except (TypeError, ValueError, RecursionError):
        return f"[{type(content).__name__}]"
