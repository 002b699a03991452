"""The result of a run: the result step's value, judged by the version's schema (contract 14.9, 14.11)."""

from typing import Any, Final, NamedTuple

from backend.ids import new_id
from backend.outputs.sql import NewOutput
from backend.runs.lifecycle import RunResult
from backend.runtime.promotion.step_outputs import new_output
from backend.storage.object_keys import object_key, result_row_key
from backend.storage.objects import ContentDigest, ObjectStore, StoredObject

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"
SUMMARY_TOO_LONG: Final = (
    f"The result's summary_markdown has more than {LARGEST_INLINE_BYTES:,} bytes: it is only in the output result.json."
)

SUMMARY: Final = "summary_markdown"


class StoredResult(NamedTuple):
    """A result as the run shows it, the output that holds it, and warnings."""

    result: RunResult
    output: NewOutput
    warnings: list[str]


def make_result(
    objects: ObjectStore, run_id: str, value: str, mismatch: str | None, summary: str | None = None
) -> StoredResult:
    """Stores the value, JSON text, as `result.json`.

    `mismatch` says how it does not fit its schema, and `summary` is the summary that it carries, if any.

    Raises:
        OSError: the store did not take it.
    """
    output_id = new_id("out")
    key = object_key(run_id, output_id)
    return _made(run_id, output_id, key, value, objects.put_bytes(key, value.encode()), mismatch, summary)


def result_in_row(run_id: str, value: str, summary: str | None = None) -> StoredResult:
    """Makes an inline result that fits its schema, whose `result.json` is read from the row of its run."""
    digest = ContentDigest()
    digest.update(value.encode())
    return _made(run_id, new_id("out"), result_row_key(run_id), value, digest.stored(), None, summary)


def _made(
    run_id: str,
    output_id: str,
    key: str,
    value: str,
    stored: StoredObject,
    mismatch: str | None,
    summary: str | None,
) -> StoredResult:
    result = RunResult(
        value=inline_result(value) if mismatch is None else None,
        output_id=output_id,
        size_bytes=stored.size_bytes,
        sha256=stored.sha256,
        error_code=None if mismatch is None else SCHEMA_MISMATCH,
        error_message=mismatch,
        summary_markdown=None if summary is None else inline_result(summary),
    )
    output = new_output(run_id, output_id, RESULT_PATH, None, stored, key)
    return StoredResult(result, output, summary_warnings(summary))


def inline_result(text: str) -> str | None:
    """Returns JSON text of up to 262,144 bytes, which a run shows; None for longer text."""
    return text if len(text.encode()) <= LARGEST_INLINE_BYTES else None


def may_carry_summary(value: str) -> bool:
    """Returns whether a value, JSON text, may carry a summary; the text is searched for the member's name."""
    return value.startswith("{") and f'"{SUMMARY}"' in value


def carried_summary(value: Any) -> str | None:
    """Returns the summary that a value carries, of any length."""
    summary = value.get(SUMMARY) if isinstance(value, dict) else None
    return summary if isinstance(summary, str) else None


def summary_warnings(summary: str | None) -> list[str]:
    """Returns the warning about a summary beyond the bound, which only `result.json` holds."""
    return [] if summary is None or inline_result(summary) is not None else [SUMMARY_TOO_LONG]
