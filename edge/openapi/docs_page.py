"""The API reference as one HTML page without scripts or external files, made from the OpenAPI description."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any, Final

import orjson

from edge.openapi.document import openapi_document

Json = Mapping[str, Any]

_CODE: Final = re.compile(r"`([^`]+)`")
_STYLE: Final = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_OPERATION: Final = "operation-"
_SCHEMA: Final = "schema-"


@cache
def docs_page(app_domain: str) -> bytes:
    """Returns the page as UTF-8; `app_domain` is the deployment's domain."""
    template = resources.files("edge").joinpath("docs_page.html").read_text(encoding="utf-8")
    style = _STYLE.search(template)
    assert style is not None
    digest = hashlib.sha256(style[1].encode()).digest()
    document = orjson.loads(openapi_document(app_domain))
    page = Template(template).substitute(
        style_hash=f"sha256-{base64.b64encode(digest).decode()}",
        title=escape(document["info"]["title"]),
        contents="\n".join(_contents(document)),
        main="\n".join(_main(document)),
    )
    return page.encode()


def _contents(document: Json) -> Iterator[str]:
    yield f'<p><a href="#top">{escape(document["info"]["title"])}</a></p>'
    for tag in document["tags"]:
        operations = (
            f'<li><a href="#{_OPERATION}{operation["operationId"]}">{_verb(verb)}{_breakable(path)}</a></li>'
            for verb, path, operation in _operations(document, tag["name"])
        )
        yield f"<p>{escape(tag['name'])}</p><ul>{''.join(operations)}</ul>"
    hooks = (
        f'<li><a href="#{_OPERATION}{hook["operationId"]}">{_breakable(name)}</a></li>'
        for name, hook in _webhooks(document)
    )
    yield f"<p>Webhooks</p><ul>{''.join(hooks)}</ul>"
    records = (f'<li><a href="#{_SCHEMA}{name}">{escape(name)}</a></li>' for name in document["components"]["schemas"])
    yield f"<p>Records</p><ul>{''.join(records)}</ul>"


def _main(document: Json) -> Iterator[str]:
    info, base = document["info"], document["servers"][0]["url"]
    yield f'<h1 id="top">{escape(info["title"])}</h1>'
    yield f'<p class="soft">Contract of {escape(info["version"])} · <code>{escape(base)}</code> · '
    yield '<a href="/openapi.json">OpenAPI description</a></p>'
    yield _prose(info["description"])
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>"
        yield _prose(tag["description"])
        for verb, path, operation in _operations(document, tag["name"]):
            yield from _operation(document, base, verb, path, operation)
    yield "<h2>Webhooks</h2>"
    for name, hook in _webhooks(document):
        yield from _webhook(name, hook)
    yield "<h2>Records</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield f'<h3 id="{_SCHEMA}{name}">{escape(name)}</h3>'
        yield _prose(schema["description"])
        if "oneOf" in schema:
            yield f"<p>{_kind(schema)}</p>"
        else:
            yield _fields(schema)


