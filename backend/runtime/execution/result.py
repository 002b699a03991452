"""The result of a run: the result step's value, judged by the version's schema. (SPEC.md, Run detail)."""

from typing import Any, Final, NamedTuple

from backend.ids import new_id
from backend.outputs.sql import NewOutput
from backend.runs.lifecycle import RunResult
from backend.runtime.execution.promotion import new_output
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"
SUMMARY_TOO_LONG: Final = (
    f"The result's summary_markdown has more than {LARGEST_INLINE_BYTES:,} bytes: it is only in the output result.json."
)

SUMMARY: Final = "summary_markdown"


class StoredResult(NamedTuple):
    """What a run shows of a result, the output that holds it, and what the run is warned of."""

    result: RunResult
    output: NewOutput
    warnings: list[str]


def make_result(
    objects: ObjectStore, run_id: str, value: str, mismatch: str | None, summary: str | None = None
) -> StoredResult:
    """Stores the value, JSON text, as `result.json`.

    `mismatch` is what of it does not fit its schema, and `summary` the summary that it carries, if any.

    Raises:
        OSError: the store could not take it.
    """
    output_id = new_id("out")
    size, sha256 = objects.put_bytes(object_key(run_id, output_id), value.encode())
    result = RunResult(
        value=inline_result(value) if mismatch is None else None,
        output_id=output_id,
        size_bytes=size,
        sha256=sha256,
        error_code=None if mismatch is None else SCHEMA_MISMATCH,
        error_message=mismatch,
        summary_markdown=None if summary is None else inline_result(summary),
    )
    output = new_output(run_id, output_id, RESULT_PATH, None, size, sha256)
    return StoredResult(result, output, summary_warnings(summary))


def inline_result(text: str) -> str | None:
    """The result as a run shows it: JSON text up to 262,144 bytes."""
    return text if len(text.encode()) <= LARGEST_INLINE_BYTES else None


def may_carry_summary(value: str) -> bool:
    """Whether a value, JSON text, may carry a summary: the name stands in the text as it is, or not at all."""
    return value.startswith("{") and f'"{SUMMARY}"' in value


def carried_summary(value: Any) -> str | None:
    """The summary that a value carries, of any length."""
    summary = value.get(SUMMARY) if isinstance(value, dict) else None
    return summary if isinstance(summary, str) else None


def summary_warnings(summary: str | None) -> list[str]:
    """What a run is warned of for its summary: one beyond the bound is only in `result.json`."""
    return [] if summary is None or inline_result(summary) is not None else [SUMMARY_TOO_LONG]
