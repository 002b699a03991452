"""The result of a run: the result step's value, judged by the version's schema. (SPEC.md, Run detail)."""

from typing import Any, Final

from backend import json_text
from backend.ids import new_id
from backend.outputs.store import NewOutput
from backend.runs.lifecycle import RunResult
from backend.runtime.promotion import new_output
from backend.runtime.schema_check import schema_mismatch
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"


def make_result(objects: ObjectStore, run_id: str, value: str, schema: Any) -> tuple[RunResult, NewOutput]:
    """Stores the value, JSON text, as `result.json`; gives what the run shows of it, and the output.

    Raises:
        OSError: the store could not take it.
    """
    parsed = json_text.parse(value)
    mismatch = None if schema is None else schema_mismatch(schema, parsed)
    output_id = new_id("out")
    size, sha256 = objects.put_bytes(object_key(run_id, output_id), value.encode())
    result = RunResult(
        value=inline_result(value) if mismatch is None else None,
        output_id=output_id,
        size_bytes=size,
        sha256=sha256,
        error_code=None if mismatch is None else SCHEMA_MISMATCH,
        error_message=mismatch,
        summary_markdown=summary_of(parsed),
    )
    return result, new_output(run_id, output_id, RESULT_PATH, None, size, sha256)


def inline_result(text: str) -> str | None:
    """The result as a run shows it: JSON text up to 262,144 bytes."""
    return text if len(text.encode()) <= LARGEST_INLINE_BYTES else None


def summary_of(value: Any) -> str | None:
    """The summary that a result carries, within the same bound; a longer one is only in `result.json`."""
    summary = value.get("summary_markdown") if isinstance(value, dict) else None
    return inline_result(summary) if isinstance(summary, str) else None
