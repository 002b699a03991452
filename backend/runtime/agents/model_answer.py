"""The answer of an agent that calls a model: the step's value, and its output file."""

from typing import Any, Final

from backend.common import json_text
from backend.common.json_text import UnstorableJsonError, parse_strict
from backend.runtime.agents.base import StepFailed, StepRequest, require_levels, too_deep
from backend.runtime.agents.failures import plain
from backend.settings import StepDataLimits

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
