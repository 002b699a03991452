"""The result of a run: the result step's value, judged by the version's schema. (SPEC.md, Run detail)."""

from typing import Any, Final, NamedTuple

from backend import json_text
from backend.ids import new_id
from backend.outputs.store import NewOutput
from backend.runs.lifecycle import RunResult
from backend.runtime.promotion import new_output
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"
SUMMARY_TOO_LONG: Final = (
    f"The result's summary_markdown has more than {LARGEST_INLINE_BYTES:,} bytes: it is only in the output result.json."
)

_SUMMARY: Final = "summary_markdown"


class StoredResult(NamedTuple):
    """What a run shows of a result, the output that holds it, and what the run is warned of."""

    result: RunResult
    output: NewOutput
    warnings: list[str]


def make_result(objects: ObjectStore, run_id: str, value: str, mismatch: str | None) -> StoredResult:
    """Stores the value, JSON text, as `result.json`; `mismatch` is what of it does not fit its schema, if anything.

    Raises:
        OSError: the store could not take it.
    """
    # Most values are spared being read: the name stands in the text as it is, or not at all.
    parsed = json_text.parse(value) if value.startswith("{") and f'"{_SUMMARY}"' in value else None
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
    output = new_output(run_id, output_id, RESULT_PATH, None, size, sha256)
    return StoredResult(result, output, [SUMMARY_TOO_LONG] if is_summary_too_long(parsed) else [])


def inline_result(text: str) -> str | None:
    """The result as a run shows it: JSON text up to 262,144 bytes."""
    return text if len(text.encode()) <= LARGEST_INLINE_BYTES else None


def summary_of(value: Any) -> str | None:
    """The summary that a result carries, within the same bound; a longer one is only in `result.json`."""
    summary = _summary(value)
    return None if summary is None else inline_result(summary)


def is_summary_too_long(value: Any) -> bool:
    """Whether a result carries a summary that is beyond the bound."""
    return _summary(value) is not None and summary_of(value) is None


def _summary(value: Any) -> str | None:
    summary = value.get(_SUMMARY) if isinstance(value, dict) else None
    return summary if isinstance(summary, str) else None
