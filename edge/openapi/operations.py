"""OpenAPI operation of each route: parameters, body, answers, and links from answers to further calls."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, ServiceDescriptor

from contract.fields import INTEGERS, is_duration, is_timestamp, json_name, message_of, public_fields, spellings
from contract.json_codec.response import ResponseCodec
from contract.routes import Route
from edge.codec.text_fields import EMPTY_IS_ABSENT, query_parser
from edge.openapi.comments import comments
from edge.openapi.failures import EVERYWHERE, OPTIONAL, RATE_LIMIT_HEADERS, references, refusals
from edge.openapi.samples import BODIES, sample
from edge.openapi.schemas import RequestSchemas, ResponseSchemas, Schema, bounded, text
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC, ACCESS_SCOPE, FieldRules, Scope, route_tag

_SCOPES: Final = spellings(Scope.DESCRIPTOR)
_SENTENCE: Final = re.compile(r"[.;] ")
_MAX_DIGITS: Final = 10**18 - 1  # a query integer has up to 18 digits

_TAGS: Final = {"If-None-Match": "Entity tags that the caller has already."}
_RANGES: Final = {
    "Range": "One range of bytes, as `bytes=0-1023`. Several ranges, or a malformed header, give the whole file.",
    "If-Range": "Strong entity tag: the range holds only for these bytes.",
    **_TAGS,
}
_CONDITIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "GetOutputContent": _RANGES,
        "GetOutputsZip": _RANGES,
        "GetRun": _TAGS,
        "ListRunEvents": {
            "Last-Event-ID": "Of a stream: the `id` of the last event received, as `<segment_id>:<seq>`. The stream "
            "begins after that event."
        },
    }
)
# Answers to `Accept: text/event-stream`, in addition to the page.
_STREAMS: Final = MappingProxyType(
    {
        "ListRunEvents": {
            "schema": {
                "type": "string",
                "description": "Server-sent events over all segments to the run's end: `id` is `<segment_id>:<seq>`, "
                "`data` an event as in the page. The last message has `event: end`.",
            },
        }
    }
)
# Client generators read this type as bytes; the answer itself has the type of the zip, or of the output.
_OCTET_STREAM: Final = "application/octet-stream"
_FILE_HEADERS: Final = ("Content-Disposition", "Content-Length", "ETag", "Accept-Ranges")
_FILES: Final = MappingProxyType(
    {
        "GetOutputContent": ("The whole output, in its own media type.", (_OCTET_STREAM, "*/*")),
        "GetOutputsZip": ("The zip.", ("application/zip", _OCTET_STREAM)),
    }
)

_NEXT_PAGE: Final = {"cursor": "next_cursor", "after_seq": "next_after_seq", "segment": "segment_id"}
"""Query parameters for the next page, with the answer's field that each takes its value from."""


def operation(
    route: Route, requests: RequestSchemas, responses: ResponseSchemas, routes: Sequence[Route]
) -> dict[str, Any]:
    """Returns the OpenAPI operation of a route, linked to others; adds its schemas to `requests` and `responses`."""
    rpc = route.descriptor
    assert rpc.containing_service is not None
    text = comments()[rpc.full_name]
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [_tag(rpc.containing_service)],
        "summary": _SENTENCE.split(text, maxsplit=1)[0].rstrip("."),
        "description": f"{text}\n\n{_access(route)}",
        "parameters": _parameters(route),
    }
    if route.takes_body:
        operation["requestBody"] = {
            "required": False,
            "description": "A body of no bytes counts as `{}`.",
            "content": {
                "application/json": {
                    "schema": _body(route, requests),
                    "example": BODIES[rpc.name],
                }
            },
        }
    successes = _successes(route, responses, links(route, routes))
    operation["responses"] = {**successes, **refusals(route)}
    if route.access == ACCESS_PUBLIC:
        operation["security"] = []
    else:
        for success in successes.values():
            success["headers"] |= references(*RATE_LIMIT_HEADERS)
    return operation


