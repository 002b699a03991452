"""The redaction manifest of a run as it begins. (DECISIONS.md, 6)."""

from collections.abc import Mapping
from typing import Any, Final

from backend import json_text

_NOTHING: Final = {"files": 0, "values": 0, "model_calls": 0}


def pending_manifest(run_id: str, policy: Mapping[str, Any]) -> str | None:
    """The manifest with every stage pending, as JSON text; None when the policy is off."""
    if policy["mode"] == "off":
        return None
    manifest = {
        "run_id": run_id,
        "mode": policy["mode"],
        "model": policy["model"],
        "stages": [{"stage": stage, "status": "pending", **_NOTHING} for stage in policy["stages"]],
        "categories": {},
        "counts": _NOTHING,
    }
    return json_text.write(manifest)
