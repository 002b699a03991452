"""The redaction manifest of a run: what each stage has found so far, in counts only. (DECISIONS.md, 6)."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from backend import json_text

PENDING: Final = "pending"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

_OF_A_STAGE: Final = ("files", "values", "model_calls")
_OF_A_RUN: Final = (
    "values",
    "files",
    "binary_files",
    "withheld_files",
    "emptied_values",
    "model_calls",
    "model_skipped",
)


def pending_manifest(run_id: str, policy: Mapping[str, Any]) -> str | None:
    """The manifest with every stage pending, as JSON text; None when the policy is off."""
    if policy["mode"] == "off":
        return None
    manifest = {
        "run_id": run_id,
        "mode": policy["mode"],
        "model": policy["model"],
        "stages": [{"stage": stage, "status": PENDING, **dict.fromkeys(_OF_A_STAGE, 0)} for stage in policy["stages"]],
        "categories": {},
        "counts": dict.fromkeys(_OF_A_RUN, 0),
    }
    return json_text.write(manifest)


def with_counts(manifest: str, stage: str, counts: Mapping[str, Any]) -> str:
    """The manifest with what a sweep of one stage has found; `counts` has `categories` beside plain numbers.

    The run's own counts are the sums over the stages: what two stages find is counted twice.
    """
    parsed = orjson.loads(manifest)
    numbers = {name: count for name, count in counts.items() if name != "categories"}
    for entry in parsed["stages"]:
        if entry["stage"] == stage:
            _add(entry, {name: numbers[name] for name in _OF_A_STAGE})
    _add(parsed["categories"], counts["categories"])
    _add(parsed["counts"], numbers)
    parsed["categories"] = dict(sorted(parsed["categories"].items()))
    return json_text.write(parsed)


def with_status(manifest: str, stage: str, status: str) -> str:
    """The manifest with how it stands with one stage, where the policy names it."""
    return _with_statuses(manifest, {stage: status})


def ended(manifest: str, *, began: bool, opened: bool) -> str:
    """The manifest of a run that is over; what is still pending has come to its end, or never came about.

    `began` says that steps did, `opened` that the outputs were swept, and not erased before.
    """
    steps, outputs = (COMPLETED if done else SKIPPED for done in (began, opened))
    return _with_statuses(manifest, {"inputs": SKIPPED, "steps": steps, "outputs": outputs}, of=PENDING)


def model_calls(manifest: str) -> int:
    """How many calls of its model the run has made so far."""
    return int(orjson.loads(manifest)["counts"]["model_calls"])


def _add(to: dict[str, Any], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count


def _with_statuses(manifest: str, statuses: Mapping[str, str], of: str | None = None) -> str:
    """The manifest with these statuses by stage; with `of`, only in the place of that one."""
    parsed = orjson.loads(manifest)
    for entry in parsed["stages"]:
        if entry["stage"] in statuses and entry["status"] == (of or entry["status"]):
            entry["status"] = statuses[entry["stage"]]
    return json_text.write(parsed)
