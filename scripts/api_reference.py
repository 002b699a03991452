"""The reference of the HTTP API and of its errors as Markdown, from the OpenAPI description and the protos."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import grpc
import orjson

from contract.refusals import BY_REASON
from edge.openapi.document import openapi_document
from edge.settings import NO_DOMAIN

Json = Mapping[str, Any]

_SCHEMAS: Final = "#/components/schemas/"
_CODES: Final = {code.value[0]: code.name for code in grpc.StatusCode}


def api_reference() -> str:
    """Returns a page with every operation and every record of the API."""
    return "\n".join(_lines(orjson.loads(openapi_document(NO_DOMAIN)))) + "\n"


def error_reference() -> str:
    """Returns a page with every error code."""
    head = (
        '# Errors\n\nEvery refusal has the envelope `{"error": {"code", "message", "request_id", "details"?}}`.\n'
        "Decide by `code`: messages are for people.\n\n| Code | HTTP | gRPC | Retry after | What it means |\n"
        "|---|---|---|---|---|\n"
    )
    rules = sorted(BY_REASON.values(), key=lambda rule: (rule.http_status, rule.code))
    return head + "".join(
        f"| `{rule.code}` | {rule.http_status} | `{_CODES[rule.grpc_code]}` "
        f"| {f'{rule.retry_after} s' if rule.retry_after else ''} | {_cell(rule.message)} |\n"
        for rule in rules
    )


def _lines(document: Json) -> Iterator[str]:
    yield f"# HTTP API\n\nContract of {document['info']['version']}. {_SERVED}\n\n{document['info']['description']}\n"
    for tag in document["tags"]:
        yield f"## {tag['name']}\n\n{tag['description']}\n"
        for path, operations in document["paths"].items():
            for verb, operation in operations.items():
                if tag["name"] in operation.get("tags", ()):
                    yield from _operation(document, verb, path, operation)
    yield "## Webhooks\n"
    for name, item in document["webhooks"].items():
        hook = item["post"]
        yield f"### {name}\n\n`POST` of a `WebhookMessage` to the receiver\n\n{hook['description']}\n"
    yield "## Records\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n"
        yield f"{schema['description']}\n" if "description" in schema else ""
        yield from _fields(schema)


_SERVED: Final = "A running service has the same at `/docs`, and the OpenAPI 3.1 description at `/openapi.json`."


def _operation(document: Json, verb: str, path: str, operation: Json) -> Iterator[str]:
    yield f"### {operation['summary']}\n\n`{verb.upper()} {path}`\n"
    if operation.get("description"):
        yield f"{operation['description']}\n"
    parameters = [_resolved(document, given) for given in operation.get("parameters", ())]
    if parameters:
        yield "| Parameter | In | Value | What it is |\n|---|---|---|---|"
        for given in parameters:
            name = f"`{given['name']}`{', required' if given.get('required') else ''}"
            yield f"| {name} | {given['in']} | {_shape(given['schema'])} | {_cell(given.get('description', ''))} |"
        yield ""
    if body := operation.get("requestBody"):
        for kind, content in body["content"].items():
            yield f"Body, `{kind}`: {_shape(content['schema'])}\n"
            yield from _fields(content["schema"])
    yield "| Status | Answer |\n|---|---|"
    for status, given in sorted(operation["responses"].items()):
        answer = _resolved(document, given)
        records = [_shape(content["schema"]) for content in answer.get("content", {}).values() if "schema" in content]
        yield f"| {status} | {_cell(answer.get('description', ''))} {', '.join(records)} |"
    yield ""


def _resolved(document: Json, given: Json) -> Json:
    """Returns the object that a reference within the description names, or the given object itself."""
    found: Any = given
    while "$ref" in found:
        path = found["$ref"].removeprefix("#/").split("/")
        found = document
        for name in path:
            found = found[name]
    resolved: Json = found
    return resolved


def _fields(schema: Json) -> Iterator[str]:
    if "properties" not in schema:
        return
    yield "| Field | Value | What it is |\n|---|---|---|"
    for name, field in schema["properties"].items():
        yield f"| `{name}` | {_shape(field)} | {_cell(field.get('description', ''))} |"
    yield ""


def _shape(schema: Json | bool) -> str:
    """Returns the type of a value, in words with links to records."""
    if isinstance(schema, bool) or not schema:
        return "any value"
    if reference := schema.get("$ref"):
        name = reference.removeprefix(_SCHEMAS)
        return f"[{name}](#{name.lower()})"
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_shape(each) for each in schema[word]))
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "any value")
    named = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    if "items" in schema:
        named += f" of {_shape(schema['items'])}"
    bounds = [f"{word} {schema[word]}" for word in _BOUNDS if word in schema]
    if "format" in schema:
        bounds.append(schema["format"])
    return f"{named} ({', '.join(bounds)})" if bounds else named


_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "default")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _cell(text: str) -> str:
    # Cells have no lists.
    return text.removeprefix("- ").replace("\n- ", "<br>").replace("\n", " ").replace("|", "\\|")
