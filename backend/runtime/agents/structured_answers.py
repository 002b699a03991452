"""Structured answers of a model: the form in which its provider is asked for one, and answers that did not fit."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from backend.common.json_text import JsonMapping

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

ANSWER_TOOL: Final = "final_result"
"""Tool whose arguments are the answer, by the name that the library gives it."""


class Misfit(NamedTuple):
    """An answer that did not fit: the number of answers until it, its text, and the reason, None if not told yet."""

    answers: int
    text: str
    reason: str | None


def answer_type(agent: JsonMapping) -> Any:
    """Returns the type of the answer as the library has it: text, or with `output_schema` an object."""
    from pydantic_ai import NativeOutput, PromptedOutput, StructuredDict, ToolOutput

    schema = agent.get("output_schema")
    if schema is None:
        return str
    answer = StructuredDict(dict(schema), name="answer")
    match agent.get("structured"):
        case "tool":
            return ToolOutput(answer)
        case "json_schema":
            return NativeOutput(answer)
        case "prompt":
            return PromptedOutput(answer)
    # The library does what the profile of the model says.
    return answer


def misfits(messages: "Sequence[ModelMessage]", *, gave_up: bool) -> Iterator[Misfit]:
    """Yields the answers that the model was asked to correct; with `gave_up` the last answer is one of them."""
    from pydantic_ai.messages import ModelRequest, ModelResponse

    answers = 0
    last: ModelResponse | None = None
    for message in messages:
        if isinstance(message, ModelResponse) and message.finish_reason is not None:
            answers += 1
            last = message
        elif isinstance(message, ModelRequest) and last is not None:
            reason = _reason(message)
            if reason is not None:
                yield Misfit(answers, _text(last), reason)
            if reason is not None or message.state != "interrupted":
                last = None
    if gave_up and last is not None:
        yield Misfit(answers, _text(last), None)


def _reason(request: "ModelRequest") -> str | None:
    """Returns the reason for which a request asks for another answer; None if it does not."""
    from pydantic_ai.messages import RetryFeedbackPart, ToolReturnPart

    for part in request.parts:
        if isinstance(part, ToolReturnPart):
            if part.tool_name != ANSWER_TOOL or part.outcome != "retried":
                continue
        elif not isinstance(part, RetryFeedbackPart):
            continue
        details: Any = part.content
        return details if isinstance(details, str) else "; ".join(str(one["msg"]) for one in details)
    return None


def _text(response: "ModelResponse") -> str:
    """Returns the text of an answer; of one by a tool its arguments."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    said = []
    for part in response.parts:
        if isinstance(part, TextPart):
            said.append(part.content)
        elif isinstance(part, ToolCallPart) and part.tool_name == ANSWER_TOOL:
            said.append(part.args_as_json_str())
    return "\n".join(text for text in said if text)


def indented(text: str) -> str:
    """Returns text of a model as lines that begin with two blanks, so that it passes for none of the service's."""
    return "".join(f"  {line}\n" for line in text.split("\n"))