def _operations(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            if tag in operation["tags"]:
                yield verb, path, operation


def _webhooks(document: Json) -> Iterator[tuple[str, Json]]:
    return ((name, item["post"]) for name, item in document["webhooks"].items())


def _webhook(name: str, hook: Json) -> Iterator[str]:
    media = hook["requestBody"]["content"]["application/json"]
    yield f'<h3 id="{_OPERATION}{hook["operationId"]}">{_verb("post")}<code>{escape(name)}</code></h3>'
    yield _prose(hook["description"])
    yield _table(
        ("Header", "Value", "Meaning"),
        ((_code(p["name"]), _type(p["schema"], required=True), _prose(p["description"])) for p in hook["parameters"]),
    )
    yield f"<p>Body: {_type(media['schema'])}</p>"
    yield _table(
        ("Your answer", "Meaning"), ((_code(s), _prose(r["description"])) for s, r in hook["responses"].items())
    )


def _operation(document: Json, base: str, verb: str, path: str, operation: Json) -> Iterator[str]:
    yield f'<h3 id="{_OPERATION}{operation["operationId"]}">{_verb(verb)}<code>{escape(path)}</code></h3>'
    yield _prose(operation["description"])
    parameters = [_resolved(document, parameter) for parameter in operation["parameters"]]
    yield "<h4>Parameters</h4>"
    yield _table(
        ("Name", "In", "Value", "Meaning"),
        (
            (_code(p["name"]), p["in"], _type(p["schema"], required=p["required"]), _prose(p["description"]))
            for p in parameters
        ),
    )
    body = operation.get("requestBody")
    if body:
        media = body["content"]["application/json"]
        yield "<h4>Body</h4>"
        yield _prose(body["description"])
        yield _fields(_resolved(document, media["schema"]))
    yield "<h4>Answers</h4>"
    refusals = {}
    for status, response in operation["responses"].items():
        if int(status) < 400:
            yield from _success(status, response)
        else:
            refusals[status] = response
    yield "<h4>Refusals</h4>"
    yield _table(("Status", "Code", "Meaning"), _codes(refusals))
    yield "<h4>Example</h4>"
    yield _preformatted(_curl(base, verb, path, operation, parameters))


def _success(status: str, response: Json) -> Iterator[str]:
    headers = ", ".join(map(_code, response["headers"]))
    content = response.get("content", {})
    kinds = ", ".join(
        _type(media["schema"]) if "$ref" in media["schema"] else _code(media_type)
        for media_type, media in content.items()
    )
    yield f"<p><strong>{status}</strong> {_inline(response['description'])} {kinds}"
    yield f'<br><span class="soft">Headers: {headers}</span></p>'
    for media in content.values():
        if "example" in media:
            shown = json.dumps(media["example"], indent=2, ensure_ascii=False)
            yield f"<details><summary>Example of the body</summary>{_preformatted(shown)}</details>"


def _codes(refusals: Mapping[str, Json]) -> Iterator[tuple[str, ...]]:
    for status, response in refusals.items():
        for line in response["description"].splitlines():
            code, _, meaning = line.removeprefix("- ").partition(": ")
            yield status, _inline(code), _inline(meaning)


def _fields(schema: Json) -> str:
    required = schema.get("required", ())
    return _table(
        ("Field", "Value", "Meaning"),
        (
            (_code(name), _type(field, required=None if name in required else False), _prose(field["description"]))
            for name, field in _described_fields(schema)
        ),
    )


def _described_fields(schema: Json, prefix: str = "") -> Iterator[tuple[str, Json]]:
    for name, field in schema["properties"].items():
        yield prefix + name, {"description": "", **field}
        if "properties" in field:
            yield from _described_fields(field, f"{prefix}{name}.")


def _curl(base: str, verb: str, path: str, operation: Json, parameters: Iterable[Json]) -> str:
    words = ["curl" if verb == "get" else f"curl -X {verb.upper()}"]
    if operation.get("security") != []:
        words += ['-H "Authorization: Bearer $API_KEY"', '-H "X-Service-Key-External-Id: $EXTERNAL_ID"']
    words += [f'-H "{p["name"]}: contract-4711"' for p in parameters if p["in"] == "header" and p["required"]]
    if "requestBody" in operation:
        example = operation["requestBody"]["content"]["application/json"]["example"]
        words.append(f"-d '{json.dumps(example)}'")
    if "application/json" not in next(iter(operation["responses"].values()))["content"]:
        words.append("-OJ")
    address = re.sub(r"\{([a-z_]+)\}", lambda name: "$" + name[1].upper(), path)
    return " \\\n  ".join([*words, f'"{base}{address}"'])


def _type(schema: Json, *, required: bool | None = None) -> str:
    """Returns in words what a schema allows; with `required` also whether the value must be given."""
    text = _kind(schema)
    notes = [*_bounds(schema)]
    if required is not None:
        notes.append("required" if required else "optional")
    return text + (f'<br><span class="soft">{", ".join(notes)}</span>' if notes else "")


def _kind(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_SCHEMA}{name}">{escape(name)}</a>'
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in schema:
            return " or ".join(map(_kind, schema[alternatives]))
    if "const" in schema:
        return _code(schema["const"])
    kinds = schema.get("type", "any JSON")
    kinds = list(kinds) if isinstance(kinds, list) else [kinds]
    if "array" in kinds and "items" in schema:
        kinds[kinds.index("array")] = f"array of {_kind(schema['items'])}"
    if "object" in kinds and isinstance(schema.get("additionalProperties"), dict):
        kinds[kinds.index("object")] = f"object of {_kind(schema['additionalProperties'])}"
    if schema.get("format") == "date-time":
        kinds[kinds.index("string")] = "date-time"
    return " or ".join(kinds)


def _bounds(schema: Json) -> Iterator[str]:
    for least, most, unit in (
        ("minLength", "maxLength", " characters"),
        ("minimum", "maximum", ""),
        ("minProperties", "maxProperties", " members"),
    ):
        if least in schema and most in schema:
            yield f"{schema[least]:,} to {schema[most]:,}{unit}"
        elif least in schema:
            yield f"at least {schema[least]:,}{unit}"
        elif most in schema:
            yield f"at most {schema[most]:,}{unit}"
    if schema.get("pattern") == "^[ -~]*$":
        yield "printable ASCII"
    if "default" in schema:
        yield f"default {schema['default']}"


def _resolved(document: Json, value: Json) -> Json:
    if "$ref" not in value:
        return value
    for part in value["$ref"].removeprefix("#/").split("/"):
        document = document[part]
    return document


def _verb(verb: str) -> str:
    return f'<span class="verb {verb}">{verb.upper()}</span> '


def _breakable(path: str) -> str:
    return escape(path).replace("/", "<wbr>/")


def _prose(text: str) -> str:
    """Returns Markdown as HTML; descriptions use only paragraphs, lists and code."""
    blocks = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines and all(line.startswith("- ") for line in lines):
            blocks.append(f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in lines)}</ul>")
        elif lines:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "".join(blocks)


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _preformatted(text: str) -> str:
    return f"<pre><code>{escape(text, quote=False)}</code></pre>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
