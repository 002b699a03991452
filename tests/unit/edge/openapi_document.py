"""The OpenAPI description, and what tests look up in it."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from contract.routes import BASE, Route, RouteTable
from edge.openapi.document import openapi_document
from tests.support.schemas import differences

DOCUMENT: dict[str, Any] = json.loads(openapi_document("workflows.example.org"))
ROUTES = RouteTable().routes

by_operation = pytest.mark.parametrize("route", ROUTES, ids=[route.descriptor.name for route in ROUTES])


def operation_of(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][route.template.removeprefix(BASE)][route.method.lower()]
    return found


def named(name: str) -> dict[str, Any]:
    return next(operation_of(route) for route in ROUTES if route.descriptor.name == name)


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT
    if "$ref" not in value:
        return value
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def parameters(name: str) -> dict[str, dict[str, Any]]:
    return {parameter["name"]: parameter for parameter in map(resolved, named(name)["parameters"])}


def assert_fits(value: Any, schema: dict[str, Any]) -> None:
    assert differences(DOCUMENT, schema, value) == []


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]}).is_valid(value)