def _tag(service: ServiceDescriptor) -> str:
    stated: str = service.GetOptions().Extensions[route_tag]
    return stated or service.name.removesuffix("Service")


def _body(route: Route, requests: RequestSchemas) -> Schema:
    message = route.descriptor.input_type
    names = [
        field.name for field, rules in public_fields(message) if field.name not in route.path_names and not rules.header
    ]
    return requests.reference(f"{message.name.removesuffix('Request')}Body", message, names)


def _access(route: Route) -> str:
    if route.access == ACCESS_PUBLIC:
        return "Needs no key."
    if route.access == ACCESS_SCOPE:
        return f"Needs a key with the scope `{_SCOPES[route.scope]}`."
    return "Needs any valid key."


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters = [
        _parameter(route, field, rules)
        for field, rules in public_fields(route.descriptor.input_type)
        if not route.takes_body or rules.header or field.name in route.path_names
    ]
    parameters += [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in _CONDITIONS.get(route.descriptor.name, {}).items()
    ]
    return [*parameters, {"$ref": "#/components/parameters/X-Request-Id"}]


def _parameter(route: Route, field: FieldDescriptor, rules: FieldRules) -> dict[str, Any]:
    schema = bounded(field, rules) if query_parser(field) is None else text(rules)
    if field.name in route.path_names:
        place = "path"
        schema = {"type": "string", "minLength": 1, "maxLength": rules.max_length}
    elif rules.header:
        place = "header"
    else:
        place = "query"
        if field.cpp_type in INTEGERS or is_duration(field):
            schema.setdefault("maximum", _MAX_DIGITS)
        elif json_name(field, rules) not in EMPTY_IS_ABSENT:
            schema["minLength"] = 1
        if is_timestamp(field):
            schema["format"] = "date-time"
    return {
        "name": rules.header or json_name(field, rules),
        "in": place,
        "required": rules.required,
        "description": comments()[field.full_name],
        "schema": schema,
    }


def _successes(route: Route, schemas: ResponseSchemas, linked: dict[str, Any]) -> dict[str, Any]:
    if route.streaming:
        return _file_responses(*_FILES[route.descriptor.name])
    message = route.descriptor.output_type
    media: dict[str, Any] = {"schema": schemas.reference(message)}
    media["example"] = sample(message, ResponseCodec(message))
    content = {"application/json": media}
    if route.descriptor.name in _STREAMS:
        content["text/event-stream"] = dict(_STREAMS[route.descriptor.name])
    text = comments()[message.full_name]
    if route.descriptor.name == "StartRun":
        return {
            "200": _success("A replay: the run exists already.", content, ("Idempotency-Replayed",), linked),
            "201": _success("A new run.", content, ("Location",), linked),
        }
    if route.descriptor.name == "GetRun":
        return {
            "200": _success(text, content, ("ETag",), linked),
            "304": _success("The caller has this state already.", None, ("ETag",)),
        }
    success = _success(text, content, linked=linked)
    if route.descriptor.name in _STREAMS:
        success["headers"] |= references("X-Accel-Buffering", suffix=OPTIONAL)
    return {str(route.success_status): success}


def _file_responses(whole: str, media_types: Sequence[str]) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {
        "200": _success(whole, content, _FILE_HEADERS),
        "206": _success("The range asked for.", content, (*_FILE_HEADERS, "Content-Range")),
        "304": _success("The caller has these bytes already.", None, ("ETag",)),
    }


def _success(
    text: str, content: dict[str, Any] | None, headers: Sequence[str] = (), linked: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "description": text,
        "headers": references(*EVERYWHERE, *headers),
        **({"content": content} if content else {}),
        **({"links": linked} if linked else {}),
    }


def operation_id(route: Route) -> str:
    """Returns the `operationId` of a route."""
    return route.descriptor.name[0].lower() + route.descriptor.name[1:]


def links(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """Returns the links of a route's success by name; empty if no other route takes a value from the answer."""
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
    """Returns the fields of an answer, or of its first item, as runtime expressions."""
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
