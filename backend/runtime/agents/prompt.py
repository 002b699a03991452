"""The prompt of an agent that calls a model."""

from collections.abc import Mapping
from typing import Any

from backend import json_text
from backend.runtime.agents.base import StepRequest

NOTHING = "There is no input."


def user_prompt(request: StepRequest) -> str:
    """Returns the run's parameters and the needed steps' values as JSON, then the input text; empty parts are left out.

    No JSON in it can hold a tag, and only its own closing tag follows the input text: so no caller's text can change
    the parts before it.
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
