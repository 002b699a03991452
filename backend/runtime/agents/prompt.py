"""What an agent that calls a model is told of its run."""

from collections.abc import Mapping
from typing import Any

from backend import json_text
from backend.runtime.agents.base import StepRequest

NOTHING = "There is no input."


def user_prompt(request: StepRequest) -> str:
    """The run's parameters and the needed steps' values as JSON, then the input text as it is; nothing that is empty.

    No JSON in it can hold a tag, and nothing follows the input text but its own closing tag: whatever a caller writes,
    the parts before it stay what they are.
    """
    parts = [
        f"<{name}>\n{_json_without_tags(values)}\n</{name}>"
        for name, values in (("parameters", request.parameters), ("needs", request.needs))
        if values
    ]
    if request.input_text:
        parts.append(f"<input_text>\n{request.input_text}\n</input_text>")
    return "\n\n".join(parts) or NOTHING


def _json_without_tags(values: Mapping[str, Any]) -> str:
    members = (f"{json_text.write(name)}:{json_text.text_of(value)}" for name, value in values.items())
    return f"{{{','.join(members)}}}".replace("<", "\\u003c")
