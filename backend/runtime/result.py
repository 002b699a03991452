"""The result of a run: the result step's value, judged by the version's schema. (SPEC.md, Run detail)."""

from typing import Any, Final

from backend import json_text
from backend.ids import new_id
from backend.outputs.objects import object_key
from backend.outputs.store import NewOutput
from backend.runs.lifecycle import RunResult
from backend.runtime.promotion import new_output
from backend.storage.objects import ObjectStore

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"

_LONGEST_MESSAGE: Final = 1_000


def make_result(objects: ObjectStore, run_id: str, value: str, schema: Any) -> tuple[RunResult, NewOutput]:
    """Stores the value, JSON text, as `result.json`; gives what the run shows of it, and the output.

    Raises:
        OSError: the store could not take it.
    """
    text = value.encode()
    output_id = new_id("out")
    size, sha256 = objects.put_bytes(object_key(run_id, output_id), text)
    parsed = json_text.parse(text)
    mismatch = None if schema is None else schema_mismatch(schema, parsed)
    summary = parsed.get("summary_markdown") if isinstance(parsed, dict) else None
    result = RunResult(
        value=value if mismatch is None and size <= LARGEST_INLINE_BYTES else None,
        output_id=output_id,
        size_bytes=size,
        sha256=sha256,
        error_code=None if mismatch is None else SCHEMA_MISMATCH,
        error_message=mismatch,
        summary_markdown=summary if isinstance(summary, str) else None,
    )
    return result, new_output(run_id, output_id, RESULT_PATH, None, size, sha256)


def schema_mismatch(schema: Any, value: Any) -> str | None:
    """What does not fit first, and where; None when the value fits the schema (Draft 2020-12 where it names none)."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    validator = validator_for(schema, default=Draft202012Validator)(schema)
    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return "The result is nested too deeply to be judged by the schema."
    if error is None:
        return None
    return f"The result does not fit its schema at {error.json_path}: {error.message}"[:_LONGEST_MESSAGE]
