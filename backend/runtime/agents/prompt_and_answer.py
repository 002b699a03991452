"""The prompt of a step that asks a model, and the answer as the step's value and output file."""

from collections.abc import Mapping
from typing import Any, Final

from backend.common import json_text
from backend.common.json_text import UnstorableJsonError, parse_strict
from backend.runtime.agents.base import StepFailed, StepRequest, require_levels, too_deep
from backend.runtime.agents.failures import plain
from backend.settings import StepDataLimits

NOTHING: Final = "There is no input."
TEXT_ANSWER: Final = "answer.md"
STRUCTURED_ANSWER: Final = "answer.json"


def storable(answer: Any, limits: StepDataLimits) -> Any:
    """Returns the answer as JSON that can be stored; raises StepFailed."""
    try:
        payload = json_text.write(answer).encode(errors="surrogatepass")
    except RecursionError:
        raise too_deep("the model's answer", limits.json_levels) from None
    if len(payload) > limits.result_bytes:
        raise StepFailed("InvalidResult", f"the model's answer is larger than {limits.result_bytes} bytes of JSON")
    require_levels(payload, limits.json_levels, "the model's answer")
    try:
        return parse_strict(payload)
    except UnstorableJsonError as error:
        raise StepFailed("InvalidResult", f"the model's answer {plain(error)}") from error


def write_answer(request: StepRequest, value: Any) -> None:
    """Writes the answer to the step's output file."""
    request.outputs.mkdir(parents=True, exist_ok=True)
    if isinstance(value, str):
        (request.outputs / TEXT_ANSWER).write_text(value, encoding="utf-8")
    else:
        (request.outputs / STRUCTURED_ANSWER).write_text(json_text.write(value), encoding="utf-8")


def user_prompt(request: StepRequest) -> str:
    """Returns parameters, values of needed steps, item and failure as JSON, then the input text; empty parts left out.

    JSON in the prompt contains no tags, and only the closing tag follows the input text, so a caller's text cannot
    change the parts before it.
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
    if request.input_text:
        parts.append(f"<input_text>\n{request.input_text}\n</input_text>")
    return "\n\n".join(parts) or NOTHING


def _json_without_tags(values: Mapping[str, Any]) -> str:
    members = (f"{json_text.write(name)}:{json_text.text_of(value)}" for name, value in values.items())
    return f"{{{','.join(members)}}}".replace("<", "\\u003c")
