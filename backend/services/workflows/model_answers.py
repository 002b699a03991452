"""The answers of agents that call a model, as definitions have them: form, and bounds of calls."""

from typing import Final

from backend.common.json_text import JsonMapping

FORMS: Final = ("tool", "json_schema", "prompt")
"""Forms in which a model is asked for an answer that fits a schema."""

USUAL_MODEL_CALLS: Final = 50
MOST_MODEL_CALLS: Final = 200
_USUAL_CORRECTIONS: Final = 2


def most_model_calls(agent: JsonMapping) -> int:
    """Returns the number of calls to its model that one attempt may make."""
    return int(agent.get("max_model_calls") or USUAL_MODEL_CALLS)


def most_corrections(agent: JsonMapping) -> int:
    """Returns the number of times that a model may correct an answer that does not fit, within its calls."""
    return int(agent.get("max_model_calls") or _USUAL_CORRECTIONS)


def form_problem(agent: JsonMapping) -> str | None:
    """Returns the problem of an agent that names a form of its answers but no schema; None if there is none."""
    if agent.get("structured") is not None and agent.get("output_schema") is None:
        return "is required where structured is given: without a schema the answer is a text"
    return None
