"""Documents of manifests, and the problems that they have."""

import json
from typing import Any

from backend.common.errors import ApiError
from backend.services.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED


def allowed(reason: str) -> str:
    """Returns the part of a reason that says what is allowed, without the value that it refuses."""
    return reason.partition("; it is ")[0]


def problems(document: dict[str, Any]) -> dict[str, str]:
    """Returns the problem of each field, without the value that it refuses; JSON is YAML."""
    try:
        load_manifests([("f", json.dumps(document))], UNBOUNDED)
    except ApiError as error:
        return {name.removeprefix("f:1: "): allowed(reason) for name, reason in error.problems}
    return {}


def problem_fields(document: dict[str, Any]) -> list[str]:
    """Returns the fields that have a problem."""
    return list(problems(document))


def environment(**fields: Any) -> dict[str, Any]:
    """Returns an environment with these fields."""
    return {"kind": "Environment", "name": "e"} | fields


def workflow(**fields: Any) -> dict[str, Any]:
    """Returns a workflow with these fields."""
    return {"kind": "Workflow", "name": "w"} | fields
