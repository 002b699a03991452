"""Judging answers by the OpenAPI description that the service gives of itself."""

from typing import Any

from jsonschema import Draft202012Validator

from tests.support.routes import Route
from tests.support.wire import Answer


def misfits(description: Any, route: Route, answer: Answer) -> list[str]:
    """Where a JSON answer differs from what the description declares for its route and status."""
    declared = description["paths"][route.template][route.method.lower()]["responses"]
    declared = _followed(description, declared[str(answer.status)])
    schema = declared["content"]["application/json"]["schema"]
    # References inside the schema are paths into the whole description.
    validator = Draft202012Validator({**description, **schema})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer.json())]


def _followed(description: Any, node: Any) -> Any:
    while "$ref" in node:
        target = description
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node
