"""The redaction manifest of a run, as JSON text: status and counts of findings of each stage (contract 21.19)."""

from collections.abc import Mapping
from typing import Final

import orjson

from backend.common import json_text
from backend.common.json_text import JsonMapping, JsonObject

PENDING: Final = "pending"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

_STAGE_COUNTS: Final = ("files", "values", "model_calls")
_RUN_COUNTS: Final = (
    "values",
    "files",
    "binary_files",
    "withheld_files",
    "unsearched_files",
    "emptied_values",
    "model_calls",
    "model_skipped",
)


def pending_manifest(run_id: str, policy: JsonMapping) -> str:
    """Returns a new manifest in which every stage of the policy is pending."""
    manifest = {
        "run_id": run_id,
        "mode": policy["mode"],
        "model": policy["model"],
        "stages": [
            {"stage": stage, "status": PENDING, **dict.fromkeys(_STAGE_COUNTS, 0)} for stage in policy["stages"]
        ],
        "categories": {},
        "counts": dict.fromkeys(_RUN_COUNTS, 0),
    }
    return json_text.write(manifest)


def with_counts(manifest: str, stage: str, counts: JsonMapping) -> str:
    """Returns the manifest with the counts of one stage's sweep added; `counts` are numbers, and `categories`.

    The counts of the run are sums over the stages: a value that two stages find counts twice.
    """
    parsed = orjson.loads(manifest)
    numbers = {name: count for name, count in counts.items() if name != "categories"}
    for entry in parsed["stages"]:
        if entry["stage"] == stage:
            _add(entry, {name: numbers[name] for name in _STAGE_COUNTS})
    _add(parsed["categories"], counts["categories"])
    _add(parsed["counts"], numbers)
    parsed["categories"] = dict(sorted(parsed["categories"].items()))
    return json_text.write(parsed)


def with_status(manifest: str, stage: str, status: str) -> str:
    """Returns the manifest with the status of one stage set, if the policy names the stage."""
    return _with_statuses(manifest, {stage: status})


def ended_manifest(manifest: str, *, began: bool, opened: bool) -> str:
    """Returns the manifest of an ended run: pending stages become completed, or skipped if they never ran.

    `began` says that a step started, `opened` that the outputs were swept before an erasure.
    """
    steps, outputs = (COMPLETED if done else SKIPPED for done in (began, opened))
    return _with_statuses(manifest, {"inputs": SKIPPED, "steps": steps, "outputs": outputs}, replacing=PENDING)


def model_calls(manifest: str) -> int:
    """Returns the number of model calls of the run so far."""
    return int(orjson.loads(manifest)["counts"]["model_calls"])


def _add(to: JsonObject, more: Mapping[str, int]) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count


def _with_statuses(manifest: str, statuses: Mapping[str, str], replacing: str | None = None) -> str:
    """Returns the manifest with these statuses by stage; with `replacing`, only stages of that status change."""
    parsed = orjson.loads(manifest)
    for entry in parsed["stages"]:
        if entry["stage"] in statuses and entry["status"] == (replacing or entry["status"]):
            entry["status"] = statuses[entry["stage"]]
    return json_text.write(parsed)
