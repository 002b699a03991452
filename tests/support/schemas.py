"""Judging answers by the OpenAPI description that the service gives of itself, down to every member and format."""

import re
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker

from tests.support.routes import Route
from tests.support.wire import Answer

FORMATS: Final = FormatChecker(formats=())
_PATTERNS: Final = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"),
    "uri-reference": re.compile(r"/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*"),
}


def _matches(name: str) -> Any:
    return lambda value: not isinstance(value, str) or _PATTERNS[name].fullmatch(value) is not None


def _fits_bits(bits: int) -> Any:
    return lambda value: not isinstance(value, int) or -(1 << bits - 1) <= value < 1 << bits - 1


for _name in _PATTERNS:
    FORMATS.checks(_name)(_matches(_name))
for _bits in (32, 64):
    FORMATS.checks(f"int{_bits}")(_fits_bits(_bits))


def misfits(description: Any, route: Route, answer: Answer) -> list[str]:
    """Where a JSON answer differs from what the description declares for its route and status.

    A member that the description does not name is a difference too, and so is a code that the status does not have.
    """
    declared = description["paths"][route.template][route.method.lower()]["responses"]
    media = _followed(description, declared[str(answer.status)])["content"]["application/json"]
    found = differences(description, media["schema"], answer.json())
    if answer.code is not None and answer.code not in media["examples"]:
        found.append(f"$.error.code: {answer.code} is not declared for {answer.status}")
    return found


def differences(description: Any, schema: Any, value: Any) -> list[str]:
    """Where a value differs from a schema of the description, held to what it lists."""
    # References inside the schema are paths into the whole description.
    validator = Draft202012Validator(
        {"components": strict(description["components"]), **strict(schema)}, format_checker=FORMATS
    )
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def strict(schema: Any) -> Any:
    """The schema without other members than those it lists, and with a discriminator that decides."""
    if isinstance(schema, list):
        return [strict(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    if "discriminator" in schema:
        return _decided(**schema["discriminator"])
    narrowed = {name: strict(member) for name, member in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        narrowed.setdefault("additionalProperties", False)
    return narrowed


def _decided(propertyName: str, mapping: dict[str, str]) -> Any:  # noqa: N803 the name is OpenAPI's
    cases = [
        {"if": {"properties": {propertyName: {"const": tag}}}, "then": {"$ref": reference}}
        for tag, reference in mapping.items()
    ]
    return {"required": [propertyName], "properties": {propertyName: {"enum": list(mapping)}}, "allOf": cases}


def _followed(description: Any, node: Any) -> Any:
    while "$ref" in node:
        target = description
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node
