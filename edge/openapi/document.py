"""The OpenAPI 3.1 description of the API, from the descriptors (contract 23.2)."""

from functools import cache
from typing import Any, Final

import orjson

from contract.routes import BASE, RouteTable
from contract.versions import API_VERSION
from edge.openapi.failures import OPTIONAL, RATE_LIMIT_HEADERS, REQUEST_ID_EXAMPLE, envelope_schemas
from edge.openapi.operations import operation
from edge.openapi.schemas import RequestSchemas, ResponseSchemas
from edge.openapi.webhooks import webhook_schemas, webhooks
from edge.settings import NO_DOMAIN

_DESCRIPTION: Final = """\
Starts and observes workflows in one governed deployment on behalf of an external system.

- Every call except `GET /health` is made with an API key: `Authorization: Bearer ak_<key_id>.<secret>` together with \
`X-Service-Key-External-Id: ake_<external_id>`.
- Request bodies are JSON of at most 1 MiB (1,048,576 bytes). Unknown body fields are refused, unknown query \
parameters are ignored, and a field given as null counts as absent.
- Every field that a schema requires is always present in an answer; what is not known is null. Times are ISO 8601 \
with milliseconds and an offset.
- Every refusal has the same envelope, `{"error": {"code", "message", "request_id", "details"?}}`. A path that does \
not exist answers 404 `not_found`, a wrong method 405 `method_not_allowed` with `Allow`.
- Each answer lists its headers. Beside those of HTTP itself, the answer to a call with an `Origin` has `Vary` and the \
`Access-Control-` headers of CORS as well.
- On 429 and 503 wait `Retry-After` seconds and send the same request again; a start of a run with the same \
`Idempotency-Key`.
- Bounds of what a step returns, writes and leaves are the defaults; a deployment may set others.
- Poll `GET /runs/{run_id}` no more often than once every 5 seconds per run, or wait with `wait_seconds`: such a call \
is answered as soon as the run changes."""

# In the order of a caller's work.
_TAGS: Final = {
    "Deployment": "Whether the API is there.",
    "Keys": "The calling key.",
    "Workflows": "What the key may run.",
    "Runs": "Start a run, watch it, cancel it, erase its data.",
    "Outputs": "What a finished run made.",
}

_HEADERS: Final = {
    "X-Request-Id": ("Id of the request: the caller's own where it sent a well-formed one.", {"type": "string"}),
    "Cache-Control": ("Always `no-store`.", {"type": "string", "const": "no-store"}),
    "X-Content-Type-Options": ("Always `nosniff`.", {"type": "string", "const": "nosniff"}),
    "Allow": ("The methods of the path.", {"type": "string"}),
    "X-Accel-Buffering": ("`no` on a stream of events.", {"type": "string", "const": "no"}),
    "Retry-After": ("Seconds to wait before the next try.", {"type": "integer", "minimum": 1}),
    "WWW-Authenticate": ("Always `Bearer`.", {"type": "string", "const": "Bearer"}),
    "Location": ("Path of the new run.", {"type": "string", "format": "uri-reference"}),
    "Idempotency-Replayed": ("Always `true`.", {"type": "string", "const": "true"}),
    "Content-Disposition": ("`attachment` with the file name.", {"type": "string"}),
    "Content-Length": ("Bytes of the body.", {"type": "integer", "minimum": 0}),
    "Content-Range": ("The bytes that follow, or `bytes */<size>` of a range that does not fit.", {"type": "string"}),
    "ETag": ("Strong entity tag of a run's state; of an output, its SHA-256.", {"type": "string"}),
    "RateLimit-Limit": ("Requests a minute of the key.", {"type": "integer", "minimum": 1}),
    "RateLimit-Remaining": ("How many of them are left in this minute.", {"type": "integer", "minimum": 0}),
    "RateLimit-Reset": ("Seconds to the next minute.", {"type": "integer", "minimum": 1, "maximum": 60}),
    "Accept-Ranges": ("Always `bytes`.", {"type": "string", "const": "bytes"}),
}


@cache
def openapi_document(app_domain: str) -> bytes:
    """Returns the description as JSON; `app_domain` is the deployment's domain."""
    return orjson.dumps(_document(app_domain))


def _document(app_domain: str) -> dict[str, Any]:
    routes = RouteTable().routes
    requests, responses = RequestSchemas(), ResponseSchemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = paths.setdefault(route.template.removeprefix(BASE), {})
        path[route.method.lower()] = operation(route, requests, responses, routes)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Programmatic Workflow API", "version": API_VERSION, "description": _DESCRIPTION},
        "servers": _servers(app_domain),
        "security": [{"bearerKey": [], "keyExternalId": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "webhooks": webhooks(),
        "components": {
            "securitySchemes": _security_schemes(),
            "parameters": {"X-Request-Id": _request_id()},
            "headers": _headers(),
            "schemas": {**responses.components, **requests.components, **envelope_schemas(), **webhook_schemas()},
        },
    }


def _headers() -> dict[str, Any]:
    """Returns the headers of answers; headers of only some answers of a status have a second, optional component."""
    described = {name: {"description": text, "schema": schema} for name, (text, schema) in _HEADERS.items()}
    # Among the 409 answers, only temporary conflicts say when to try again.
    optional = {f"{name}{OPTIONAL}": described[name] for name in (*RATE_LIMIT_HEADERS, "X-Accel-Buffering")}
    del described["X-Accel-Buffering"]
    return {name: {**header, "required": name != "Retry-After"} for name, header in described.items()} | {
        name: {**header, "required": False} for name, header in optional.items()
    }


def _servers(app_domain: str) -> list[dict[str, Any]]:
    """Returns the API's servers: the deployment's domain, or without a domain the host of this document."""
    served = BASE if app_domain == NO_DOMAIN else f"https://{app_domain}{BASE}"
    return [
        {"url": served, "description": "The address that is served."},
        {
            "url": f"https://{{app_domain}}{BASE}",
            "description": "The deployment by its domain.",
            "variables": {"app_domain": {"default": app_domain, "description": "The deployment's domain."}},
        },
    ]


def _security_schemes() -> dict[str, Any]:
    return {
        "bearerKey": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "ak_<key_id>.<secret>",
            "description": "The API key, shown once when it was created.",
        },
        "keyExternalId": {
            "type": "apiKey",
            "in": "header",
            "name": "X-Service-Key-External-Id",
            "description": "The key's external id `ake_…`; a call with only one of the two is refused.",
        },
    }


def _request_id() -> dict[str, Any]:
    return {
        "name": "X-Request-Id",
        "in": "header",
        "required": False,
        "description": "1 to 128 characters from `A-Z a-z 0-9 . _ - :`, echoed in the answer. One is made when it is "
        "absent or does not fit.",
        "schema": {"type": "string"},
        "example": REQUEST_ID_EXAMPLE,
    }
