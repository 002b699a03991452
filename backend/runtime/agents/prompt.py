"""The user message of an agent that calls a model: the step's data as text, and attached files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from backend.common import json_text
from backend.runtime.agents.attachments import Attachment
from backend.runtime.agents.base import StepRequest

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

NOTHING: Final = "There is no input."


def prompt_with_files(request: StepRequest, attached: "Sequence[Attachment]") -> "str | Sequence[UserContent]":
    """Returns the text of `user_prompt`, followed by the attached files in the order of their names in it."""
    from pydantic_ai.messages import BinaryContent

    text = user_prompt(request, attached)
    if not attached:
        return text
    # The identifier is for the transcript: providers get the names in the text.
    files = (BinaryContent(each.data, media_type=each.media_type, identifier=each.path) for each in attached)
    return [text, *files]


def user_prompt(request: StepRequest, attached: Sequence[Attachment] = ()) -> str:
    """Returns parameters, values of needed steps, failure, item and names of files as JSON, then the input text.

    Empty parts are left out. JSON in the prompt contains no tags, and only the closing tag follows the input text, so
    a caller's text cannot change the parts before it.
    """
    parts = [
        f"<{name}>\n{_json_without_tags(values)}\n</{name}>"
        for name, values in (
            ("parameters", request.parameters),
            ("needs", request.needs),
            ("failure", request.failure),
        )
        if values
    ]
    if request.item_index is not None:
        item = json_text.text_of(request.item).replace("<", "\\u003c")
        parts.append(f'<item index="{request.item_index}">\n{item}\n</item>')
    if attached:
        names = json_text.write([each.path for each in attached]).replace("<", "\\u003c")
        parts.append(f"<attached>\n{names}\n</attached>")
    if request.input_text:
        parts.append(f"<input_text>\n{request.input_text}\n</input_text>")
    return "\n\n".join(parts) or NOTHING


def _json_without_tags(values: Mapping[str, Any]) -> str:
    members = (f"{json_text.write(name)}:{json_text.text_of(value)}" for name, value in values.items())
    return f"{{{','.join(members)}}}".replace("<", "\\u003c")
