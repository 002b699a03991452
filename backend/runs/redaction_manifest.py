"""The redaction manifest of a run: what each stage has found so far, in counts only. (DECISIONS.md, 6)."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from backend import json_text

PENDING: Final = "pending"
COMPLETED: Final = "completed"

_OF_A_STAGE: Final = ("files", "values", "model_calls")
_NOTHING: Final = dict.fromkeys(_OF_A_STAGE, 0)


def pending_manifest(run_id: str, policy: Mapping[str, Any]) -> str | None:
    """The manifest with every stage pending, as JSON text; None when the policy is off."""
    if policy["mode"] == "off":
        return None
    manifest = {
        "run_id": run_id,
        "mode": policy["mode"],
        "model": policy["model"],
        "stages": [{"stage": stage, "status": PENDING, **_NOTHING} for stage in policy["stages"]],
        "categories": {},
        "counts": _NOTHING,
    }
    return json_text.write(manifest)


def with_counts(manifest: str, stage: str, counts: Mapping[str, Any]) -> str:
    """The manifest with what a sweep of one stage has found; `counts` has `categories` beside plain numbers."""
    parsed = orjson.loads(manifest)
    numbers = {name: count for name, count in counts.items() if name != "categories"}
    for entry in parsed["stages"]:
        if entry["stage"] == stage:
            _add(entry, {name: numbers[name] for name in _OF_A_STAGE})
    _add(parsed["categories"], counts["categories"])
    _add(parsed["counts"], numbers)
    parsed["categories"] = dict(sorted(parsed["categories"].items()))
    return json_text.write(parsed)


def completed(manifest: str, *stages: str) -> str:
    """The manifest with stages that are over; without any named, all of them."""
    parsed = orjson.loads(manifest)
    for entry in parsed["stages"]:
        if not stages or entry["stage"] in stages:
            entry["status"] = COMPLETED
    return json_text.write(parsed)


def model_calls(manifest: str) -> int:
    """How many calls of its model the run has made so far."""
    return int(orjson.loads(manifest)["counts"]["model_calls"])


def _add(to: dict[str, Any], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        to[name] = to.get(name, 0) + count
