"""Links from an answer to calls about the resources that it names, and to the next page of a list."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.descriptor import Descriptor

from contract.fields import json_name, message_of, public_fields
from contract.routes import Route

_NEXT_PAGE: Final = {"cursor": "next_cursor", "after_seq": "next_after_seq", "segment": "segment_id"}
"""Query parameters that go on where an answer ended, with the field of the answer that they take."""


def operation_id(route: Route) -> str:
    """Returns the name of a route's operation."""
    return route.descriptor.name[0].lower() + route.descriptor.name[1:]


def links(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """Returns the links of a route's success by name; none if no other call asks for anything in the answer."""
    answered = _answered(route.descriptor.output_type)
    asked = {name: f"$request.path.{name}" for name in route.path_names}
    found: dict[str, Any] = {}
    for other in routes:
        if (
            other is not route
            and answered.keys() & set(other.path_names)
            and {*answered, *asked} >= set(other.path_names)
        ):
            found[operation_id(other)] = _link(other, {name: {**asked, **answered}[name] for name in other.path_names})
    more = {
        name: answered[field] for name, field in _NEXT_PAGE.items() if name in _queried(route) and field in answered
    }
    if more:
        found["nextPage"] = _link(route, {**asked, **more})
    return found


def _answered(message: Descriptor) -> dict[str, str]:
    """The fields of an answer, or of the first of its items, as runtime expressions."""
    answered: dict[str, str] = {}
    for field, rules in public_fields(message):
        if rules.inline:
            answered |= _answered(message_of(field))
        elif field.name == "items":
            first = "$response.body#/items/0/"
            answered |= {name: first + text.partition("#/")[2] for name, text in _answered(message_of(field)).items()}
        else:
            name = json_name(field, rules)
            answered[name] = f"$response.body#/{name}"
    return answered


def _queried(route: Route) -> set[str]:
    return {json_name(field, rules) for field, rules in public_fields(route.descriptor.input_type)} - set(
        route.path_names
    )


def _link(route: Route, parameters: dict[str, str]) -> dict[str, Any]:
    return {"operationId": operation_id(route), "parameters": parameters}
