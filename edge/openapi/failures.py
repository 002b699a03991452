"""The answers that refuse a call: the envelope, and the codes by status (contract 7.1, 7.2)."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import orjson

from contract.refusals import BY_CODE, ErrorRule
from contract.routes import Route
from edge.openapi.comments import comments
from edge.openapi.schemas import ANY_OBJECT, Schema
from workflow_api.v1.errors_pb2 import ErrorReason
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC

REQUEST_ID_EXAMPLE: Final = "req_01k5xg3v8m2r7d9w4h6t1c0bqz"

# Codes that the edge may answer on any route, before or instead of the RPC.
_ALWAYS: Final = ("invalid_request", "method_not_allowed", "payload_too_large", "internal")
_WITH_KEY: Final = (
    "unauthorized",
    "forbidden",
    "outside_time_window",
    "rate_limited",
    "runtime_error",
    "runtime_unreachable",
    "deployment_updating",
)
EVERYWHERE: Final = ("X-Request-Id", "Cache-Control", "X-Content-Type-Options")
"""Headers of every answer."""
RATE_LIMIT_HEADERS: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
"""Headers of every answer to a call with a valid key."""
OPTIONAL: Final = "Optional"
"""Suffix of the components of headers that only some answers of a status have."""

# Answers that are also given before the key is known. With a key, a 401 or 503 ends a call that waits.
_WITHOUT_KEY: Final = frozenset({400, 401, 413, 500, 502, 503})
# Codes with `Retry-After`, in addition to codes whose rule names the seconds.
_RETRIED: Final = frozenset({"idempotency_conflict", "rate_limited", "quota_exceeded"})
_EXAMPLE: Final = re.compile(r"\s*Example: (?P<text>.*)\.?$")
_DETAILS: Final = re.compile(r"details (?P<json>[\[{].*[\]}])")


def refusals(route: Route) -> dict[str, Any]:
    """Returns the refusing responses of a route by status."""
    codes = [*route.errors, *_ALWAYS, *(() if route.access == ACCESS_PUBLIC else _WITH_KEY)]
    by_status: dict[int, list[ErrorRule]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(BY_CODE[code].http_status, []).append(BY_CODE[code])
    public = route.access == ACCESS_PUBLIC
    return {
        str(status): _response(status, rules, rate_limit={} if public or status == 405 else _rate_limit(status))
        for status, rules in sorted(by_status.items())
    }


def references(*names: str, suffix: str = "") -> dict[str, Schema]:
    """Returns headers of an answer by their names, as references to the components."""
    return {name: {"$ref": f"#/components/headers/{name}{suffix}"} for name in names}


def _rate_limit(status: int) -> dict[str, Schema]:
    return references(*RATE_LIMIT_HEADERS, suffix=OPTIONAL if status in _WITHOUT_KEY else "")


def meaning(code: str) -> str:
    """Returns the meaning of an error code, for people."""
    return _EXAMPLE.sub("", _comment(code))


def envelope_schemas() -> dict[str, Schema]:
    """Returns the component schemas of the error envelope."""
    problem = {
        "type": "object",
        "description": "What is wrong with one field, parameter or header.",
        "required": ["name", "reason"],
        "properties": {
            "name": {"type": "string", "description": "The field, parameter or header; `body` for the whole body."},
            "reason": {"type": "string", "description": "For a person: what is allowed."},
        },
    }
    envelope = {
        "type": "object",
        "description": "The body of every refusal.",
        "required": ["error"],
        "additionalProperties": False,
        "properties": {
            "error": {
                "type": "object",
                "description": "Why the call was refused.",
                "required": ["code", "message", "request_id"],
                "additionalProperties": False,
                "properties": {
                    "code": {"type": "string", "description": "Stable and machine-readable.", "enum": list(BY_CODE)},
                    "message": {"type": "string", "description": "For a person."},
                    "request_id": {"type": "string", "description": "The same as the header `X-Request-Id`."},
                    "details": {
                        "description": "Only where there is structured information: a list of problems, or an object "
                        "whose members belong to the code.",
                        "anyOf": [
                            dict(ANY_OBJECT),
                            {"type": "array", "items": {"$ref": "#/components/schemas/Problem"}},
                        ],
                    },
                },
            }
        },
    }
    return {"Problem": problem, "Error": envelope}


def _response(status: int, rules: Sequence[ErrorRule], rate_limit: dict[str, Schema]) -> dict[str, Any]:
    codes = [rule.code for rule in rules]
    headers = [*EVERYWHERE]
    if _RETRIED & set(codes) or any(rule.retry_after for rule in rules):
        headers.append("Retry-After")
    headers += {401: ["WWW-Authenticate"], 405: ["Allow"], 416: ["Content-Range"]}.get(status, [])
    return {
        "description": "\n".join(f"- `{code}`: {meaning(code)}" for code in codes),
        "headers": references(*headers) | rate_limit,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Error"},
                "examples": {rule.code: {"value": _example(rule)} for rule in rules},
            }
        },
    }


def _example(rule: ErrorRule) -> dict[str, Any]:
    error: dict[str, Any] = {"code": rule.code, "message": rule.message, "request_id": REQUEST_ID_EXAMPLE}
    found = _DETAILS.search(_comment(rule.code))
    if found:
        error["details"] = orjson.loads(found["json"])
    return {"error": error}


@cache
def _comment(code: str) -> str:
    return comments()[f"{ErrorReason.DESCRIPTOR.full_name}.ERROR_REASON_{code.upper()}"]
